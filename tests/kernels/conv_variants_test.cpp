// Convolutions with groups, dilations, pads, in one to three dimensions and both data formats.
#include <gtest/gtest.h>

#include "tests/kernels/random_tensors.hpp"
#include <troupe/kernels/common/conv_geometry.hpp>

namespace troupe {
namespace {

using namespace troupe::testing;
using Integers = std::vector<std::int64_t>;

// Sizes of channels last: the test makes channels first of them.
struct Variant {
  Shape x, filter;
  Integers strides, dilations, pads;
  std::int64_t groups;
  const char* padding;
};

std::vector<Variant> variants() {
  return {
      {{2, 9, 4}, {3, 4, 6}, {2}, {}, {}, 1, "SAME"},
      {{2, 11, 4}, {3, 2, 6}, {1}, {2}, {3, 1}, 2, "EXPLICIT"},
      {{2, 8, 7, 6}, {3, 3, 1, 6}, {1, 1}, {}, {}, 6, "SAME"},
      {{2, 8, 7, 16}, {3, 3, 1, 32}, {2, 1}, {}, {}, 16, "SAME_LOWER"},
      {{1, 9, 10, 32}, {3, 3, 8, 64}, {1, 1}, {}, {}, 4, "VALID"},
      {{2, 10, 9, 4}, {3, 2, 4, 8}, {1, 1}, {2, 3}, {}, 1, "SAME"},
      {{1, 6, 7, 3}, {3, 2, 3, 5}, {2, 3}, {}, {0, 2, 3, 1}, 1, "EXPLICIT"},
      {{1, 5, 6, 2}, {1, 1, 2, 3}, {1, 1}, {}, {1, 0, 0, 2}, 1, "EXPLICIT"},
      {{2, 4, 5, 6, 4}, {2, 3, 2, 4, 3}, {1, 2, 1}, {}, {}, 1, "SAME"},
      {{1, 6, 5, 7, 4}, {2, 2, 3, 2, 6}, {1, 1, 2}, {2, 1, 1}, {1, 0, 2, 0, 1, 1}, 2, "EXPLICIT"},
      {{1, 4, 5, 6, 16}, {3, 3, 3, 1, 16}, {1, 1, 1}, {}, {}, 16, "SAME"},
  };
}

Attributes attributes_of(const Variant& v, bool first) {
  return {{"strides", v.strides},
          {"dilations", v.dilations},
          {"pads", v.pads},
          {"groups", v.groups},
          {"padding", std::string(v.padding)},
          {"data_format", std::string(first ? "channels_first" : "channels_last")}};
}

// Moves the channels of an image to the front of its spatial axes, or of a filter [spatial..., in, out] to [out, in,
// spatial...].
Shape with_channels_first(const Shape& s, bool filter) {
  Integers dims;
  if (filter) {
    dims = {s[-1], s[-2]};
    for (int i = 0; i + 2 < s.rank(); ++i) dims.push_back(s[i]);
  } else {
    dims = {s[0], s[-1]};
    for (int i = 1; i + 1 < s.rank(); ++i) dims.push_back(s[i]);
  }
  return Shape(dims);
}

// From the definition, with the axes' sizes from the geometry (tested beside the shape functions). Calls fn(index in x,
// in filter, in y) for each product.
template <class Fn>
void for_each_product(const ConvGeometry& g, Fn fn) {
  const auto inside = [](const WindowAxis& axis, std::int64_t at) { return at >= 0 && at < axis.input; };
  const auto image = [&](std::int64_t b, std::int64_t pixel, std::int64_t c, std::int64_t pixels, std::int64_t all) {
    return g.channels_first ? (b * all + c) * pixels + pixel : (b * pixels + pixel) * all + c;
  };
  for (std::int64_t b = 0; b < g.batch; ++b)
    for (std::int64_t window = 0; window < g.windows(); ++window)
      for (std::int64_t tap = 0; tap < g.taps(); ++tap) {
        const std::int64_t z = g.depth.position(window / (g.columns.output * g.rows.output),
                                                tap / (g.columns.kernel * g.rows.kernel)),
                           y = g.rows.position(window / g.columns.output % g.rows.output,
                                               tap / g.columns.kernel % g.rows.kernel),
                           x = g.columns.position(window % g.columns.output, tap % g.columns.kernel);
        if (!inside(g.depth, z) || !inside(g.rows, y) || !inside(g.columns, x)) continue;
        const std::int64_t pixel = (z * g.rows.input + y) * g.columns.input + x;
        for (std::int64_t o = 0; o < g.out_channels; ++o)
          for (std::int64_t i = 0; i < g.group_in(); ++i) {
            const std::int64_t in = o / g.group_out() * g.group_in() + i;
            const std::int64_t weight = g.channels_first ? (o * g.group_in() + i) * g.taps() + tap
                                                         : (tap * g.group_in() + i) * g.out_channels + o;
            fn(image(b, pixel, in, g.image_pixels(), g.in_channels), weight,
               image(b, window, o, g.windows(), g.out_channels));
          }
      }
}

double value(const std::vector<double>& values, std::int64_t i) { return values[static_cast<std::size_t>(i)]; }

class ConvVariants : public ::testing::TestWithParam<bool> {};

TEST_P(ConvVariants, AndTheirGradientsEqualTheDefinition) {
  const bool first = GetParam();
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(31);
  int number = 0;
  for (const Variant& v : variants())
    for (DType dtype : kFloats) {
      const std::string text = fmt::format("variant {} {}", number++ / 4, name(dtype));
      const Attributes attributes = attributes_of(v, first);
      const Shape x_shape = first ? with_channels_first(v.x, false) : v.x,
                  f_shape = first ? with_channels_first(v.filter, true) : v.filter;
      const ConvGeometry g = conv_geometry(x_shape, f_shape, conv_attributes(attributes));
      const Tensor x = random_tensor(dtype, x_shape, engine), filter = random_tensor(dtype, f_shape, engine);
      const Tensor y = run_every_way(registry, {"Conv", dtype, {x, filter}, attributes})[0];
      ASSERT_EQ(y.shape(), g.result_shape()) << text;
      const Tensor dy = random_tensor(dtype, y.shape(), engine);
      const Tensor dx = run_every_way(registry, {"ConvBackpropInput", dtype, {x, filter, dy}, attributes})[0];
      const Tensor df = run_every_way(registry, {"ConvBackpropFilter", dtype, {x, filter, dy}, attributes})[0];
      Sums want_y(y.num_elements()), want_dx(x.num_elements()), want_df(filter.num_elements());
      const auto xs = doubles(x), fs = doubles(filter), gs = doubles(dy);
      for_each_product(g, [&](std::int64_t i, std::int64_t f, std::int64_t o) {
        want_y.add(o, value(xs, i) * value(fs, f));
        want_dx.add(i, value(gs, o) * value(fs, f));
        want_df.add(f, value(gs, o) * value(xs, i));
      });
      expect_close(y, want_y, text);
      expect_close(dx, want_dx, text + " input gradient");
      expect_close(df, want_df, text + " filter gradient");
      // A transposed convolution to the size of x is the input's gradient.
      Integers sizes;
      const int axis = first ? 2 : 1;
      for (int i = 0; i < g.spatial; ++i) sizes.push_back(x_shape[axis + i]);
      const Tensor given = Tensor::of<std::int64_t>(Shape{g.spatial}, std::span<const std::int64_t>(sizes));
      const auto device = test_device();
      const Tensor transposed =
          run_kernel(registry, *device, {"ConvTranspose", dtype, {dy, filter, given}, attributes})[0];
      EXPECT_TRUE(bitwise_equal(transposed, dx)) << text;
    }
}

TEST_P(ConvVariants, FuseABias) {
  const bool first = GetParam();
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(32);
  for (const Variant& v : variants())
    for (DType dtype : kFloats) {
      const Shape x_shape = first ? with_channels_first(v.x, false) : v.x,
                  f_shape = first ? with_channels_first(v.filter, true) : v.filter;
      const Tensor x = random_tensor(dtype, x_shape, engine), filter = random_tensor(dtype, f_shape, engine),
                   bias = random_tensor(dtype, {v.filter[-1]}, engine);
      Attributes attributes = attributes_of(v, first);
      const auto device = test_device();
      const Tensor y = run_kernel(registry, *device, {"Conv", dtype, {x, filter}, attributes})[0];
      const Tensor added = run_kernel(
          registry, *device, {"BiasAdd", dtype, {y, bias}, {{"data_format", attributes.string("data_format")}}})[0];
      const Tensor wanted = run_kernel(registry, *device, {"Relu", dtype, {added}, {}})[0];
      attributes.set("activation", std::string("relu"));
      // A library that adds the bias rounds 16 bits once less (kernels/cuda/conv.cpp).
      if (!kernel_target().on_host() && size_of(dtype) == 2) continue;
      const Tensor fused = run_every_way(registry, {"FusedConv", dtype, {x, filter, bias}, attributes})[0];
      EXPECT_TRUE(bitwise_equal(fused, wanted)) << v.x.to_string() << name(dtype);
    }
}

INSTANTIATE_TEST_SUITE_P(Formats, ConvVariants, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "ChannelsFirst" : "ChannelsLast"; });

TEST(ConvTranspose, HasTheValuesOfPyTorch) {
  // torch.nn.functional.conv_transpose1d(torch.tensor([[[1., 2., 3.]]]), torch.tensor([[[1., 10., 100.]]]), stride=2,
  // padding=1, output_padding=1)
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  const Tensor none(DType::i64, Shape{0});
  const Attributes attributes{{"strides", Integers{2}},
                              {"padding", std::string("EXPLICIT")},
                              {"pads", Integers{1, 1}},
                              {"output_padding", Integers{1}},
                              {"data_format", std::string("channels_first")}};
  const Tensor y =
      run_kernel(registry, *device,
                 {"ConvTranspose",
                  DType::f32,
                  {Tensor::of<float>({1, 1, 3}, {1, 2, 3}), Tensor::of<float>({1, 1, 3}, {1, 10, 100}), none},
                  attributes})[0];
  EXPECT_TRUE(bitwise_equal(y, Tensor::of<float>({1, 1, 6}, {10, 102, 20, 203, 30, 300}))) << y.to_string();
}

TEST(ConvTranspose, RefusesSizesThatAreConvolvedToOthers) {
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  const auto run = [&](std::initializer_list<std::int64_t> sizes, Integers output_padding) {
    return message_of(Code::invalid_argument, [&] {
      run_kernel(registry, *device,
                 {"ConvTranspose",
                  DType::f32,
                  {Tensor::zeros(DType::f32, {1, 3, 2}), Tensor::zeros(DType::f32, {3, 1, 2}),
                   Tensor::vector<std::int64_t>(sizes)},
                  {{"strides", Integers{2}}, {"padding", std::string("VALID")}, {"output_padding", output_padding}}});
    });
  };
  EXPECT_EQ(run({9}, {}), "width: an output of 9 is convolved to 4, not to the input's 3");
  EXPECT_EQ(run({-1}, {}), "ConvTranspose: a size of -1");
  EXPECT_EQ(run({1, 2}, {}), "ConvTranspose: 2 sizes and 0 output paddings for 1 spatial dimensions");
  EXPECT_EQ(run({}, {2}), "width: an output padding of 2, which is not from 0 to stride 2 - 1");
}

TEST(ConvInteger, HasExactSums) {
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  std::mt19937_64 engine(33);
  for (const bool first : {false, true})
    for (const Variant& v : variants()) {
      const Shape x_shape = first ? with_channels_first(v.x, false) : v.x,
                  f_shape = first ? with_channels_first(v.filter, true) : v.filter;
      Tensor x(DType::u8, x_shape), filter(DType::i8, f_shape), zeros(DType::i8, {v.filter[-1]});
      for (auto& e : x.mutable_values<std::uint8_t>()) e = static_cast<std::uint8_t>(engine());
      for (auto& e : filter.mutable_values<std::int8_t>()) e = static_cast<std::int8_t>(engine());
      for (auto& e : zeros.mutable_values<std::int8_t>()) e = static_cast<std::int8_t>(engine());
      const Attributes attributes = attributes_of(v, first);
      const Tensor y = run_kernel(registry, *device,
                                  {"ConvInteger",
                                   DType::u8,
                                   {x, filter, Tensor::scalar<std::uint8_t>(200), zeros},
                                   attributes,
                                   1,
                                   {},
                                   {},
                                   0,
                                   "test",
                                   {DType::i32}})[0];
      const ConvGeometry g = conv_geometry(x_shape, f_shape, conv_attributes(attributes));
      std::vector<std::int32_t> wanted(static_cast<std::size_t>(g.batch * g.result_size()));
      for_each_product(g, [&](std::int64_t i, std::int64_t f, std::int64_t o) {
        const std::int64_t channel = first ? o / g.windows() % g.out_channels : o % g.out_channels;
        wanted[static_cast<std::size_t>(o)] +=
            (x.data<std::uint8_t>()[i] - 200) * (filter.data<std::int8_t>()[f] - zeros.data<std::int8_t>()[channel]);
      });
      EXPECT_TRUE(bitwise_equal(y, Tensor::of<std::int32_t>(g.result_shape(), std::span<const std::int32_t>(wanted))))
          << v.x.to_string();
    }
}

}  // namespace
}  // namespace troupe
