// Resizing and sampling of images, with the values of ONNX's reference implementation and of ONNX Runtime.
#include "tests/kernels/kernel_fixture.hpp"

namespace troupe::testing {
namespace {

using Values = std::vector<double>;

Tensor floats(const Shape& shape, const Values& values) {
  Tensor t(DType::f32, shape);
  std::size_t i = 0;
  for (float& v : t.mutable_values<float>()) v = static_cast<float>(values.at(i++));
  return t;
}
Tensor integers(const std::vector<std::int64_t>& values) {
  return Tensor::of<std::int64_t>(Shape{std::ssize(values)}, values);
}

Attributes resize_attributes(const std::string& mode) {
  return {{"mode", mode},
          {"coordinates", std::string("half_pixel")},
          {"nearest_mode", std::string("round_prefer_floor")},
          {"cubic_coeff_a", -0.75},
          {"exclude_outside", false},
          {"aspect", std::string("stretch")},
          {"antialias", false},
          {"axes", std::vector<std::int64_t>{}},
          {"extrapolation_value", 0.0}};
}
Attributes with(Attributes attributes, std::initializer_list<std::pair<const char*, AttrValue>> others) {
  for (const auto& [key, value] : others) attributes.set(key, value);
  return attributes;
}

class ImageTest : public KernelTest {
 protected:
  Tensor to_sizes(const Tensor& x, const std::vector<std::int64_t>& sizes, const Attributes& attributes,
                  const Values& roi = {}) {
    return run1("Resize", {x, floats({std::ssize(roi)}, roi), floats({0}, {}), integers(sizes)}, attributes);
  }
  Tensor by_scales(const Tensor& x, const Values& scales, const Attributes& attributes) {
    return run1("Resize", {x, floats({0}, {}), floats({std::ssize(scales)}, scales), integers({})}, attributes);
  }
  static void expect_near(const Tensor& out, const Shape& shape, const Values& values, double tolerance = 2e-5) {
    ASSERT_EQ(out.shape(), shape);
    const Values found = doubles(out);
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(found[i], values[i], tolerance) << i;
  }
  Tensor x_ = floats({1, 1, 3, 4}, {0, 1, 4, 9, 16, 8, 2, 15, 13, 13, 15, 2});
};

TEST_F(ImageTest, LinearAndCubicPixelsAreWeighted) {
  expect_near(to_sizes(x_, {1, 1, 2, 6}, resize_attributes("linear")), {1, 1, 2, 6},
              {4, 3.375, 2.875, 3.375, 7, 10.5, 13.75, 12.75, 11.75, 11.75, 8.5, 5.25});
  expect_near(to_sizes(x_, {1, 1, 2, 6}, resize_attributes("cubic")), {1, 1, 2, 6},
              {3.8450792, 3.0065918, 2.2589519, 2.2986653, 7.0168457, 11.487115, 14.426989, 13.189819, 12.028523,
               12.558635, 8.5582275, 4.5635309});
  const auto symmetric = with(resize_attributes("linear"), {{"coordinates", std::string("half_pixel_symmetric")}});
  expect_near(by_scales(x_, {1, 1, 1.1, 1.3}, symmetric), {1, 1, 3, 5},
              {1.4545466, 1.5874132, 2.727273, 5.3601398, 9.545455, 16, 10.153847, 5.0000005, 5.5000005, 14.999999,
               13.272727, 12.741259, 13.181818, 10.954545, 3.1818178});
}

TEST_F(ImageTest, SmallerImagesMayBeSmoothed) {
  const auto smooth = [](const char* mode, bool exclude) {
    return with(resize_attributes(mode), {{"antialias", true}, {"exclude_outside", exclude}});
  };
  expect_near(to_sizes(x_, {1, 1, 2, 3}, smooth("linear", false)), {1, 1, 2, 3},
              {4.787879, 3.3333333, 8.909091, 13.272727, 11, 7.5151515});
  expect_near(to_sizes(x_, {1, 1, 2, 3}, smooth("cubic", false)), {1, 1, 2, 3},
              {4.8792319, 1.9591385, 9.5844755, 14.423779, 11.280491, 7.4977121});
  expect_near(to_sizes(x_, {1, 1, 2, 2}, smooth("linear", true)), {1, 1, 2, 2},
              {4.5892859, 6.7321429, 12.267858, 8.875});
  expect_near(to_sizes(x_, {1, 1, 2, 2}, smooth("cubic", true)), {1, 1, 2, 2},
              {3.7865889, 6.723752, 13.282802, 8.6850367});
}

TEST_F(ImageTest, NearestPixelsFollowTheirMode) {
  struct Case {
    const char *mode, *coordinates;
    Values out;
  };
  const Tensor x = floats({4}, {0, 1, 2, 3});
  for (const Case& c :
       {Case{"round_prefer_floor", "half_pixel", {0, 0, 1, 1, 2, 3, 3}},
        Case{"round_prefer_floor", "asymmetric", {0, 1, 1, 2, 2, 3, 3}},
        Case{"round_prefer_floor", "align_corners", {0, 0, 1, 1, 2, 2, 3}},
        Case{"round_prefer_ceil", "half_pixel", {0, 0, 1, 2, 2, 3, 3}},
        Case{"round_prefer_ceil", "align_corners", {0, 1, 1, 2, 2, 3, 3}},
        Case{"floor", "half_pixel", {0, 0, 0, 1, 2, 2, 3}}, Case{"floor", "asymmetric", {0, 0, 1, 1, 2, 2, 3}},
        Case{"ceil", "half_pixel", {0, 1, 1, 2, 3, 3, 3}}, Case{"ceil", "asymmetric", {0, 1, 2, 2, 3, 3, 3}}}) {
    SCOPED_TRACE(std::string(c.mode) + " " + c.coordinates);
    const auto attributes = with(resize_attributes("nearest"),
                                 {{"nearest_mode", std::string(c.mode)}, {"coordinates", std::string(c.coordinates)}});
    EXPECT_EQ(doubles(to_sizes(x, {7}, attributes)), c.out);
  }
}

TEST_F(ImageTest, NearestPixelsOfAnyDtypeAndAxes) {
  const auto attributes = with(resize_attributes("nearest"), {{"axes", std::vector<std::int64_t>{-1, 0}}});
  const auto check = [&]<class T>(const std::vector<T>& from, const std::vector<T>& expected) {
    const Tensor out = to_sizes(Tensor::of<T>(Shape{2, 1, 2}, from), {4, 3}, attributes);
    ASSERT_EQ(out.shape(), (Shape{3, 1, 4}));
    EXPECT_TRUE(bitwise_equal(out, Tensor::of<T>(Shape{3, 1, 4}, expected)));
  };
  check(std::vector<std::int64_t>{1, 2, 3, 4}, {1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4});
  check(std::vector<std::uint8_t>{1, 2, 3, 4}, {1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4});
  check(std::vector<std::int16_t>{1, 2, 3, 4}, {1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4});
  check(std::vector<std::string>{"a", "b", "c", "d"}, {"a", "a", "b", "b", "a", "a", "b", "b", "c", "c", "d", "d"});
  // Whole rows move where only the first axis changes.
  const auto rows = with(resize_attributes("nearest"), {{"axes", std::vector<std::int64_t>{0}}});
  EXPECT_EQ(doubles(to_sizes(floats({2, 2}, {1, 2, 3, 4}), {4}, rows)), (Values{1, 2, 1, 2, 3, 4, 3, 4}));
}

TEST_F(ImageTest, ProportionsMayStay) {
  const auto keep = [](const char* mode, const char* policy) {
    return with(resize_attributes(mode), {{"aspect", std::string(policy)}, {"axes", std::vector<std::int64_t>{2, 3}}});
  };
  EXPECT_TRUE(bitwise_equal(to_sizes(x_, {5, 4}, keep("linear", "not_larger")), x_));
  EXPECT_EQ(doubles(to_sizes(x_, {5, 4}, keep("nearest", "not_smaller"))),
            (Values{0, 0,  1,  4,  4,  9,  9,  0,  0, 1, 4,  4,  9,  9,  16, 16, 8, 2,
                    2, 15, 15, 13, 13, 13, 15, 15, 2, 2, 13, 13, 13, 15, 15, 2,  2}));
}

TEST_F(ImageTest, ChannelsMayBeLast) {
  const Tensor x = random<float>({2, 5, 4, 3});
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    const auto last = with(resize_attributes(mode), {{"axes", std::vector<std::int64_t>{1, 2}}});
    const auto first = with(resize_attributes(mode), {{"axes", std::vector<std::int64_t>{2, 3}}});
    const Attributes to_first{{"perm", std::vector<std::int64_t>{0, 3, 1, 2}}};
    const Tensor a = run1("Transpose", {to_sizes(x, {7, 3}, last)}, to_first);
    const Tensor b = to_sizes(run1("Transpose", {x}, to_first), {7, 3}, first);
    expect_near(a, b.shape(), doubles(b), 1e-5);
    EXPECT_TRUE(
        bitwise_equal(run_on_three_threads("Resize", {x, floats({0}, {}), floats({0}, {}), integers({7, 3})}, last),
                      to_sizes(x, {7, 3}, last)));
  }
}

TEST_F(ImageTest, IntegersAreInterpolatedAsFloats) {
  Tensor x(DType::u8, {1, 1, 3, 4});
  for (std::int64_t i = 0; i < 12; ++i)
    x.mutable_data<std::uint8_t>()[i] = static_cast<std::uint8_t>(15 * x_.data<float>()[i]);
  const auto plain = with(resize_attributes("linear"), {{"coordinates", std::string("asymmetric")}});
  expect_near(to_sizes(x, {1, 1, 5, 3}, plain), {1, 1, 5, 3},
              {0, 29, 109, 144, 66, 139, 231, 113, 147, 204, 181, 108, 195, 205, 95}, 1);
}

TEST_F(ImageTest, ARegionMayReachOutside) {
  const Values expected{9.5, 9.5, 9.5, 7.225, 5.25, 9.5, 12.4, 10.45, 9.5};
  const auto crop = with(resize_attributes("linear"),
                         {{"coordinates", std::string("tf_crop_and_resize")}, {"extrapolation_value", 9.5}});
  expect_near(to_sizes(x_, {1, 1, 3, 3}, crop, {0, 0, -0.2, 0.25, 1, 1, 0.9, 1.25}), {1, 1, 3, 3}, expected);
  expect_near(
      run1("CropAndResize",
           {x_.reshaped({1, 3, 4, 1}), floats({1, 4}, {-0.2, 0.25, 0.9, 1.25}), integers({0}), integers({3, 3})},
           {{"mode", std::string("linear")}, {"extrapolation_value", 9.5}}),
      {1, 3, 3, 1}, expected);
}

TEST_F(ImageTest, WrongArgumentsOfResizeAreErrors) {
  const Attributes plain = resize_attributes("linear");
  const auto error = [&](const Tensor& x, const Values& scales, const std::vector<std::int64_t>& sizes,
                         const Attributes& a) {
    return error_of("Resize", {x, floats({0}, {}), floats({std::ssize(scales)}, scales), integers(sizes)}, a);
  };
  EXPECT_NE(error(x_, {}, {1, 1, 2}, plain), "");
  EXPECT_NE(error(x_, {}, {}, plain), "");
  EXPECT_NE(error(x_, {}, {1, 1, -2, 2}, plain), "");
  EXPECT_NE(error(x_, {1, 1, 0, 1}, {}, plain), "");
  EXPECT_NE(error(x_, {1, 1, 1e38, 1}, {}, plain), "");
  EXPECT_NE(error(x_, {1, 1, std::nan(""), 1}, {}, plain), "");
  EXPECT_NE(error(floats({0}, {}), {}, {2}, plain), "");
  EXPECT_NE(error(x_, {}, {2, 2}, with(plain, {{"axes", std::vector<std::int64_t>{2, -2}}})), "");
  EXPECT_NE(error(Tensor::of<std::string>(Shape{1}, {"a"}), {}, {2}, plain), "");
  EXPECT_NE(error(x_, {}, {1, 1, 3, 3}, with(plain, {{"coordinates", std::string("tf_crop_and_resize")}})), "");
  EXPECT_EQ(to_sizes(x_, {1, 0, 1ll << 60, 3}, plain).shape(), (Shape{1, 0, 1ll << 60, 3}));
  EXPECT_TRUE(bitwise_equal(to_sizes(floats({}, {3}), {}, plain), floats({}, {3})));
}

TEST_F(ImageTest, GridsSample) {
  struct Case {
    const char *mode, *padding;
    bool corners;
    Values out;
  };
  const Tensor grid = floats({1, 2, 3, 2}, {-1.3, -0.9, -0.4, 0.1, 0.3, 0.8, 1.2, -0.2, 0.95, 1.4, -0.99, 0.5});
  for (const Case& c :
       {Case{"linear", "zeros", false, {0, 10.789999, 10.960004, 1.3199987, 0, 7.1499996}},
        Case{"linear", "zeros", true, {0.88000035, 9.2199993, 12.379999, 9.659997, 1.7849982, 14.440001}},
        Case{"linear", "border", false, {0, 10.789999, 13.700002, 13.200001, 2, 13.75}},
        Case{"linear", "border", true, {1.6000004, 9.2199993, 12.379999, 13.8, 2.9749975, 14.440001}},
        Case{"linear", "reflection", false, {0.099999905, 10.789999, 13.700002, 13.200001, 3.3000019, 13.75}},
        Case{"linear", "reflection", true, {1.6450002, 9.2199993, 12.379999, 10.379998, 7.3950005, 14.440001}},
        Case{"nearest", "zeros", false, {0, 8, 15, 0, 0, 13}}, Case{"nearest", "zeros", true, {0, 8, 15, 15, 2, 13}},
        Case{"nearest", "reflection", false, {0, 8, 15, 15, 2, 13}},
        Case{"cubic", "zeros", false, {0.10780011, 12.979503, 12.67442, 1.3387547, 0.010935267, 8.3651114}},
        Case{"cubic", "zeros", true, {0.71354449, 10.040577, 14.399609, 12.675597, 0.46809316, 17.351831}}}) {
    SCOPED_TRACE(std::string(c.mode) + " " + c.padding + (c.corners ? " corners" : ""));
    const Attributes a{
        {"mode", std::string(c.mode)}, {"padding", std::string(c.padding)}, {"align_corners", c.corners}};
    expect_near(run1("GridSample", {x_, grid}, a), {1, 1, 2, 3}, c.out, 1e-4);
  }
}

TEST_F(ImageTest, GridsMayHaveAnyNumbers) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Tensor grid = floats({1, 1, 5, 2}, {inf, 0, -inf, 1e30, nan, 0, 0, nan, -1e30, -1e30});
  for (const char* mode : {"nearest", "linear", "cubic"})
    for (const char* padding : {"zeros", "border", "reflection"}) {
      const Tensor out =
          run1("GridSample", {x_, grid},
               {{"mode", std::string(mode)}, {"padding", std::string(padding)}, {"align_corners", true}});
      for (const double v : doubles(out)) EXPECT_TRUE(std::isfinite(v)) << mode << ' ' << padding;
    }
  EXPECT_NE(error_of("GridSample", {x_, floats({2, 1, 1, 2}, {0, 0, 0, 0})},
                     {{"mode", std::string("linear")}, {"padding", std::string("zeros")}, {"align_corners", true}}),
            "");
}

