#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/error_of.hpp"
#include <troupe/kernels/readers/csv.hpp>

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Strings = std::vector<std::string>;

constexpr CsvFormat kTabs{.separator = '\t', .quote = '\0', .header = false};

std::vector<CsvColumn> text_columns(std::size_t count) {
  std::vector<CsvColumn> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back({.name = "c" + std::to_string(i), .dtype = DType::string});
  return out;
}

class Csv : public ::testing::Test {
 protected:
  void put(std::string bytes) {
    files_.create("/f");
    files_.content("/f") = std::move(bytes);
  }
  // All rows of a file as text.
  std::vector<Strings> rows(std::string bytes, std::size_t columns, const CsvFormat& format = {.header = false}) {
    put(std::move(bytes));
    const CsvParser parser({.format = format, .columns = text_columns(columns)});
    LineStream lines(files_, "/f", csv_lines(format));
    std::vector<Strings> out;
    std::uint64_t at = 0;
    for (std::string_view row; at = lines.position(), lines.next(row);) {
      out.emplace_back();
      for (const Tensor& field : parser.parse(row, {"/f", at})) out.back().push_back(field.item<std::string>());
    }
    return out;
  }
  std::string refused(std::string bytes, std::size_t columns, const CsvFormat& format = {.header = false}) {
    return error_of([&] { rows(std::move(bytes), columns, format); }).to_string();
  }
  MemoryFileSystem files_;
};

template <class T>
T number(std::string_view text) {
  const CsvParser parser({.columns = {{"x", dtype_of<T>}}});
  return parser.parse(text, {"/f", 7})[0].item<T>();
}
template <class T>
std::string no_number(std::string_view text) {
  return error_of([&] { number<T>(text); }).to_string();
}

// The text is written, and read in the same way, by the module csv of Python 3.11.
TEST_F(Csv, RowsAreThoseOfPython) {
  const std::string written =
      "id,\"name, full\",says\n1,\"O\"\"Neil\",\"two\nlines\"\n-2,,  spaced \n30,\xc3\xa9;\t|,\"\"\"\"\n";
  EXPECT_THAT(rows(written, 3), ElementsAre(Strings{"id", "name, full", "says"}, Strings{"1", "O\"Neil", "two\nlines"},
                                            Strings{"-2", "", "  spaced "}, Strings{"30", "\xc3\xa9;\t|", "\""}));
  EXPECT_THAT(rows("a,\"b\",c\"d,\"e\"\"f,\ng\",  \"h\"\r\n\"\",,x,,\r\n", 5),
              ElementsAre(Strings{"a", "b", "c\"d", "e\"f,\ng", "  \"h\""}, Strings{"", "", "x", "", ""}));
}

TEST_F(Csv, TabsWithoutQuotesAreText) {
  EXPECT_THAT(rows("\"a\t\"\n,\"\"\tb\n", 2, kTabs), ElementsAre(Strings{"\"a", "\""}, Strings{",\"\"", "b"}));
  EXPECT_THAT(rows("'a;''b';c", 2, {.separator = ';', .quote = '\'', .header = false}),
              ElementsAre(Strings{"a;'b", "c"}));
}

TEST_F(Csv, RowsThatAreDamagedAreNamed) {
  EXPECT_EQ(refused("a,b\nc\n", 2), "data_loss: /f: byte 4: the row has 1 columns, but must have 2");
  EXPECT_EQ(refused("a,b,\n", 2), "data_loss: /f: byte 0: the row has 3 columns, but must have 2");
  EXPECT_EQ(refused("a,\"b\"c\n", 2), "data_loss: /f: byte 0: column 2 ('c1'): text follows its quotes");
  EXPECT_EQ(error_of([&] { number<float>("\"1"); }).message(), "/f: byte 7: column 1 ('x'): its quotes do not close");
}

