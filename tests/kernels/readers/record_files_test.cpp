// Files of records as sources of pipelines: in order, and by number through an index.
#include "troupe/kernels/readers/record_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/error_of.hpp"
#include "tests/kernels/readers/compressed.hpp"
#include <troupe/kernels/readers/example.hpp>
#include <troupe/kernels/readers/json_lines.hpp>
#include <troupe/kernels/readers/record_formats.hpp>
#include <troupe/kernels/readers/record_index.hpp>
#include <troupe/kernels/readers/tfrecord.hpp>

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Texts = std::vector<std::string>;

// Record i of a file: some bytes that say so, of another length each.
std::string record(const std::string& file, int i) {
  return fmt::format("{} {} {}", file, i, std::string(static_cast<std::size_t>(i * i % 97), 'x'));
}

class RecordFilesTest : public ::testing::Test {
 protected:
  void put(const std::string& path, const std::string& bytes) {
    if (!files_.exists(path)) files_.create(path);
    files_.content(path) = bytes;
  }
  void put_records(const std::string& path, int count) {
    std::string bytes;
    for (int i = 0; i < count; ++i) bytes += record_of(record(path, i));
    put(path, bytes);
  }
  IndexedRecords indexed(const std::string& path) { return {files_, {path}, tfrecord_format()}; }
  Error refused(const std::string& path) {
    return error_of([&] { indexed(path); });
  }

  MemoryFileSystem files_;
};

// Parses a record to its length and counts the calls.
class LengthParser final : public RecordParser {
 public:
  const BatchSchema& schema() const override { return schema_; }
  void parse(std::string_view record, const RecordPlace&, std::int64_t row, std::span<Tensor> out) const override {
    ++calls;
    out[0].mutable_data<std::int64_t>()[row] = std::ssize(record);
  }
  std::vector<Tensor> parse(std::string_view record, const RecordPlace& place) const override {
    ++calls;
    if (record.find("bad") != std::string_view::npos) fail(Code::data_loss, "{}: byte {}", place.file, place.offset);
    return {Tensor::scalar<std::int64_t>(std::ssize(record))};
  }
  mutable int calls = 0;

 private:
  BatchSchema schema_{{"length", DType::i64, Shape{}}};
};

// Also when the cursor, and the memory of its file, are gone.
TEST_F(RecordFilesTest, RecordsAreParsedWhenElementsAreMade) {
  put("/a", record_of("one") + record_of("passed over") + record_of("three") + record_of("bad"));
  const auto parser = std::make_shared<LengthParser>();
  const RecordFiles source(files_, {"/a"}, tfrecord_format(), parser);
  auto cursor = source.open(0);
  const auto first = cursor->next_unmade();
  EXPECT_TRUE(cursor->skip());
  const auto third = cursor->next_unmade(), last = cursor->next_unmade();
  EXPECT_EQ(cursor->next_unmade(), nullptr);
  EXPECT_FALSE(cursor->skip());
  cursor.reset();
  EXPECT_EQ(parser->calls, 0);
  EXPECT_EQ(first->make().at(0).item<std::int64_t>(), 3);
  std::vector<Tensor> rows = {Tensor(DType::i64, Shape{2})};
  third->make_row(1, rows);
  EXPECT_EQ(rows[0].data<std::int64_t>()[1], 5);
  EXPECT_EQ(parser->calls, 2);
  EXPECT_THAT(error_of([&] { last->make(); }).message(), HasSubstr("/a: byte "));
}

TEST_F(RecordFilesTest, EachFileIsASplitThatGoesOnFromAnyPosition) {
  put_records("/a", 50);
  put("/b", gzip(record_of("only")));
  const RecordFiles source(files_, {"/a", "/b"}, tfrecord_format());
  EXPECT_EQ(source.splits(), 2u);
  std::vector<Tensor> element;
  ASSERT_TRUE(source.open(1)->next(element));
  EXPECT_EQ(element.at(0).item<std::string>(), "only");
  const auto cursor = source.open(0);
  std::vector<std::uint64_t> positions;
  for (int i = 0; i < 50; ++i) {
    positions.push_back(cursor->position());
    ASSERT_TRUE(cursor->next(element));
    EXPECT_EQ(element.at(0).item<std::string>(), record("/a", i));
  }
  EXPECT_FALSE(cursor->next(element));
  for (const int i : {49, 0, 30, 31, 7}) {
    cursor->seek(positions[static_cast<std::size_t>(i)]);
    ASSERT_TRUE(cursor->next(element));
    EXPECT_EQ(element.at(0).item<std::string>(), record("/a", i));
  }
}