TEST_F(ImageTest, RegionsAreAligned) {
  struct Case {
    const char* mode;
    bool half_pixel;
    std::int64_t ratio;
    Values out;
  };
  const Tensor rois = floats({3, 4}, {0.4, 0.2, 2.9, 1.7, -1, 0.5, 5, 3.5, 1, 1, 1.2, 1.1});
  for (const Case& c : {Case{"avg",
                             true,
                             0,
                             {0.63595611, 2.6787691, 8.8692675, 4.0777054, 8.6895828, 8.46875, 13.132916, 8.0397921,
                              5.512887, 5.2606621, 6.0526624, 5.7639875}},
                        Case{"avg",
                             false,
                             2,
                             {5.1097059, 4.661108, 9.6669006, 6.3379412, 10.809765, 9.7451572, 13.125, 5.4124994,
                              8.0300007, 5.6299992, 11.13, 10.73}},
                        Case{"max",
                             true,
                             0,
                             {0.6914345, 3.2569885, 9.5149488, 4.0649738, 15.399999, 14.437499, 13, 11.250002,
                              3.7517998, 3.1433997, 4.1514001, 3.4781997}},
                        Case{"max",
                             false,
                             2,
                             {4.3714118, 3.3840718, 6.2187109, 4.8141341, 12.599999, 11.812499, 13, 7.8749981,
                              7.6050005, 3.7050002, 9.8231249, 9.0093746}}}) {
    const Attributes a{{"mode", std::string(c.mode)},     {"half_pixel", c.half_pixel},
                       {"sampling_ratio", c.ratio},       {"output_height", std::int64_t{2}},
                       {"output_width", std::int64_t{2}}, {"spatial_scale", 0.9}};
    SCOPED_TRACE(std::string(c.mode) + (c.half_pixel ? " half_pixel" : ""));
    expect_near(run1("RoiAlign", {x_, rois, integers({0, 0, 0})}, a), {3, 1, 2, 2}, c.out, 1e-4);
    EXPECT_NE(error_of("RoiAlign", {x_, rois, integers({0, 1, 0})}, a), "");
    EXPECT_NE(error_of("RoiAlign", {x_, rois, integers({0, -1, 0})}, a), "");
    EXPECT_NE(error_of("RoiAlign", {x_, floats({1, 4}, {0, 0, std::nan(""), 1}), integers({0})}, a) +
                  (c.ratio > 0 ? "samples by ratio" : ""),
              "");
  }
  EXPECT_EQ(
      doubles(run1("MaxRoiPool", {x_, floats({3, 5}, {0, 0, 0, 3, 2, 0, 1.2, 0.6, 7, 1.4, 0, 5, 5, 6, 6})},
                   {{"output_height", std::int64_t{2}}, {"output_width", std::int64_t{2}}, {"spatial_scale", 0.8}})),
      (Values{16, 8, 16, 15, 9, 0, 15, 0, 0, 0, 0, 0}));
}

