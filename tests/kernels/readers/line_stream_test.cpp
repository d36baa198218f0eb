#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/error_of.hpp"
#include "tests/kernels/readers/compressed.hpp"
#include <troupe/kernels/readers/fixed_stream.hpp>
#include <troupe/kernels/readers/line_stream.hpp>
#include <troupe/kernels/readers/text_table.hpp>

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TextRecords : public ::testing::Test {
 protected:
  void put(std::string bytes) {
    files_.create("/f");
    files_.content("/f") = std::move(bytes);
  }
  static std::vector<std::string> rest(RecordStream& stream) {
    std::vector<std::string> out;
    for (std::string_view record; stream.next(record);) out.emplace_back(record);
    return out;
  }
  std::vector<std::string> lines(std::string bytes, const LineOptions& options = {}) {
    put(std::move(bytes));
    LineStream stream(files_, "/f", options);
    return rest(stream);
  }
  std::string refused(std::string bytes, const LineOptions& options = {}) {
    return error_of([&] { lines(std::move(bytes), options); }).to_string();
  }
  MemoryFileSystem files_;
};

TEST_F(TextRecords, LinesLackTheirEndsAndTheMark) {
  EXPECT_THAT(lines(""), ElementsAre());
  EXPECT_THAT(lines("\n"), ElementsAre(""));
  EXPECT_THAT(lines("a\r\nb\n\nc\rd\ne"), ElementsAre("a", "b", "", "c\rd", "e"));
  EXPECT_THAT(lines("\xef\xbb\xbf"
                    "a\n\xef\xbb\xbf"
                    "b\n"),
              ElementsAre("a",
                          "\xef\xbb\xbf"
                          "b"));
  EXPECT_THAT(lines("\xef\xbb"), ElementsAre("\xef\xbb"));
  EXPECT_THAT(lines(gzip("a\nb")), ElementsAre("a", "b"));
}

TEST_F(TextRecords, EmptyLinesAndHeadersAreLeftOut) {
  EXPECT_THAT(lines("\n\r\na\n\n\nb\n\n", {.skip_empty = true}), ElementsAre("a", "b"));
  EXPECT_THAT(lines("\xef\xbb\xbf"
                    "1\n2\n3\n",
                    {.header_lines = 2}),
              ElementsAre("3"));
  EXPECT_THAT(lines("1\n", {.header_lines = 2}), ElementsAre());
  EXPECT_THAT(lines("\"1\n1\",\"\"\n2\n", {.quoted = '"', .header_lines = 1}), ElementsAre("2"));
}

TEST_F(TextRecords, LinesOfQuotedFieldsAreOneRecord) {
  const LineOptions csv{.quoted = '"'};
  EXPECT_THAT(lines("a,\"b\nc\"\r\nd\n", csv), ElementsAre("a,\"b\nc\"", "d"));
  EXPECT_THAT(lines("\"\"\"\n\"\"\",x\n\"\"\n", csv), ElementsAre("\"\"\"\n\"\"\",x", "\"\""));
  // Quotes within a field without them are text.
  EXPECT_THAT(lines("5\" disk,3\nx\"\"\n\"a\"b\"\nc", csv), ElementsAre("5\" disk,3", "x\"\"", "\"a\"b\"", "c"));
  EXPECT_THAT(lines("a\t\"b\nc\"\n", {.quoted = '"', .separator = '\t'}), ElementsAre("a\t\"b\nc\""));
  EXPECT_THAT(lines("a,\"b\nc\"\n"), ElementsAre("a,\"b", "c\""));
}

TEST_F(TextRecords, RecordsOfAnyLengthCrossTheWindow) {
  for (const char quote : {'\0', '"'}) {
    std::string text;
    std::vector<std::string> expected;
    for (std::size_t i = 0; i < 3000; ++i) {
      const std::string field(i * 7919 % 700, static_cast<char>('a' + i % 26));
      expected.push_back(quote == '\0' ? field : "\"" + field + "\n\"\"" + field + "\",x" + field);
      text += expected.back() + (i % 3 == 0 ? "\r\n" : "\n");
    }
    EXPECT_EQ(lines(text, {.quoted = quote}), expected);
  }
  const std::string large(3'000'000, 'x');
  EXPECT_THAT(lines("a\n" + large + "\nb", {.quoted = '"'}), ElementsAre("a", large, "b"));
}

