#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/error_of.hpp"
#include <troupe/kernels/readers/csv.hpp>

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CsvWriting : public ::testing::Test {
 protected:
  std::string written(const BatchSchema& schema, const std::vector<Tensor>& batch, const CsvFormat& format = {}) {
    const auto file = files_.create("/f");
    CsvWriter writer(*file, schema, format);
    writer.write(batch);
    return files_.content("/f");
  }
  std::vector<std::string> read_strings(const CsvFormat& format) {
    const CsvParser parser({.format = format, .columns = {{"s", DType::string}}});
    LineStream lines(files_, "/f", csv_lines(format));
    std::vector<std::string> out;
    for (std::string_view row; lines.next(row);) out.push_back(parser.parse(row, {"/f", 0})[0].item<std::string>());
    return out;
  }
  MemoryFileSystem files_;
};

TEST_F(CsvWriting, RowsHaveQuotesWhereTheyNeedThem) {
  const BatchSchema schema{{.name = "id", .dtype = DType::i32},
                           {.name = "x, y", .dtype = DType::f32, .shape = {2}},
                           {.name = "ok", .dtype = DType::boolean},
                           {.name = "s", .dtype = DType::string}};
  const std::vector<Tensor> batch{
      Tensor::vector<std::int32_t>({1, -2}), Tensor::of<float>({2, 2}, {0.1f, 1e30f, -0.f, INFINITY}),
      Tensor::vector<bool>({true, false}), Tensor::vector<std::string>({"O\"Neil, \xc3\xa9", " two\r\nlines"})};
  EXPECT_EQ(
      written(schema, batch),
      "id,\"x, y_0\",\"x, y_1\",ok,s\n1,0.1,1e+30,true,\"O\"\"Neil, \xc3\xa9\"\n-2,-0,inf,false,\" two\r\nlines\"\n");
  EXPECT_EQ(written({{.name = "a", .dtype = DType::u8}}, {Tensor::vector<std::uint8_t>({7, 255})},
                    {.separator = '5', .header = false}),
            "7\n\"255\"\n");
}

TEST_F(CsvWriting, RandomBitsAreReadBack) {
  constexpr std::int64_t kRows = 4000;
  const BatchSchema schema{{.name = "f", .dtype = DType::f32},
                           {.name = "d", .dtype = DType::f64, .shape = {2}},
                           {.name = "i", .dtype = DType::i64}};
  std::vector<Tensor> batch, again;
  std::mt19937_64 random(3);
  for (const BatchComponent& c : schema) {
    batch.emplace_back(c.dtype, c.batch_shape(kRows));
    again.push_back(Tensor::zeros(c.dtype, c.batch_shape(kRows)));
    for (std::size_t i = 0; i + 4 <= batch.back().num_bytes(); i += 4) {
      const auto bits = static_cast<std::uint32_t>(random());
      std::memcpy(batch.back().mutable_raw() + i, &bits, sizeof bits);
    }
  }
  written(schema, batch);
  const CsvParser parser({.columns = {{"f"}, {"d_0"}, {"d_1"}, {"i"}},
                          .components = {{"f", DType::f32, {0}}, {"d", DType::f64, {1, 2}}, {"i", DType::i64, {3}}}});
  EXPECT_EQ(read_csv_header(files_, "/f").names, (std::vector<std::string>{"f", "d_0", "d_1", "i"}));
  LineStream lines(files_, "/f", csv_lines());
  std::string_view row;
  std::int64_t rows = 0;
  for (; lines.next(row); ++rows) parser.parse(row, {"/f", 0}, rows, again);
  EXPECT_EQ(rows, kRows);
  EXPECT_TRUE(bitwise_equal(batch[2], again[2]));
  const auto same = [](auto a, auto b) { return std::isnan(a) ? std::isnan(b) : std::memcmp(&a, &b, sizeof a) == 0; };
  EXPECT_TRUE(std::ranges::equal(batch[0].values<float>(), again[0].values<float>(), same));
  EXPECT_TRUE(std::ranges::equal(batch[1].values<double>(), again[1].values<double>(), same));
}

TEST_F(CsvWriting, TextIsReadBackEvenIfItLooksLikeAnotherFile) {
  const BatchSchema schema{{.name = "s", .dtype = DType::string}};
  const CsvFormat format{.header = false}, tabs{.separator = '\t', .quote = '\0', .header = false};
  for (const char* text : {"",
                           "\xef\xbb\xbf"
                           "a",
                           "\x1f\x8b", "\x28\xb5\x2f\xfd", "a\r", "\"", "\n", "\"a\""}) {
    const std::string first = written(schema, {Tensor::vector<std::string>({text, "b"})}, format);
    EXPECT_THAT(read_strings(format), ElementsAre(text, "b")) << first;
  }
  for (const char* text : {"", "\x1f\x8b", "a\r", "\n", "\t"})
    EXPECT_THAT(error_of([&] { written(schema, {Tensor::vector<std::string>({text})}, tabs); }).message(),
                HasSubstr("cannot be written without quotes"));
  written(schema, {Tensor::vector<std::string>({"\"a\"", "\x1f\x8b"})}, tabs);
  EXPECT_THAT(read_strings(tabs), ElementsAre("\"a\"", "\x1f\x8b"));
}

TEST_F(CsvWriting, BatchesThatDoNotFitAddNothing) {
  const auto file = files_.create("/f");
  const BatchSchema schema{{.name = "x", .dtype = DType::string, .shape = {1}}};
  CsvWriter writer(*file, schema, {.separator = ';', .quote = '\0'});
  const auto refused = [&](Tensor tensor) {
    EXPECT_EQ(error_of([&] { writer.write(std::vector<Tensor>{std::move(tensor)}); }).code(), Code::invalid_argument);
  };
  refused(Tensor::of<std::string>({2, 1}, {"a", "b;c"}));
  refused(Tensor::vector<std::string>({"a"}));
  refused(Tensor::of<float>({1, 1}, {1}));
  refused(Tensor::scalar<std::string>("a"));
  writer.write(std::vector<Tensor>{Tensor::of<std::string>({1, 1}, {"a"})});
  EXPECT_EQ(files_.content("/f"), "x_0\na\n");
  const auto no_schema = [&](const BatchSchema& other) { return error_of([&] { CsvWriter(*file, other); }).message(); };
  EXPECT_THAT(no_schema({{.name = "x", .shape = {kUnknown}}}), HasSubstr("cannot write component 'x' f32[?]"));
  EXPECT_THAT(no_schema({{.name = "x", .dtype = DType::f16}}), HasSubstr("cannot write component 'x' f16[]"));
  EXPECT_THAT(no_schema({{.name = "x", .shape = {0}}}), HasSubstr("no elements"));
}

}  // namespace
}  // namespace troupe::testing