TEST_F(RecordFilesTest, DamagedRecordsThatAreLeftOutAreCounted) {
  put_records("/a", 3);
  files_.content("/a")[20] ^= 1;
  const RecordFiles source(files_, {"/a"}, tfrecord_format({.skip_damaged = true}));
  const auto cursor = source.open(0);
  std::vector<Tensor> element;
  ASSERT_TRUE(cursor->next(element));
  EXPECT_EQ(element.at(0).item<std::string>(), record("/a", 1));
  EXPECT_EQ(source.skipped(), 1u);
  EXPECT_THAT(error_of([&] { IndexedRecords(files_, {"/a"}, tfrecord_format({.skip_damaged = true})); }).message(),
              HasSubstr("/a: 1 records are damaged"));
}

TEST_F(RecordFilesTest, RecordsThatDoNotParseAreLeftOutToo) {
  put("/f.csv", "a,b\n1,2\n3\nx,4\n5,6\n");
  CsvOptions options{.columns = {{.name = "a", .dtype = DType::i64}, {.name = "b", .dtype = DType::i64}}};
  const auto source_of = [&] {
    return std::get<data::SplitsStage>(data::csv("/f.csv", options, {.files = &files_}).stage()->kind).source;
  };
  std::vector<Tensor> element;
  auto source = source_of();
  auto cursor = source->open(0);
  ASSERT_TRUE(cursor->next(element));
  EXPECT_EQ(error_of([&] { cursor->next(element); }).message(),
            "/f.csv: byte 8: the row has 1 columns, but must have 2");

  std::vector<std::string> damage;
  options.records = {.skip_damaged = true, .on_damage = [&](const Error& error) { damage.push_back(error.message()); }};
  source = source_of();
  cursor = source->open(0);
  ASSERT_TRUE(cursor->next(element));
  const std::uint64_t second = cursor->position();
  ASSERT_TRUE(cursor->next(element));
  EXPECT_EQ(element.at(0).item<std::int64_t>(), 5);
  EXPECT_FALSE(cursor->next(element));
  EXPECT_THAT(damage, ::testing::ElementsAre("/f.csv: byte 8: the row has 1 columns, but must have 2",
                                             "/f.csv: byte 10: column 1 of 2 ('a'): 'x' is no i64"));
  EXPECT_EQ(source->skipped(), 2u);
  // However they are read, the same records are elements.
  cursor->seek(second);
  std::vector<Tensor> rows = {Tensor(DType::i64, Shape{1}), Tensor(DType::i64, Shape{1})};
  ASSERT_TRUE(cursor->next_row(0, rows));
  EXPECT_EQ(rows[1].data<std::int64_t>()[0], 6);
  cursor->seek(second);
  EXPECT_EQ(cursor->next_unmade()->make().at(0).item<std::int64_t>(), 5);
  cursor->seek(0);
  EXPECT_TRUE(cursor->skip());
  EXPECT_TRUE(cursor->skip());
  EXPECT_FALSE(cursor->skip());
}

TEST_F(RecordFilesTest, AnyRecordIsReadByItsNumber) {
  put_records("/a", 40);
  put_records("/b", 0);
  put_records("/c", 300);
  const IndexedRecords source(files_, {"/a", "/b", "/c"}, tfrecord_format());
  ASSERT_EQ(source.size(), 340u);
  const auto check = [&](std::uint64_t first, std::uint64_t step) {
    for (std::uint64_t i = first; i < source.size(); i += step)
      ASSERT_EQ(source.read(i).at(0).item<std::string>(),
                i < 40 ? record("/a", static_cast<int>(i)) : record("/c", static_cast<int>(i) - 40));
  };
  check(0, 1);
  std::thread other([&] { check(3, 7); });
  check(1, 11);
  other.join();
  EXPECT_TRUE(files_.exists("/a.index"));
}