TEST_F(Csv, NumbersAreReadOfAllDtypes) {
  EXPECT_EQ(number<float>(" +1.5\t"), 1.5f);
  EXPECT_EQ(number<double>("\"-.5e3\""), -500);
  EXPECT_EQ(number<std::int32_t>("-2147483648"), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(number<std::int64_t>("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(number<std::uint8_t>("+255"), 255);
  for (const char* yes : {"1", "true", " TRUE "}) EXPECT_TRUE(number<bool>(yes));
  for (const char* no : {"0", "False"}) EXPECT_FALSE(number<bool>(no));
  EXPECT_EQ(number<float>("inf"), std::numeric_limits<float>::infinity());
  EXPECT_EQ(number<double>("-Infinity"), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(number<float>("NaN")));
  EXPECT_TRUE(std::isnan(number<double>("-nan")));
}

TEST_F(Csv, TextThatIsNoNumberIsNamed) {
  EXPECT_EQ(no_number<float>("1.5x"), "data_loss: /f: byte 7: column 1 of 1 ('x'): '1.5x' is no f32");
  EXPECT_EQ(no_number<std::int32_t>(std::string(100, 'a') + "\n"),
            "data_loss: /f: byte 7: column 1 of 1 ('x'): '" + std::string(40, 'a') + "...' is no i32");
  EXPECT_THAT(no_number<float>("\1" + std::string(38, 'a') + "\xc3\xa9"),
              HasSubstr("'?" + std::string(38, 'a') + "...'"));
  for (const char* text : {"", " ", "+", "+-1", "++1", "1 2", "0x10", "1e", "1,"}) {
    EXPECT_NE(no_number<double>(text), Error().to_string()) << text;
    EXPECT_NE(no_number<std::int64_t>(text), Error().to_string()) << text;
  }
  EXPECT_THAT(no_number<std::int32_t>("1.0"), HasSubstr("'1.0' is no i32"));
  EXPECT_THAT(no_number<std::uint8_t>("-1"), HasSubstr("'-1' is no u8"));
  EXPECT_THAT(no_number<bool>("2"), HasSubstr("'2' is no bool"));
  EXPECT_THAT(no_number<bool>("t"), HasSubstr("'t' is no bool"));
}

TEST_F(Csv, WhatIsTooLargeIsRefusedAndWhatIsTooSmallIsZero) {
  EXPECT_THAT(no_number<std::uint8_t>("256"), HasSubstr("is no u8"));
  EXPECT_THAT(no_number<std::int32_t>("2147483648"), HasSubstr("is no i32"));
  EXPECT_THAT(no_number<std::int64_t>("-9223372036854775809"), HasSubstr("is no i64"));
  const std::string zeros(500, '0');
  for (const std::string& text : {std::string("1e39"), std::string("-1e99999999999999999999"), "1" + zeros + "e-10"})
    EXPECT_THAT(no_number<float>(text), HasSubstr("is no f32")) << text;
  for (const std::string& text :
       {std::string("1e-60"), std::string("1e-99999999999999999999"), "0." + zeros + "1e10", "." + zeros + "1"})
    EXPECT_EQ(number<float>(text), 0) << text;
  EXPECT_TRUE(std::signbit(number<double>("-1e-400")));
  EXPECT_EQ(number<float>("1e-45"), std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(number<float>("0e999"), 0);
}

TEST_F(Csv, ColumnsAreJoinedToRowsOfABatch) {
  const CsvParser parser({.columns = {{"a", DType::i64}, {"skipped", DType::f32}, {"b"}, {"label"}, {"c"}},
                          .components = {{"x", DType::f32, {4, 0, 2}}, {"y", DType::i32, {3}}}});
  EXPECT_EQ(to_string(parser.schema()), "x f32[3], y i32[]");
  std::vector<Tensor> batch = {Tensor::zeros(DType::f32, {2, 3}), Tensor::zeros(DType::i32, {2})};
  parser.parse("1,no number,2,7,3", {"/f", 0}, 1, batch);
  EXPECT_THAT(batch[0].values<float>(), ElementsAre(0, 0, 0, 3, 1, 2));
  EXPECT_THAT(batch[1].values<std::int32_t>(), ElementsAre(0, 7));
  const std::vector<Tensor> one = parser.parse("1,,2,7,3", {"/f", 0});
  EXPECT_EQ(one[0].shape(), Shape{3});
  EXPECT_EQ(one[1].shape(), Shape{});
  const auto code = [&](std::int64_t row, std::vector<Tensor> out) {
    return error_of([&] { parser.parse("1,,2,7,3", {"/f", 0}, row, out); }).code();
  };
  EXPECT_EQ(code(2, batch), Code::invalid_argument);
  EXPECT_EQ(code(-1, batch), Code::invalid_argument);
  EXPECT_EQ(code(0, {batch[0]}), Code::invalid_argument);
  EXPECT_EQ(code(0, {Tensor::zeros(DType::f32, {2, 2}), batch[1]}), Code::invalid_argument);
  EXPECT_EQ(code(0, {Tensor::zeros(DType::f64, {2, 3}), batch[1]}), Code::invalid_argument);
}

TEST_F(Csv, EmptyFieldsNeedAFallback) {
  const CsvParser parser({.columns = {{"a", DType::i32, "-1"}, {"b", DType::f32}, {"s", DType::string}}});
  EXPECT_EQ(parser.parse(",1,", {"/f", 0})[0].item<std::int32_t>(), -1);
  EXPECT_EQ(parser.parse("\"\",1,", {"/f", 0})[2].item<std::string>(), "");
  EXPECT_EQ(error_of([&] {
              parser.parse("1,,x", {"/f", 3});
            }).message(),
            "/f: byte 3: column 2 of 3 ('b'): '' is no f32, and the column has no fallback");
}

TEST_F(Csv, OptionsThatDoNotFitAreRefused) {
  const auto message = [](const CsvOptions& options) {
    return error_of([&] { CsvParser parser(options); }).to_string();
  };
  EXPECT_THAT(message({}), HasSubstr("invalid_argument: a batch has at least one component"));
  EXPECT_THAT(message({.columns = {{"a", DType::f16}}}), HasSubstr("component 'a' is f16"));
  EXPECT_THAT(message({.columns = {{"a", DType::i32, "x"}}}),
              HasSubstr("'x' is in place of empty fields, but is no i32"));
  EXPECT_THAT(message({.columns = {{"a"}, {"a"}}}), HasSubstr("two components 'a'"));
  EXPECT_THAT(message({.columns = {{"a"}}, .components = {{"x", DType::f32, {1}}}}), HasSubstr("needs column 1"));
  EXPECT_THAT(message({.columns = {{"a"}}, .components = {{"x", DType::f32, {0, 0}}}}), HasSubstr("used twice"));
  EXPECT_THAT(message({.columns = {{"a"}}, .components = {{"x", DType::f32, {}}}}), HasSubstr("has no columns"));
  EXPECT_THAT(message({.format = {.separator = '\n'}, .columns = {{"a"}}}), HasSubstr("separated by a line end"));
  EXPECT_THAT(message({.format = {.quote = ','}, .columns = {{"a"}}}), HasSubstr("quotes must differ"));
}

TEST_F(Csv, HeadersHaveNames) {
  put("\xef\xbb\xbf\"a\"\"\",b\r\n1,2\n");
  const CsvHeader header = read_csv_header(files_, "/f");
  EXPECT_THAT(header.names, ElementsAre("a\"", "b"));
  EXPECT_EQ(header.index("b"), 1u);
  EXPECT_EQ(error_of([&] { header.index("c"); }).to_string(),
            "not_found: there is no column 'c'; the file has 2: a\", b");
  put("");
  EXPECT_EQ(error_of([&] { read_csv_header(files_, "/f"); }).to_string(), "data_loss: /f: the file has no rows");
}

std::string dtypes(const std::vector<CsvColumn>& of) {
  std::string out;
  for (const CsvColumn& c : of) out += c.name + " " + std::string(name(c.dtype)) + c.fallback.value_or("") + "; ";
  return out;
}

TEST_F(Csv, DtypesAreInferredFromRows) {
  put("int,float,text,gaps,large,none\n1,2,3,1,1,\n-2,nan,x,,99999999999999999999,\n3,1e3,4.5,2,1,\nlate,,,,,\n");
  const auto columns = infer_csv(files_, "/f", {}, 3);
  EXPECT_EQ(dtypes(columns), "int i64; float f32; text string; gaps f32nan; large f32; none string; ");
  EXPECT_EQ(infer_csv(files_, "/f")[0].dtype, DType::string);
  const CsvParser parser({.columns = columns});
  EXPECT_TRUE(std::isnan(parser.parse("1,2,3,,5,", {"/f", 0})[3].item<float>()));
  put("1\tx\n");
  EXPECT_EQ(dtypes(infer_csv(files_, "/f", kTabs)), "c0 i64; c1 string; ");
  put("a,b\n1,2\n3\n");
  EXPECT_EQ(error_of([&] { infer_csv(files_, "/f"); }).message(), "/f: byte 8: the row has 1 columns, but must have 2");
  put("a\n\"1\"x\n");
  EXPECT_EQ(error_of([&] { infer_csv(files_, "/f"); }).message(), "/f: byte 2: column 1: text follows its quotes");
}

TEST_F(Csv, RowsThatAreSkippedHaveNoPartInDtypes) {
  put("a,b\n1,2\nx\n3,4,y\n\"5\"z,6\n7,8\n");
  EXPECT_EQ(dtypes(infer_csv(files_, "/f", {}, 1000, true)), "a i64; b i64; ");
}

TEST_F(Csv, ColumnsNeedDifferentNames) {
  put(",b,,c\n1,2,3,4\n");  // as pandas writes an index without a name
  EXPECT_EQ(dtypes(infer_csv(files_, "/f")), "c0 i64; b i64; c2 i64; c i64; ");
  put("a,b,a\n1,2,3\n");
  EXPECT_EQ(error_of([&] { infer_csv(files_, "/f"); }).message(),
            "/f: columns 1 and 3 of the first row are both 'a': give them different names");
}

TEST_F(Csv, AMillionColumnsAreReadAtOnce) {
  constexpr std::size_t kColumns = 1'000'000;
  std::string row(2 * kColumns - 1, ',');
  for (std::size_t i = 0; i < row.size(); i += 2) row[i] = static_cast<char>('0' + i / 2 % 10);
  put(row + "\n");
  CsvOptions options{.format = {.header = false}, .columns = std::vector<CsvColumn>(kColumns)};
  options.components = {{"few", DType::i32, {kColumns - 1, 3}}, {"many", DType::f32, {}}};
  for (std::size_t i = 0; i + 1 < kColumns; i += 2) options.components[1].columns.push_back(i);
  const CsvParser parser(std::move(options));
  LineStream lines(files_, "/f", csv_lines({.header = false}));
  std::string_view record;
  ASSERT_TRUE(lines.next(record));
  const std::vector<Tensor> out = parser.parse(record, {"/f", 0});
  EXPECT_THAT(out[0].values<std::int32_t>(), ElementsAre(9, 3));
  EXPECT_EQ(out[1].values<float>()[499'999], 8);
  EXPECT_THAT(error_of([&] {
                parser.parse(row + ",", {"/f", 0});
              }).message(),
              HasSubstr("the row has 1000001 columns, but must have 1000000"));
}

}  // namespace
}  // namespace troupe::testing
