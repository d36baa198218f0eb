// cuDNN is asked what it would do on an H200, of which only the properties are there: graphs, heuristics, choice of the
// engine and plans as on a GPU, but for running them.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/kernels/common/conv_geometry.hpp>
#include <troupe/kernels/cuda/conv_engines.hpp>
#include <troupe/kernels/cuda/conv_graph.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::string_view kH200 =
    R"({"deviceVer": 900, "deviceName": "NVIDIA H200", "multiProcessorCount": 132, "totalGlobalMem": 150000000000,
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "warpSize": 32,
  "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxCtasPerSM": 32, "regsPerBlock": 65536,
  "maxRegistersPerSM": 65536, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
  "reservedSharedMemoryPerBlock": 1024, "l2CacheSize": 62914560, "smClockRateKHz": 1980000,
  "memClockRateKHz": 3201000, "pciDeviceId": 0,
  "cudaDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1, "driverVer": 13000, "cudartVer": 13000})";

// Null, with a reason, if this cuDNN does not take properties of this form: the form is not documented.
const CudnnDescriptor* h200(std::string& why) {
  static const auto made = []() -> std::pair<std::unique_ptr<CudnnDescriptor>, std::string> {
    try {
      auto properties = std::make_unique<CudnnDescriptor>(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
      properties->set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                      static_cast<std::int64_t>(kH200.size()), kH200.data());
      properties->finalize();
      return {std::move(properties), ""};
    } catch (const Error& error) {
      return {nullptr, error.message()};
    }
  }();
  why = made.second;
  return made.first.get();
}

ConvGeometry geometry(Shape x, Shape filter, std::int64_t stride) {
  return conv_geometry(x, filter, {.windows = {.strides = {stride, stride}, .padding = Padding::same}});
}

constexpr ConvDirection kDirections[] = {ConvDirection::forward, ConvDirection::backward_input,
                                         ConvDirection::backward_filter};

TEST(ConvGraph, IsWhatCudnnTakes) {
  for (ConvDirection direction : kDirections)
    for (DType dtype : {DType::f32, DType::f16, DType::bf16})
      for (std::int64_t stride : {1, 2})
        EXPECT_EQ(
            ConvOperations(
                {.direction = direction, .dtype = dtype, .geometry = geometry({8, 56, 56, 64}, {3, 3, 64, 32}, stride)})
                .all()
                .size(),
            1u)
            << static_cast<int>(direction) << ' ' << name(dtype) << ", stride " << stride;
  ConvKey fused{.dtype = DType::bf16, .bias = true, .geometry = geometry({8, 56, 56, 64}, {3, 3, 64, 32}, 1)};
  EXPECT_EQ(ConvOperations(fused).all().size(), 2u);
  fused.relu = true;
  EXPECT_EQ(ConvOperations(fused).all().size(), 3u);
  EXPECT_THROW(ConvOperations({.dtype = DType::f64, .geometry = geometry({1, 4, 4, 1}, {3, 3, 1, 1}, 1)}), Error);
}

TEST(ConvEngines, AreThereForEveryDirectionAndTypeUnpadded) {
  std::string why;
  const CudnnDescriptor* const properties = h200(why);
  if (!properties) GTEST_SKIP() << "no properties of a GPU: " << why;
  for (const ConvGeometry& g :
       {geometry({64, 56, 56, 64}, {3, 3, 64, 64}, 1), geometry({64, 56, 56, 128}, {3, 3, 128, 128}, 2),
        geometry({32, 224, 224, 3}, {7, 7, 3, 64}, 2), geometry({8, 28, 28, 1}, {3, 3, 1, 32}, 1)})
    for (ConvDirection direction : kDirections)
      for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
        const ConvPlan plan =
            plan_convolution({.direction = direction, .dtype = dtype, .geometry = g}, {.properties = properties});
        ASSERT_TRUE(plan.execution) << name(dtype) << " " << static_cast<int>(direction);
        EXPECT_EQ(plan.geometry, g) << "padded by a copy";
      }
}

struct EngineCase {
  std::string name;
  Shape x, filter;  // channels last
  ConvAttributes options;
};