TEST_F(RecordFilesTest, AnIndexIsMadeOnce) {
  put_records("/a", 9);
  indexed("/a");
  const std::string index = files_.content("/a.index");
  files_.start_counting();
  EXPECT_EQ(indexed("/a").size(), 9u);
  EXPECT_EQ(files_.operations(), 0u);
  files_.remove("/a.index");
  files_.full_at = 0;
  EXPECT_EQ(indexed("/a").size(), 9u);  // nothing can be written
  EXPECT_FALSE(files_.exists("/a.index"));
  files_.full_at = MemoryFileSystem::kNever;
  indexed("/a");
  EXPECT_EQ(files_.content("/a.index"), index);
}

TEST_F(RecordFilesTest, AnIndexOfAnotherFileIsRefused) {
  put_records("/a", 9);
  indexed("/a");
  files_.content("/a") += record_of("one more");
  EXPECT_EQ(refused("/a").code(), Code::failed_precondition);
  EXPECT_THAT(refused("/a").message(), HasSubstr("/a.index: is not of the file as it is now: remove it"));
  put_records("/a", 9);
  files_.content("/a")[14] ^= 1;  // as long as before
  EXPECT_THAT(refused("/a").message(), HasSubstr("is not of the file as it is now"));
  put_records("/a", 9);
  EXPECT_THAT(error_of([&] {
                read_index(files_, "/a", {"lines", {}});
              }).message(),
              HasSubstr("/a.index: counts tfrecord, not lines"));
}

TEST_F(RecordFilesTest, ADamagedIndexIsRefused) {
  put_records("/a", 9);
  indexed("/a");
  const std::string whole = files_.content("/a.index");
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    put("/a.index", whole.substr(0, bytes));
    EXPECT_EQ(refused("/a").code(), Code::data_loss) << bytes;
    std::string flipped = whole;
    flipped[bytes] ^= 16;
    put("/a.index", flipped);
    EXPECT_THAT(refused("/a").message(), HasSubstr("/a.index: ")) << bytes;
  }
}

TEST_F(RecordFilesTest, IndicesAreNoDataOfTheirOwn) {
  put_records("/a", 9);
  indexed("/a");
  put("/b.index", record_of("a file of its own"));
  EXPECT_THAT(data_files_matching(files_, "/*"), ElementsAre("/a", "/b.index"));
}

TEST_F(RecordFilesTest, CompressedFilesHaveNoIndex) {
  put("/a", gzip(record_of("one")));
  EXPECT_EQ(refused("/a").code(), Code::failed_precondition);
  EXPECT_THAT(refused("/a").message(), HasSubstr("/a: is compressed (gzip): its records cannot be read alone"));
}

TEST_F(RecordFilesTest, PipelinesFindTheirFilesAndParseThem) {
  const auto example = [](std::int64_t label) {
    return example_of(std::vector<NamedTensor>{{"label", Tensor::scalar(label)}});
  };
  files_.make_directory("/d");
  put("/d/2.tfrecord", record_of(example(7)) + record_of(example(8)));
  put("/d/1.tfrecord", record_of(example(5)));
  const auto parser = std::make_shared<ExampleParser>(
      std::vector<ExampleFeature>{{.name = "label", .dtype = DType::i64, .shape = Shape{}}});
  const data::Pipeline by_number =
      data::records("/d/*.tfrecord", tfrecord_format(), parser, {.files = &files_, .addressable = true});
  EXPECT_TRUE(by_number.addressable());
  EXPECT_EQ(by_number.size(), 3u);
  EXPECT_EQ(by_number.schema(), (BatchSchema{{"label", DType::i64, Shape{}}}));
  const auto& source = *std::get<data::IndexedStage>(by_number.stage()->kind).source;
  EXPECT_EQ(source.read(0).at(0).item<std::int64_t>(), 5);
  EXPECT_EQ(source.read(2).at(0).item<std::int64_t>(), 8);
  const data::Pipeline in_order = data::records("/d/*.tfrecord", tfrecord_format(), nullptr, {.files = &files_});
  EXPECT_EQ(in_order.forward_because(), "stage 'tfrecord /d/*.tfrecord' reads its files in order");
  EXPECT_EQ(in_order.schema(), (BatchSchema{{"record", DType::string, Shape{}}}));
  EXPECT_EQ(error_of([&] { data::records("/d/*.csv", tfrecord_format(), nullptr, {.files = &files_}); }).code(),
            Code::not_found);
}

