#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/error_of.hpp"
#include <troupe/actors/model/saved_model.hpp>
#include <troupe/actors/model/values.hpp>

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;

Parameters example_values() {
  return {{"body/dense/kernel", Tensor::of<float>({2, 1}, {1, -2.5f})},
          {"body/dense/bias", Tensor::vector<float>({0.5f})},
          {"head/kernel", Tensor::scalar<double>(3)}};
}

std::vector<std::string> names_of(const Parameters& values) {
  std::vector<std::string> out;
  for (const auto& [name, unused] : values) out.push_back(name);
  return out;
}

class Values : public ::testing::Test {
 protected:
  Parameters load(const std::string& path, const ValueChoice& choice = {}) { return load_values(files_, path, choice); }
  std::string refused(const std::string& path, const ValueChoice& choice = {}) {
    return error_of([&] { load(path, choice); }).to_string();
  }

  MemoryFileSystem files_;
};

TEST_F(Values, ComeBackFromBothFormatsAndFromASavedModel) {
  for (const char* path : {"/v.safetensors", "/v.npz"}) {
    save_values(files_, path, example_values());
    EXPECT_EQ(params_sha256(load(path)), params_sha256(example_values())) << path;
  }
  save_model(files_, "/m", {.values = example_values()});
  EXPECT_EQ(params_sha256(load("/m")), params_sha256(example_values()));
}

TEST_F(Values, AreChosenByPatternAndRenamed) {
  save_values(files_, "/v.npz", example_values());
  EXPECT_THAT(names_of(load("/v.npz", {.only = {"*/kernel"}})), ElementsAre("body/dense/kernel", "head/kernel"));
  EXPECT_THAT(names_of(load("/v.npz", {.except = {"head/*", "nothing"}})),
              ElementsAre("body/dense/bias", "body/dense/kernel"));
  EXPECT_THAT(names_of(load("/v.npz", {.only = {"body/*", "head/*"}, .except = {"*/bias"}})),
              ElementsAre("body/dense/kernel", "head/kernel"));
  const Parameters renamed = load("/v.npz", {.prefixes = {{"body/dense", "encoder"}, {"body/", ""}, {"", "old/"}}});
  EXPECT_THAT(names_of(renamed), ElementsAre("encoder/bias", "encoder/kernel", "old/head/kernel"));
  EXPECT_TRUE(bitwise_equal(renamed.at("encoder/kernel"), example_values().at("body/dense/kernel")));
}

TEST_F(Values, AreTransposedByPattern) {
  const Tensor matrix = Tensor::of<std::int16_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  save_values(files_, "/v.npz", {{"a/w", matrix}, {"b/w", matrix}});
  const Parameters values = load_values(files_, "/v.npz", {.prefixes = {{"a/", "c/"}}, .transposed = {"a/*"}});
  EXPECT_TRUE(bitwise_equal(values.at("c/w"), Tensor::of<std::int16_t>({3, 2}, {1, 4, 2, 5, 3, 6})));
  EXPECT_TRUE(bitwise_equal(values.at("b/w"), matrix));
}

TEST_F(Values, MistakesAreNamed) {
  save_values(files_, "/v.npz", example_values());
  EXPECT_EQ(refused("/v.npz", {.transposed = {"*bias"}}),
            "invalid_argument: '/v.npz': 'body/dense/bias' is f32[1], but a matrix of numbers is expected where it is "
            "to be transposed");
  EXPECT_EQ(refused("/v.npz", {.only = {"tail/*"}}),
            "not_found: '/v.npz' has no value that 'tail/*' matches; it has 3, like 'body/dense/bias'");
  EXPECT_EQ(refused("/v.npz", {.only = {"*/kernel"}, .prefixes = {{"body/dense/", ""}, {"head/", ""}}}),
            "invalid_argument: '/v.npz': 'head/kernel' and another value would both be called 'kernel'");
  EXPECT_EQ(refused("/v.bin"),
            "invalid_argument: '/v.bin' has no values: pass a saved model, a checkpoint, or a file that ends in "
            ".safetensors or .npz");
  EXPECT_EQ(error_of([&] { save_values(files_, "/v", {}); }).code(), Code::invalid_argument);
  EXPECT_EQ(refused("/none.npz"), "not_found: '/none.npz' does not exist");
}

TEST_F(Values, ReplaceOthersAllOrNone) {
  Parameters values = example_values();
  const Tensor bias = Tensor::vector<float>({7});
  replace_values(values, {{"body/dense/bias", bias}}, "f");
  EXPECT_TRUE(bitwise_equal(values.at("body/dense/bias"), bias));
  const Parameters wrong[] = {{{"body/dense/bias", Tensor::vector<float>({8})}, {"tail", bias}},
                              {{"body/dense/bias", Tensor::vector<float>({8})}, {"head/kernel", bias}}};
  EXPECT_EQ(error_of([&] { replace_values(values, wrong[0], "f"); }).to_string(),
            "not_found: 'f' has a value for 'tail', but the model has no such variable");
  EXPECT_EQ(error_of([&] { replace_values(values, wrong[1], "f"); }).to_string(),
            "invalid_argument: 'f': 'head/kernel' is f32[1], the model expects f64[]");
  EXPECT_TRUE(bitwise_equal(values.at("body/dense/bias"), bias));
}

}  // namespace
}  // namespace troupe::testing
