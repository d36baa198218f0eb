#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/error_of.hpp"
#include <troupe/kernels/readers/json_lines.hpp>

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const RecordPlace kJsonPlace{"/f", 9};

Tensor field_of(std::string_view line, JsonField field) {
  return JsonLinesParser({std::move(field)}).parse(line, kJsonPlace)[0];
}
// Of the field "x".
std::string refused_json(std::string_view line, DType dtype, const Shape& shape = {}) {
  return error_of([&] { field_of(line, {.name = "x", .dtype = dtype, .shape = shape}); }).to_string();
}

TEST(JsonLines, FieldsBecomeComponents) {
  const JsonLinesParser parser({{.name = "a", .dtype = DType::f32},
                                {.name = "b.c", .dtype = DType::i64, .shape = {2, 2}},
                                {.name = "s", .dtype = DType::string, .shape = {2}},
                                {.name = "t", .dtype = DType::boolean}});
  EXPECT_EQ(to_string(parser.schema()), "a f32[], b.c i64[2,2], s string[2], t bool[]");
  std::vector<Tensor> batch;
  for (const BatchComponent& c : parser.schema()) batch.push_back(Tensor::zeros(c.dtype, c.batch_shape(2)));
  parser.parse(R"( {"t":true, "other":[{}], "s":["é\n","[{\"x"], "b":{"c":[[1,2],[3,-4]]}, "a":1} )", kJsonPlace, 1,
               batch);
  EXPECT_THAT(batch[0].values<float>(), ElementsAre(0, 1));
  EXPECT_THAT(batch[1].values<std::int64_t>(), ElementsAre(0, 0, 0, 0, 1, 2, 3, -4));
  EXPECT_THAT(batch[2].values<std::string>(), ElementsAre("", "", "é\n", "[{\"x"));
  EXPECT_THAT(batch[3].values<bool>(), ElementsAre(false, true));
  EXPECT_EQ(error_of([&] { parser.parse("{}", kJsonPlace, 2, batch); }).code(), Code::invalid_argument);
  EXPECT_EQ(error_of([&] { parser.parse("{}", kJsonPlace, -1, batch); }).code(), Code::invalid_argument);
  std::swap(batch[0], batch[1]);
  EXPECT_EQ(error_of([&] { parser.parse("{}", kJsonPlace, 0, batch); }).code(), Code::invalid_argument);
}

TEST(JsonLines, LeadingDimensionsMayBeUnknown) {
  const JsonField field{.name = "x", .dtype = DType::u8, .shape = {kUnknown, 2}};
  EXPECT_THAT(field_of(R"({"x":[[1,2],[3,255]]})", field).values<std::uint8_t>(), ElementsAre(1, 2, 3, 255));
  EXPECT_EQ(field_of(R"({"x":[]})", field).shape(), (Shape{0, 2}));
  std::vector<Tensor> batch = {Tensor::zeros(DType::u8, {1, 1, 2})};
  EXPECT_THAT(error_of([&] { JsonLinesParser({field}).parse("{}", kJsonPlace, 0, batch); }).message(),
              HasSubstr("field 'x' [?,2] has an unknown dimension"));
  EXPECT_THAT(refused_json(R"({"x":[1]})", DType::u8, {kUnknown, 2}), HasSubstr("1 is no array: expected u8[1,2]"));
  // Nothing of that size is allocated.
  EXPECT_THAT(refused_json(R"({"x":[[],[]]})", DType::f64, {kUnknown, std::int64_t{1} << 50}),
              HasSubstr("2 arrays cannot have 1125899906842624 elements each in 13 bytes of text"));
}

TEST(JsonLines, FieldsThatAreMissingOrNullNeedAFallback) {
  const JsonField scalar{.name = "a.b", .dtype = DType::i32, .fallback = "-1"};
  for (const char* line : {"{}", R"({"a":null})", R"({"a":{}})", R"({"a":{"b":null}})"})
    EXPECT_EQ(field_of(line, scalar).item<std::int32_t>(), -1) << line;
  EXPECT_THAT(field_of("{}", {.name = "x", .dtype = DType::string, .shape = {kUnknown}, .fallback = "[\"a\"]"})
                  .values<std::string>(),
              ElementsAre("a"));
  const JsonLinesParser parser({{.name = "s", .dtype = DType::string, .shape = {2}, .fallback = R"(["a","b"])"},
                                {.name = "f", .dtype = DType::f32, .fallback = "0.5"}});
  std::vector<Tensor> batch = {Tensor(DType::string, {1, 2}), Tensor(DType::f32, Shape{1})};
  parser.parse("{}", kJsonPlace, 0, batch);
  EXPECT_THAT(batch[0].values<std::string>(), ElementsAre("a", "b"));
  EXPECT_THAT(batch[1].values<float>(), ElementsAre(0.5f));
  EXPECT_EQ(refused_json("{}", DType::i32), "data_loss: /f: byte 9: field 'x': it is missing, and has no fallback");
}