TEST_F(RecordFilesTest, TextAndFixedRecordsAreReadByNumberToo) {
  put("/lines", "first\r\n\n\nsecond\nthird");
  const IndexedRecords lines(files_, {"/lines"}, lines_format({.skip_empty = true, .header_lines = 1}));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines.read(1).at(0).item<std::string>(), "third");
  EXPECT_EQ(lines.read(0).at(0).item<std::string>(), "second");
  EXPECT_THAT(error_of([&] { IndexedRecords(files_, {"/lines"}, lines_format()); }).message(),
              HasSubstr("/lines.index: counts lines behind 1, without empty ones, not lines"));
  put("/fixed", "hh111222333f");
  const IndexedRecords fixed(files_, {"/fixed"},
                             fixed_format({.record_bytes = 3, .header_bytes = 2, .footer_bytes = 1}));
  ASSERT_EQ(fixed.size(), 3u);
  EXPECT_EQ(fixed.read(2).at(0).item<std::string>(), "333");
  put("/json", "{\"a\": 1}\n\n{\"a\": 2}\n");
  const auto parser = std::make_shared<JsonLinesParser>(std::vector<JsonField>{{.name = "a", .dtype = DType::i64}});
  const IndexedRecords json(files_, {"/json"}, lines_format({.skip_empty = true}), parser);
  EXPECT_EQ(json.read(1).at(0).item<std::int64_t>(), 2);
}

TEST_F(RecordFilesTest, TabSeparatedValuesAreColumnsToo) {
  put("/t.tsv", gzip("size\tname\n1\t\"a\", b\n"));
  const data::Pipeline rows = data::csv("/*.tsv", {.format = {.separator = '\t', .quote = '\0'}}, {.files = &files_});
  EXPECT_EQ(to_string(rows.schema()), "size i64[], name string[]");
  std::vector<Tensor> element;
  ASSERT_TRUE(std::get<data::SplitsStage>(rows.stage()->kind).source->open(0)->next(element));
  EXPECT_EQ(element.at(1).item<std::string>(), "\"a\", b");
}

TEST_F(RecordFilesTest, CsvFilesHaveTheColumnsOfTheirHeader) {
  put("/1.csv", "size,name,price\n1.5,\"a, b\",10\n2.5,c,20\n");
  put("/2.csv", "size,name,price\n3.5,d,30\n");
  const data::Pipeline all = data::csv("/*.csv", {}, {.files = &files_, .addressable = true});
  EXPECT_EQ(
      all.schema(),
      (BatchSchema{{"size", DType::f32, Shape{}}, {"name", DType::string, Shape{}}, {"price", DType::i64, Shape{}}}));
  EXPECT_EQ(all.size(), 3u);
  const auto& source = *std::get<data::IndexedStage>(all.stage()->kind).source;
  EXPECT_EQ(source.read(0).at(1).item<std::string>(), "a, b");
  EXPECT_EQ(source.read(2).at(2).item<std::int64_t>(), 30);
  std::vector<Tensor> rows = {Tensor(DType::f32, Shape{2}), Tensor(DType::string, Shape{2}),
                              Tensor(DType::i64, Shape{2})};
  source.read_row(1, 1, rows);
  EXPECT_EQ(rows[0].data<float>()[1], 2.5f);
  put("/3.csv", "size,title,price\n3.5,d,30\n");
  const Error error = error_of([&] { data::csv("/*.csv", {}, {.files = &files_}); });
  EXPECT_EQ(error.message(), "/3.csv: has the columns size, title, price, expected size, name, price");
}

}  // namespace
}  // namespace troupe::testing
