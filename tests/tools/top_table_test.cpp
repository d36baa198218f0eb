#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/top/table.hpp"

namespace troupe::top {
namespace {

using ::testing::ElementsAre;

Table example() {
  Table out{
      .columns = {{"task"}, {"count", Align::right}, {"what it does", Align::left, 40, true}, {"last", Align::right}}};
  const auto add = [&](const char* task, std::optional<double> count, const char* does) {
    out.rows.push_back(
        {.key = task,
         .cells = {
             {task, {}}, {count ? std::to_string(static_cast<int>(*count)) : "-", count}, {does, {}}, {"7", 7.0}}});
  };
  add("worker/2", 30, "computes a slot of a step");
  add("worker/10", std::nullopt, "waits");
  add("ps/0", 5, "waits");
  return out;
}

std::vector<std::string> keys(const Table& table) {
  std::vector<std::string> out;
  for (const Row& row : table.rows) out.push_back(row.key);
  return out;
}

TEST(TopTable, IsSortedByNumbersAndTextsAndWhatIsUnknownIsLast) {
  Table table = example();
  sort(table, 0, false);
  EXPECT_THAT(keys(table), ElementsAre("ps/0", "worker/2", "worker/10"));
  sort(table, 1, true);
  EXPECT_THAT(keys(table), ElementsAre("worker/2", "ps/0", "worker/10"));
  sort(table, 1, false);
  EXPECT_THAT(keys(table), ElementsAre("ps/0", "worker/2", "worker/10"));
  sort(table, 3, true);  // equal: as they were
  EXPECT_THAT(keys(table), ElementsAre("ps/0", "worker/2", "worker/10"));
}

TEST(TopTable, KeepsRowsWithAllWords) {
  Table table = example();
  filter(table, "WAITS work");
  EXPECT_THAT(keys(table), ElementsAre("worker/10"));
  filter(table, "");
  EXPECT_EQ(table.rows.size(), 1u);
  filter(table, "gone");
  EXPECT_THAT(plain_text(lay_out(table, {})), ::testing::StartsWith(" task"));
}

TEST(TopTable, IsAsWideAsItsTextsWithoutALimit) {
  EXPECT_EQ(plain_text(lay_out(example(), {.sorted = 1, .descending = true, .selected = 2})),
            R"( task      count▼ what it does              last
 worker/2      30 computes a slot of a step    7
 worker/10      - waits                        7
>ps/0           5 waits                        7
)");
}

TEST(TopTable, FitsTheWidthAndSaysThatThereIsMore) {
  EXPECT_EQ(plain_text(lay_out(example(), {.width = 43})), R"( task      count what it does         last
 worker/2     30 computes a slot of …    7
 worker/10     - waits                   7
 ps/0          5 waits                   7
)");
  EXPECT_EQ(plain_text(lay_out(example(), {.width = 38})), R"( task      count what it does        ▶
 worker/2     30 computes a slot of …
 worker/10     - waits
 ps/0          5 waits
)");
  EXPECT_EQ(plain_text(lay_out(example(), {.width = 38, .first_column = 1, .top = 1, .rows = 1})),
            R"(◀task      what it does          last
 worker/10 waits                    7
)");
  for (std::size_t columns = 1; columns < 60; ++columns)
    for (const Line& line : lay_out(example(), {.width = columns, .selected = 0})) {
      std::size_t used = 0;
      for (const Span& span : line) used += width(span.text);
      EXPECT_LE(used, columns) << columns;
    }
}

// A page for a log: nothing is left out, and one long text does not make every row as long.
TEST(TopTable, AsAWholeALongTextFollowsItsRow) {
  Table table = example();
  table.rows[1].cells[2].text = "waits for version 7 of the parameters, of which two slots of three are there";
  const Layout whole{.width = 43, .whole = true};
  EXPECT_EQ(plain_text(lay_out(table, whole)), R"( task      count what it does         last
 worker/2     30                         7
          computes a slot of a step
 worker/10     -                         7
          waits for version 7 of the
            parameters, of which two slots
            of three are there
 ps/0          5 waits                   7
)");
  EXPECT_EQ(plain_text(lay_out(example(), {.width = 100, .whole = true})), plain_text(lay_out(example(), {})));
  EXPECT_EQ(plain_text(lay_out(example(), {.width = 20, .whole = true})), R"( task      count what it does last
 worker/2     30                 7
          computes a
            slot of
            a step
 worker/10     - waits           7
 ps/0          5 waits           7
)");
}

}  // namespace
}  // namespace troupe::top