TEST_F(TextRecords, AStreamGoesOnWhereItWas) {
  for (const bool packed : {false, true}) {
    const std::string text = "\xef\xbb\xbfname\na\n\n\"b\nb\"\r\nc";
    put(packed ? gzip(text) : text);
    LineStream stream(files_, "/f", {.quoted = '"', .skip_empty = true, .header_lines = 1});
    EXPECT_EQ(stream.position(), 8u);
    std::vector<std::uint64_t> positions{stream.position()};
    for (std::string_view record; stream.next(record);) positions.push_back(stream.position());
    const std::vector<std::string> all = {"a", "\"b\nb\"", "c"};
    ASSERT_EQ(positions.size(), 4u);
    for (std::size_t i = positions.size(); i-- > 0;) {
      stream.seek(positions[i]);
      EXPECT_EQ(stream.position(), positions[i]);
      EXPECT_EQ(rest(stream), std::vector(all.begin() + static_cast<std::ptrdiff_t>(i), all.end()));
    }
    stream.seek(0);
    EXPECT_EQ(rest(stream), all);
  }
}

TEST_F(TextRecords, LongLinesAreDamaged) {
  const LineOptions options{.records = {.most_bytes = 3}};
  EXPECT_THAT(lines("abc\r\nabc\nabc", options), ElementsAre("abc", "abc", "abc"));
  EXPECT_EQ(refused("ab\nabcd\n", options), "data_loss: /f: byte 3: the line has more than 3 bytes");
  EXPECT_EQ(refused("abcd", options), "data_loss: /f: byte 0: the line has more than 3 bytes");
  put("ab\nabcdefgh\r\nabcd\nabc\nabcdefgh");
  LineStream stream(files_, "/f", {.records = {.skip_damaged = true, .most_bytes = 3}});
  EXPECT_THAT(rest(stream), ElementsAre("ab", "abc"));
  EXPECT_EQ(stream.skipped(), 3u);
}

TEST_F(TextRecords, QuotesThatNeverCloseAreDamaged) {
  EXPECT_EQ(refused("a\n\"b\nc\n", {.quoted = '"'}), "data_loss: /f: byte 2: the line has quotes that do not close");
  EXPECT_EQ(refused("a\n\"" + std::string(2'000'000, '\n'), {.records = {.most_bytes = 1000}, .quoted = '"'}),
            "data_loss: /f: byte 2: the line has more than 1000 bytes: do its quotes close?");
  put("a\n\"bcde\nfg\nh\n\"i\n");
  LineStream stream(files_, "/f", {.records = {.skip_damaged = true, .most_bytes = 4}, .quoted = '"'});
  EXPECT_THAT(rest(stream), ElementsAre("a", "fg", "h"));
  EXPECT_EQ(stream.skipped(), 2u);
}

