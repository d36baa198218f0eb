// How troupe-bench checks the answers of served models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/bench/serving_models.hpp"

namespace troupe::bench {
namespace {

using ::testing::HasSubstr;

const Tensor kRows = Tensor::of<float>({2, 4}, {0, 1, 2, 3, 4, 5, 6, 7});

std::string of_versions(const std::string& first, const std::string& second) {
  return R"({"predictions":[)" + first + "," + second + "]}";
}

constexpr const char* kFirstOf2 = R"({"version":2.0,"y":[2.0,4.0,6.0,8.0]})";
constexpr const char* kSecondOf2 = R"({"version":2.0,"y":[10.0,12.0,14.0,16.0]})";
constexpr const char* kSecondOf3 = R"({"version":3.0,"y":[15.0,18.0,21.0,24.0]})";

TEST(BenchAnswers, OfOneVersionAreRight) {
  EXPECT_EQ(wrong_version_answer(of_versions(kFirstOf2, kSecondOf2), kRows, 2, 2), "");
  EXPECT_EQ(wrong_version_answer(of_versions(kFirstOf2, kSecondOf2), kRows, 1, 3), "");
}

TEST(BenchAnswers, OfTwoVersionsAreWrong) {
  EXPECT_THAT(wrong_version_answer(of_versions(kFirstOf2, kSecondOf3), kRows, 1, 3), HasSubstr("several versions"));
  // Weights of another version than the one that it states, or of two.
  const std::string stated = R"({"version":3.0,"y":[10.0,12.0,14.0,16.0]})";
  EXPECT_THAT(wrong_version_answer(of_versions(kFirstOf2, stated), kRows, 1, 3), HasSubstr("two versions"));
  const std::string mixed = R"({"version":2.0,"y":[11.0,13.0,15.0,17.0]})";
  EXPECT_THAT(wrong_version_answer(of_versions(kFirstOf2, mixed), kRows, 1, 3), HasSubstr("two versions"));
}

TEST(BenchAnswers, OfAVersionThatIsNotThereAreWrong) {
  EXPECT_THAT(wrong_version_answer(of_versions(kFirstOf2, kSecondOf2), kRows, 3, 4), HasSubstr("3 to 4 are there"));
  EXPECT_THAT(wrong_version_answer(of_versions(kFirstOf2, kSecondOf2), kRows, 0, 1), HasSubstr("0 to 1 are there"));
}

TEST(BenchAnswers, WithoutAllRowsOrNotOfJsonAreWrong) {
  EXPECT_THAT(wrong_version_answer(R"({"predictions":[)" + std::string(kFirstOf2) + "]}", kRows, 1, 3),
              HasSubstr("1 rows"));
  EXPECT_NE(wrong_version_answer(R"({"predictions":[]})", kRows, 1, 3), "");
  EXPECT_NE(wrong_version_answer(R"({"error":"busy"})", kRows, 1, 3), "");
  EXPECT_NE(wrong_version_answer("{", kRows, 1, 3), "");
}

TEST(BenchAnswers, MayDifferInRounding) {
  const Tensor y = Tensor::of<float>({1, 2}, {1, -0.5});
  EXPECT_EQ(wrong_rest_answer(R"({"predictions":[[1.0001,-0.5]]})", y), "");
  EXPECT_THAT(wrong_rest_answer(R"({"predictions":[[1.1,-0.5]]})", y), HasSubstr("differ"));
  EXPECT_THAT(wrong_rest_answer(R"({"predictions":[[1]]})", y), HasSubstr("1 numbers"));
  EXPECT_NE(wrong_rest_answer(R"({"predictions":["1",-0.5]})", y), "");
}

TEST(BenchAnswers, TheSameBytesAreLookedAtOnce) {
  int looks = 0;
  KnownAnswers known([&](std::string_view answer) -> std::string {
    ++looks;
    return answer == "bad" ? "wrong" : "";
  });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(known.wrong("good"), "");
  EXPECT_EQ(looks, 1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(known.wrong("bad"), "wrong");
  EXPECT_EQ(looks, 4);
}

TEST(BenchAnswers, RequestsHaveARowInAList) {
  EXPECT_EQ(rest_body(Tensor::of<float>({2, 2}, {0.5, -1, 0.1234567f, 0})),
            R"({"instances": [[0.500000, -1.000000], [0.123457, 0.000000]]})");
  EXPECT_EQ(rest_body(Tensor::of<std::int32_t>({1, 2}, {7, -1})), R"({"instances": [[7, -1]]})");
}

}  // namespace
}  // namespace troupe::bench