TEST_F(ImageTest, BoxesThatOverlapAreSuppressed) {
  const Tensor boxes = floats({1, 6, 4}, {0.64, 0.27, 0.04, 0.02, 0.81, 0.91, 0.61, 0.73, 0.54, 0.94, 0.82, 0,
                                          0.86, 0.03, 0.73, 0.18, 0.86, 0.54, 0.3,  0.42, 0.03, 0.12, 0.67, 0.65});
  const Tensor scores = floats({1, 2, 6}, {0.6, 0.4, 1, 1, 0.7, 0.7, 0.7, 0.4, 0.1, 0.7, 0.5, 0.3});
  const auto select = [&](std::int64_t most, float iou, float least, bool center) {
    return doubles(run_as(DType::f32, "NonMaxSuppression",
                          {boxes, scores, Tensor::scalar(most), Tensor::scalar(iou), Tensor::scalar(least)},
                          {{"center_point_box", center}}));
  };
  const Values expected{0, 0, 2, 0, 0, 3, 0, 0, 4, 0, 0, 5, 0, 1, 0, 0, 1, 3, 0, 1, 4, 0, 1, 1};
  EXPECT_EQ(select(4, 0.2f, 0.2f, false), expected);
  EXPECT_EQ(select(4, 0.2f, 0.2f, true), expected);
  EXPECT_EQ(select(0, 0.2f, 0.2f, false), Values{});
  EXPECT_EQ(select(1, 0.2f, 0.65f, false), (Values{0, 0, 2, 0, 1, 0}));
  EXPECT_EQ(select(9, 1.0f, -std::numeric_limits<float>::infinity(), false).size(), 36u);
}

}  // namespace
}  // namespace troupe::testing