// Each line leaves its quotes open: were all of most_bytes looked at for each, this would take minutes.
TEST_F(TextRecords, ManyOpenQuotesAreReadInLinearTime) {
  std::string text;
  while (text.size() < 4'000'000) text += "a\",\"\n";
  put(text);
  LineStream stream(files_, "/f", {.records = {.skip_damaged = true, .most_bytes = 100'000}, .quoted = '"'});
  EXPECT_THAT(rest(stream), ElementsAre());
  EXPECT_EQ(stream.skipped(), 40u);
}

TEST_F(TextRecords, FixedRecordsLieBetweenHeaderAndFooter) {
  for (const bool packed : {false, true}) {
    const std::string text = "HHHaabbccF";
    put(packed ? gzip(text) : text);
    FixedStream stream(files_, "/f", {.record_bytes = 2, .header_bytes = 3, .footer_bytes = 1});
    EXPECT_EQ(stream.position(), 3u);
    EXPECT_THAT(rest(stream), ElementsAre("aa", "bb", "cc"));
    EXPECT_EQ(stream.position(), 9u);
    stream.seek(5);
    EXPECT_THAT(rest(stream), ElementsAre("bb", "cc"));
    stream.seek(0);
    EXPECT_THAT(rest(stream), ElementsAre("aa", "bb", "cc"));
    for (const std::uint64_t at : {1u, 4u, 10u})
      EXPECT_EQ(error_of([&] { stream.seek(at); }).code(), Code::invalid_argument) << at;
  }
  put("HF");
  FixedStream none(files_, "/f", {.record_bytes = 2, .header_bytes = 1, .footer_bytes = 1});
  EXPECT_THAT(rest(none), ElementsAre());
}

TEST_F(TextRecords, FixedRecordsThatAreCutAreDamaged) {
  const auto read = [&](const FixedOptions& options) {
    FixedStream stream(files_, "/f", options);
    return rest(stream);
  };
  const auto message = [&](const FixedOptions& options) { return error_of([&] { read(options); }).to_string(); };
  put("HaabbcF");
  EXPECT_EQ(message({.record_bytes = 2, .header_bytes = 1, .footer_bytes = 1}),
            "data_loss: /f: byte 5: 2 bytes are left, but must be a footer of 1, or that behind records of 2");
  EXPECT_EQ(message({.record_bytes = 2, .header_bytes = 8}), "data_loss: /f: has 7 bytes, but its header 8");
  EXPECT_EQ(message({.record_bytes = 2, .header_bytes = 7, .footer_bytes = 1}),
            "data_loss: /f: byte 7: 0 bytes are left, but must be a footer of 1, or that behind records of 2");
  EXPECT_THAT(message({.record_bytes = 0}), HasSubstr("records of 0 bytes: pass 1 to"));
  EXPECT_THAT(message({.records = {.most_bytes = 4}, .record_bytes = 5}), HasSubstr("pass 1 to 4"));
  EXPECT_THAT(message({.record_bytes = 1, .footer_bytes = ~std::uint64_t{0}}), HasSubstr("pass at most"));
  FixedStream stream(files_, "/f", {.records = {.skip_damaged = true}, .record_bytes = 3});
  EXPECT_THAT(rest(stream), ElementsAre("Haa", "bbc"));
  EXPECT_EQ(stream.skipped(), 1u);
  FixedStream header(files_, "/f", {.records = {.skip_damaged = true}, .record_bytes = 3, .header_bytes = 8});
  EXPECT_THAT(rest(header), ElementsAre());
  EXPECT_EQ(header.skipped(), 1u);
}

TEST_F(TextRecords, TablesAreReadAsAWhole) {
  const auto directory = std::filesystem::path(::testing::TempDir());
  const std::string path = (directory / "line_stream_test.tsv").string();
  const auto write = [](const std::string& file, const std::string& bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
  };
  std::filesystem::remove(path);
  EXPECT_EQ(error_of([&] { read_table(path, 2); }).code(), Code::not_found);
  write(path + ".gz", gzip("a\tb\n\"c\t\n"));
  EXPECT_THAT(read_table(path, 2), ElementsAre(ElementsAre("a", "b"), ElementsAre("\"c", "")));
  write(path, "a\tb\nc\n");
  EXPECT_THAT(error_of([&] { read_table(path, 2); }).message(),
              HasSubstr("line_stream_test.tsv: line 2 has 1 columns, but must have 2, separated by tabs"));
  write(path, "");
  EXPECT_THAT(error_of([&] { read_table(path, 2); }).message(), HasSubstr("the file has no lines"));
  std::filesystem::remove(path);
  std::filesystem::remove(path + ".gz");
}

}  // namespace
}  // namespace troupe::testing
