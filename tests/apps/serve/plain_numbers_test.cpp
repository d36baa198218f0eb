// The reader of plain numbers: bits of strtod(), and nothing that is not plain.
#include "apps/serve/plain_numbers.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>

#include "apps/serve/json_tensors.hpp"

namespace troupe {
namespace {

std::string padded(std::string text) {
  text.reserve(text.size() + kPlainPadding);
  return text;
}

void expect_number(const std::string& text) {
  const std::string given = padded(text + ",1");
  double got = 0;
  EXPECT_EQ(read_plain_number(given.data(), got), given.data() + text.size()) << text;
  const double wanted = std::strtod(text.c_str(), nullptr);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(got), std::bit_cast<std::uint64_t>(wanted)) << text << ": " << got;
}

TEST(PlainNumbers, HaveTheBitsOfStrtod) {
  for (const char* text : {"0",
                           "-0",
                           "7",
                           "-12",
                           "0.5",
                           "0.123456",
                           "-0.1234567",
                           "0.12345678",
                           "1.123456789",
                           "123456.789012",
                           "12345678",
                           "123456789",
                           "1234567890123456",
                           "9007199254740992",
                           "9007199254740993",
                           "18446744073709551615",
                           "123456789012345678",
                           "1234567890123456789012",
                           "0.1234567890123456789012",
                           "1e5",
                           "1E+5",
                           "2.5e-3",
                           "1e22",
                           "1e23",
                           "123e-22",
                           "5e-324",
                           "1.7976931348623157e308",
                           "0.000000000000000000000001",
                           "-0.0e-5",
                           "1e0000000002",
                           "100000000000000000000000000000000000.25"})
    expect_number(text);
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> one(-1, 1);
  for (int i = 0; i < 20000; ++i) {
    const double value = i % 2 == 0 ? one(random) : std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    expect_number(fmt::format("{}", value));
    expect_number(fmt::format("{:.6f}", one(random) * 1000));
    expect_number(fmt::format("{:.{}e}", value, i % 20));
  }
}

TEST(PlainNumbers, AreThoseOfJson) {
  for (const char* text : {"", "-", "+1", "01", "-01", ".5", "1.", "1.e5", "1e", "1e+", "1.5e-", "NaN", "-Infinity",
                           "x", "1e400", "-1e309", "--1", "/", ":"}) {
    const std::string given = padded(std::string(text) + ",1");
    double got = 0;
    const char* const end = read_plain_number(given.data(), got);
    EXPECT_TRUE(end == nullptr || *end != ',') << text;
  }
}

TEST(PlainNumbers, ListsHaveOneShape) {
  const auto dims_of = [](const std::string& text) {
    PlainNumbers<float> out;
    const std::string given = padded(text);
    const char* const end = read_plain_numbers(given.data(), 100, out);
    if (end == nullptr) return std::string("none");
    EXPECT_EQ(*end, '!') << text;
    return fmt::format("{}:{}", fmt::join(out.dims, "x"), fmt::join(out.elements, " "));
  };
  EXPECT_EQ(dims_of("[1]!"), "1:1");
  EXPECT_EQ(dims_of("[ 1 ,\n2\t,  -3 ]!"), "3:1 2 -3");
  EXPECT_EQ(dims_of("[[1,2],[3,4] , [5,6]]!"), "3x2:1 2 3 4 5 6");
  EXPECT_EQ(dims_of("[[[[[[[[0.5]]]]]]]]!"), "1x1x1x1x1x1x1x1:0.5");
  for (const char* text : {"1!", "[]!", "[[],[]]!", "[1,]!", "[,1]!", "[1!", "[1 2]!", "[[1],2]!", "[1,[2]]!",
                           "[[1],[[2]]]!", "[[[1]],[2]]!", "[[1],[2,3]]!", "[[1,2],[3]]!", "[null]!", "[\"1\"]!",
                           "[1,NaN]!", "[1e39]!", "[[[[[[[[[0.5]]]]]]]]]!"})
    EXPECT_EQ(dims_of(text), "none") << text;
  PlainNumbers<float> out;
  EXPECT_EQ(read_plain_numbers(padded("[1,2,3]").c_str(), 2, out), nullptr);
  PlainNumbers<double> wide;
  EXPECT_NE(read_plain_numbers(padded("[1e39]").c_str(), 2, wide), nullptr);
}

// A name of the signature behind the inputs makes a body one for the general reader.
TEST(PlainNumbers, BodiesAreReadAsByTheGeneralReader) {
  ModelSignature signature;
  signature.inputs["x"] = {.dtype = DType::f32};
  const auto read = [&](const std::string& body) {
    return parse_predict(body, [&](const std::string&) -> const ModelSignature& { return signature; });
  };
  std::mt19937_64 random(4);
  std::uniform_real_distribution<double> one(-1, 1);
  for (int i = 0; i < 200; ++i) {
    std::string list = "[";
    for (int row = 0; row < 1 + i % 5; ++row) {
      list += row > 0 ? ", [" : "[";
      for (int n = 0; n < 1 + i % 17; ++n)
        list += fmt::format("{}{:.{}f}", n > 0 ? i % 2 == 0 ? "," : ", " : "", one(random) * 100, i % 12);
      list += ']';
    }
    list += ']';
    for (const char* key : {"instances", "inputs"}) {
      const PredictBody plain = read(fmt::format(R"( {{"signature_name" : "s","{}":{} }} )", key, list)),
                        general = read(fmt::format(R"({{"{}":{},"signature_name":"s"}})", key, list));
      EXPECT_EQ(plain.signature, general.signature);
      EXPECT_EQ(plain.format, general.format);
      EXPECT_TRUE(bitwise_equal(plain.inputs.at("x"), general.inputs.at("x"))) << list;
    }
  }
}

}  // namespace
}  // namespace troupe