TEST(JsonLines, NumbersMustFitTheirDtype) {
  const auto number = [](const std::string& text, DType dtype) { return refused_json("{\"x\":" + text + "}", dtype); };
  const std::string fine = Error().to_string();
  EXPECT_EQ(number("-128", DType::i8), fine);
  EXPECT_EQ(number("128", DType::i8), "data_loss: /f: byte 9: field 'x': 128 is no i8");
  EXPECT_THAT(number("-1", DType::u64), HasSubstr("-1 is no u64"));
  EXPECT_EQ(number("18446744073709551615", DType::u64), fine);
  EXPECT_THAT(number("9223372036854775808", DType::i64), HasSubstr("is no i64"));
  EXPECT_THAT(number("18446744073709551616", DType::u64), HasSubstr("is no u64"));
  EXPECT_THAT(number("1.5", DType::i32), HasSubstr("1.5 is no i32"));
  EXPECT_THAT(number("1.0", DType::i32), HasSubstr("1.0 is no i32"));
  EXPECT_EQ(number("3.4028235e38", DType::f32), fine);
  EXPECT_THAT(number("3.5e38", DType::f32), HasSubstr("is no f32"));
  EXPECT_THAT(number("1e999", DType::f64), HasSubstr("not JSON"));
  EXPECT_THAT(number("NaN", DType::f64), HasSubstr("not JSON"));
  EXPECT_THAT(number("\"1\"", DType::f32), HasSubstr("\"1\" is no f32"));
  EXPECT_THAT(number("1", DType::boolean), HasSubstr("1 is no bool"));
  EXPECT_THAT(number("true", DType::i32), HasSubstr("true is no i32"));
  EXPECT_THAT(number("1", DType::string), HasSubstr("1 is no string"));
  EXPECT_THAT(number("[1]", DType::f32), HasSubstr("an array is no f32"));
}

TEST(JsonLines, ShapesMustBeThoseOfTheField) {
  EXPECT_EQ(refused_json(R"({"x":[1,2,3]})", DType::f32, {2}),
            "data_loss: /f: byte 9: field 'x': an array has 3 elements along dimension 0, but must be f32[2]");
  EXPECT_THAT(refused_json(R"({"x":[[1],[1,2]]})", DType::f32, {2, 2}), HasSubstr("1 elements along dimension 1"));
  EXPECT_THAT(refused_json(R"({"x":{}})", DType::f32, {2}), HasSubstr("an object is no array: expected f32[2]"));
  EXPECT_THAT(error_of([] { field_of(R"({"a":1})", {.name = "a.b"}); }).message(),
              HasSubstr("field 'a.b': 1 is no object with a field 'b'"));
}

TEST(JsonLines, LinesThatAreNoObjectsAreNamed) {
  EXPECT_THAT(refused_json("", DType::f32), StartsWith("data_loss: /f: byte 9: not JSON: "));
  EXPECT_THAT(refused_json(R"({"x":1} {)", DType::f32), HasSubstr("not JSON: "));
  EXPECT_THAT(refused_json("{\"x\":\"\xff\"}", DType::string), HasSubstr("not JSON: "));
  EXPECT_THAT(refused_json("[1]", DType::f32), HasSubstr("/f: byte 9: an array is no object"));
  EXPECT_THAT(refused_json("{\"x\":\"\\", DType::string), HasSubstr("not JSON: "));
}

TEST(JsonLines, DeepNestingIsRefused) {
  const auto nested = [](std::size_t depth) {
    return "{\"y\":" + std::string(depth, '[') + std::string(depth, ']') + ",\"x\":\"" + std::string(100, '[') + "\"}";
  };
  EXPECT_EQ(refused_json(nested(63), DType::string), Error().to_string());
  EXPECT_EQ(refused_json(nested(64), DType::string),
            "data_loss: /f: byte 9: arrays and objects nest deeper than 64 levels");
  EXPECT_THAT(refused_json(std::string(1'000'000, '['), DType::string), HasSubstr("deeper than 64 levels"));
}

TEST(JsonLines, FieldsThatCannotBeAreRefused) {
  const auto message = [](const JsonField& field) {
    return error_of([&] { JsonLinesParser parser({field}); }).to_string();
  };
  EXPECT_THAT(message({.name = "x", .dtype = DType::f16}), HasSubstr("invalid_argument: JSON: field 'x' is f16"));
  EXPECT_THAT(message({.name = "x", .shape = {2, kUnknown}}), HasSubstr("only its leading dimension may be unknown"));
  EXPECT_THAT(message({.name = "x", .shape = Shape::unknown_rank()}), HasSubstr("only its leading dimension"));
  EXPECT_THAT(message({.name = "x", .shape = {2}, .fallback = "[1]"}),
              HasSubstr("fallback of field 'x': an array has 1 elements"));
  EXPECT_THAT(message({.name = "x", .fallback = "{"}), HasSubstr("fallback of field 'x': not JSON"));
}

}  // namespace
}  // namespace troupe::testing
