#include "troupe/actors/serving/weight_pool.hpp"

#include <gtest/gtest.h>

#include "tests/actors/serving/served_models.hpp"
#include <troupe/actors/model/any_model.hpp>
#include <troupe/actors/serving/loaded_servable.hpp>
#include <troupe/graph/builder/variable.hpp>

namespace troupe::testing {
namespace {

constexpr std::int64_t kColumns = WeightPool::kSmallest / sizeof(float);

Tensor weight(const Shape& shape, float value) {
  Tensor out = Tensor::zeros(DType::f32, shape);
  std::ranges::fill(out.mutable_values<float>(), value);
  return out;
}

// What is left of them after the pool has shared them.
Tensor of_pool(WeightPool& pool, const Tensor& tensor, WeightShares& shares) {
  Parameters values{{"w", tensor}};
  for (auto& share : pool.share(values)) shares.push_back(std::move(share));
  return values.at("w");
}

TEST(WeightPools, EqualTensorsShareMemory) {
  WeightPool pool;
  WeightShares shares;
  const Tensor first = weight({kColumns}, 1);
  EXPECT_EQ(of_pool(pool, first, shares).raw(), first.raw());
  EXPECT_EQ(of_pool(pool, weight({kColumns}, 1), shares).raw(), first.raw());
  EXPECT_EQ(shares.size(), 2u);
  EXPECT_EQ(pool.bytes(), first.num_bytes());
  for (const Tensor& other : {weight({kColumns}, 2), weight({kColumns, 1}, 1), weight({2 * kColumns}, 1)})
    EXPECT_EQ(of_pool(pool, other, shares).raw(), other.raw());
  Tensor bits(DType::i32, {kColumns});
  std::memcpy(bits.mutable_raw(), first.raw(), first.num_bytes());
  EXPECT_EQ(of_pool(pool, bits, shares).raw(), bits.raw());
}

TEST(WeightPools, KeepNothingThatNobodyHasAShareOf) {
  WeightPool pool;
  WeightShares shares;
  Tensor first = weight({kColumns}, 1);
  static_cast<void>(of_pool(pool, first, shares));
  EXPECT_FALSE(first.unique());
  shares.clear();
  EXPECT_TRUE(first.unique());
  EXPECT_EQ(pool.bytes(), 0u);
  const Tensor second = weight({kColumns}, 1);
  EXPECT_EQ(of_pool(pool, second, shares).raw(), second.raw());
}

TEST(WeightPools, LeaveOutSmallTensorsViewsAndStrings) {
  WeightPool pool;
  WeightShares shares;
  const Tensor large = weight({2, kColumns}, 1);
  for (const Tensor& tensor : {weight({kColumns - 1}, 1), large.rows(0, 1), Tensor(DType::string, Shape{kColumns})})
    EXPECT_EQ(of_pool(pool, tensor, shares).raw(), tensor.raw());
  EXPECT_TRUE(shares.empty());
}

// "y" [?,n] is "x" [?,n] plus a variable, plus the version.
AnyModel plus_model(float version) {
  AnyModel out;
  out.graph = std::make_shared<Graph>();
  const Shape shape{kUnknown, kColumns};
  const Output x = placeholder(*out.graph, DType::f32, shape, "x");
  const Output initial = constant(*out.graph, weight({kColumns}, 0));
  const Output w = variable(*out.graph, {.name = "w", .initial_value = initial}).read();
  const Output y = add(add(x, w), constant(*out.graph, Tensor::scalar(version)), "y");
  out.signatures["predict"] = {.inputs = {{"x", {"x", DType::f32, shape}}},
                               .outputs = {{"y", {y.name(), DType::f32, shape}}}};
  out.values["w"] = weight({kColumns}, 3);
  return out;
}

TEST(WeightPools, VersionsShareWeightsThatAreRead) {
  const TemporaryDirectory directory;
  Task task;
  for (const ModelFormat format : {ModelFormat::tensorflow, ModelFormat::onnx}) {
    SharedLoading shared;
    const WeightPool& pool = shared.weights;
    std::vector<std::shared_ptr<LoadedServable>> versions;
    for (const int version : {1, 2}) {
      const std::string path = directory.file(fmt::format("{}{}", name(format), version));
      write_any_model(posix_file_system(), path, format, plus_model(static_cast<float>(version)));
      const auto device = std::make_shared<PrivateDevice>(task, PrivateDeviceOptions{.threads = 1});
      const ServableId id{"plus", version};
      ServableModel model = FormatLoader(task.ops()).load(id.model, {.version = version, .path = path});
      versions.push_back(
          std::make_shared<LoadedServable>(task, id, std::move(model), device, std::vector<std::int64_t>{}, shared));
      EXPECT_EQ(pool.bytes(), WeightPool::kSmallest) << name(format);
    }
    versions.erase(versions.begin());
    EXPECT_EQ(pool.bytes(), WeightPool::kSmallest);
    const ServingResult result = ask(*versions.front(), {.inputs = {{"x", weight({1, kColumns}, 1)}}});
    ASSERT_FALSE(result.error) << result.error.message();
    EXPECT_EQ(result.outputs.begin()->second.values<float>()[7], 6);
    versions.clear();
    EXPECT_EQ(pool.bytes(), 0u);
  }
}

}  // namespace
}  // namespace troupe::testing
