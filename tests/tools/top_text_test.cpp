#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/top/text.hpp"

namespace troupe::top {
namespace {

using ::testing::ElementsAre;

TEST(TopText, NothingOfANameIsACommandForTheTerminal) {
  EXPECT_EQ(clean("dense/weights é 層 ▁"), "dense/weights é 層 ▁");
  EXPECT_EQ(clean("a\x1b[31mb\x07\r\n\t\x7f"), "a\uFFFD[31mb\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(clean("\xc2\x9b"
                  "31m"),
            "\uFFFD31m");                                              // the one-character form of ESC [
  EXPECT_EQ(clean("\u202egnp\u200b\u2066"), "\uFFFDgnp\uFFFD\uFFFD");  // directions, and no width
  EXPECT_EQ(clean("\xff\xc0\xaf\xed\xa0\x80\xe2\x82"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD");  // overlong, surrogate, cut off
  EXPECT_EQ(clean(std::string("a\0b", 3)), "a\uFFFDb");
  std::string every;
  for (int byte = 0; byte < 256; ++byte) every += static_cast<char>(byte);
  for (const char c : clean(every))
    EXPECT_TRUE(static_cast<unsigned char>(c) >= ' ' && c != 127) << static_cast<int>(c);
  for (int first = 0x80; first < 0xA0; ++first)  // no byte of 8-bit controls is alone
    EXPECT_EQ(clean(std::string(1, static_cast<char>(first))), "\uFFFD") << first;
}

TEST(TopText, IsCutAndFilledToColumns) {
  EXPECT_EQ(width("層a…"), 4u);
  EXPECT_EQ(fit("abc", 5), "abc  ");
  EXPECT_EQ(fit("abc", 5, Align::right), "  abc");
  EXPECT_EQ(fit("abcdef", 4), "abc…");
  EXPECT_EQ(fit("層層層", 4), "層… ");
  EXPECT_EQ(fit("abc", 0), "");
  for (std::size_t columns = 0; columns < 12; ++columns)
    for (const Align align : {Align::left, Align::right})
      EXPECT_EQ(width(fit("a層bé層c", columns, align)), columns) << (align == Align::left ? "left" : "right");
}

TEST(TopText, IsBrokenAtBlanks) {
  EXPECT_THAT(wrap("one two three\n  deep line here\n", 10),
              ElementsAre("one two", "  three", "  deep", "    line", "    here"));
  EXPECT_THAT(wrap("abcdefghijklm", 5), ElementsAre("abcde", "fghij", "klm"));
  EXPECT_THAT(wrap("a\x1b\nb", 0), ElementsAre("a\uFFFD", "b"));
  EXPECT_THAT(wrap("one two", 3), ElementsAre("one", "two"));
  for (const std::string& line : wrap("層層層層層 層層", 3)) EXPECT_LE(width(line), 3u) << line;
  for (const std::string& line : wrap("層層", 1)) EXPECT_FALSE(line.empty());  // and it ends
}

TEST(TopText, KeepsItsWidthInAscii) {
  const std::string text = "µ層…▲▁█é▌×";
  EXPECT_EQ(ascii(text), "u??~^_#?#x");
  EXPECT_EQ(ascii(text).size(), width(text));
}

TEST(TopText, ShortensNamesOfTasksAndDevices) {
  EXPECT_EQ(shorten("/job:ps/task:12"), "ps/12");
  EXPECT_EQ(shorten("'x' on /job:worker/task:0/device:CPU:1; /job:ps/task:0"), "'x' on worker/0/CPU:1; ps/0");
  for (const char* other : {"", "/job:", "/job:/task:1", "/job:a", "/job:a/task:", "/job:a/task:x", "job:a/task:1"})
    EXPECT_EQ(shorten(other), other);
}

TEST(TopText, NumbersInTextsCountByTheirValue) {
  EXPECT_TRUE(natural_less("worker/2", "worker/10"));
  EXPECT_FALSE(natural_less("worker/10", "worker/2"));
  EXPECT_TRUE(natural_less("a", "b"));
  EXPECT_TRUE(natural_less("a", "a1"));
  EXPECT_FALSE(natural_less("a1", "a1"));
  EXPECT_TRUE(natural_less("CPU:99999999999999999999", "CPU:100000000000000000000"));
}

TEST(TopText, FindsAllWordsWhateverTheirCase) {
  EXPECT_TRUE(has_words("ps/0\nShard\nbusy", "SHARD ps"));
  EXPECT_FALSE(has_words("ps/0\nShard", "shard worker"));
  EXPECT_TRUE(has_words("x", "  "));
}

TEST(TopText, TellsNumbersShortly) {
  EXPECT_EQ(exact_text(1'234'567), "1,234,567");
  EXPECT_EQ(exact_text(999), "999");
  EXPECT_EQ(count_text(9'999), "9,999");
  EXPECT_EQ(count_text(12'345), "12.3k");
  EXPECT_EQ(count_text(~std::uint64_t{0}), "18.4E");
  EXPECT_EQ(rate_text(std::nullopt), "-");
  EXPECT_EQ(rate_text(0.44), "0.4");
  EXPECT_EQ(rate_text(9.96), "10");
  EXPECT_EQ(rate_text(1e6), "1.0M");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(64 << 20), "64.0 MiB");
  EXPECT_EQ(bytes_text(128 << 20), "128 MiB");
  EXPECT_EQ(share_text(0.123), "12%");
  EXPECT_EQ(loss_text(0.25), "0.2500");
  EXPECT_EQ(loss_text(1.23e-5), "1.2e-05");
  EXPECT_EQ(loss_text(0), "0.0000");
  EXPECT_EQ(duration_text(12), "12 ns");
  EXPECT_EQ(duration_text(1'500), "1.5 µs");
  EXPECT_EQ(duration_text(12'340'000), "12 ms");
  EXPECT_EQ(duration_text(7'250'000'000), "7.2 s");
  EXPECT_EQ(duration_text(200'000'000'000), "3 min 20 s");
  EXPECT_EQ(duration_text(7'500'000'000'000), "2 h 5 min");
  EXPECT_EQ(duration_text(-5), "0 ns");
}

TEST(TopText, DrawsCurves) {
  EXPECT_EQ(spark_line({0, 1, 2, 4}, 3), "▃▅█");
  EXPECT_EQ(spark_line({0, 0}, 5), "▁▁");
  EXPECT_EQ(bar(0.5, 3), "█▌");
  EXPECT_EQ(bar(2, 2), "██");
}

}  // namespace
}  // namespace troupe::top