// x and the filter with channels first, if wanted.
ConvGeometry geometry_of(EngineCase c, bool channels_first) {
  if (channels_first) {
    c.options.windows.format = DataFormat::channels_first;
    const int rank = c.x.rank();
    Shape x = c.x, filter = c.filter;
    x.set_dim(1, c.x[-1]);
    filter.set_dim(0, c.filter[-1]);
    filter.set_dim(1, c.filter[-2]);
    for (int d = 2; d < rank; ++d) {
      x.set_dim(d, c.x[d - 1]);
      filter.set_dim(d, c.filter[d - 2]);
    }
    c.x = x, c.filter = filter;
  }
  return conv_geometry(c.x, c.filter, c.options);
}

std::vector<EngineCase> engine_cases() {
  using List = std::vector<std::int64_t>;
  const auto same = [](List strides, List dilations) {
    return WindowOptions{.strides = std::move(strides), .dilations = std::move(dilations), .padding = Padding::same};
  };
  return {{"groups", {8, 28, 28, 64}, {3, 3, 16, 64}, {.windows = same({1, 1}, {}), .groups = 4}},
          {"depthwise", {8, 28, 28, 64}, {3, 3, 1, 64}, {.windows = same({1, 1}, {}), .groups = 64}},
          {"depthwise_stride_2", {8, 28, 28, 64}, {3, 3, 1, 128}, {.windows = same({2, 2}, {}), .groups = 64}},
          {"dilated", {8, 28, 28, 64}, {3, 3, 64, 64}, {.windows = same({1, 1}, {2, 2})}},
          {"line", {8, 500, 64}, {5, 64, 64}, {.windows = same({1}, {})}},
          {"line_dilated", {8, 500, 64}, {3, 64, 64}, {.windows = same({1}, {4})}},
          {"volume", {2, 16, 28, 28, 32}, {3, 3, 3, 32, 64}, {.windows = same({1, 1, 1}, {})}},
          {"volume_stride_2", {2, 16, 28, 28, 32}, {3, 3, 3, 32, 64}, {.windows = same({2, 2, 2}, {})}}};
}

TEST(ConvEngines, CoverGroupsDilationsAndOneToThreeDimensions) {
  std::string why;
  const CudnnDescriptor* const properties = h200(why);
  if (!properties) GTEST_SKIP() << "no properties of a GPU: " << why;
  for (const EngineCase& c : engine_cases())
    for (const bool first : {false, true})
      for (ConvDirection direction : kDirections)
        for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
          const ConvKey key{.direction = direction, .dtype = dtype, .geometry = geometry_of(c, first)};
          EXPECT_TRUE(plan_convolution(key, {.properties = properties}).execution)
              << c.name << (first ? ", channels first, " : ", ") << name(dtype) << ' ' << static_cast<int>(direction);
        }
}

TEST(ConvEngines, AddBiases) {
  std::string why;
  const CudnnDescriptor* const properties = h200(why);
  if (!properties) GTEST_SKIP() << "no properties of a GPU: " << why;
  for (DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (bool relu : {false, true}) {
      const ConvKey key{
          .dtype = dtype, .bias = true, .relu = relu, .geometry = geometry({64, 28, 28, 128}, {3, 3, 128, 128}, 1)};
      const ConvPlan plan = plan_convolution(key, {.properties = properties});
      if (relu)
        RecordProperty("relu_" + std::string(name(dtype)), plan.execution ? "fused" : "apart");
      else
        EXPECT_TRUE(plan.execution) << name(dtype);
    }
}

TEST(ConvEngines, RoundNothingThatWasNotAskedFor) {
  const ConvKey strict{.dtype = DType::f32}, tf32{.dtype = DType::f32, .tf32 = true},
      fast{.dtype = DType::bf16, .deterministic = false}, half{.dtype = DType::f16};
  EXPECT_TRUE(engine_fits(strict, {}));
  const ConvKey relu{.dtype = DType::f16, .bias = true, .relu = true};
  EXPECT_FALSE(engine_fits(relu, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE})) << "may lose NaN";
  EXPECT_TRUE(engine_fits(relu, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP}));
  EXPECT_FALSE(engine_fits(strict, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}));
  EXPECT_TRUE(engine_fits(tf32, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}));
  EXPECT_TRUE(engine_fits(half, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}));
  EXPECT_FALSE(engine_fits(half, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}));
  EXPECT_TRUE(engine_fits(fast, {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}));
  for (const auto note : {CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
                          CUDNN_NUMERICAL_NOTE_FFT, CUDNN_NUMERICAL_NOTE_WINOGRAD})
    EXPECT_FALSE(engine_fits(fast, {note})) << static_cast<int>(note);
}

}  // namespace
}  // namespace troupe
