// Functions on images as stages of pipelines: what they make, their schemas, and their random numbers.
#include "troupe/kernels/images/transformations.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <thread>

#include "tests/error_of.hpp"
#include "tests/kernels/images/example_images.hpp"
#include <troupe/graph/data/texts.hpp>
#include <troupe/scheduler/data/element_stream.hpp>
#include <troupe/scheduler/data/element_table.hpp>
#include <troupe/scheduler/data/pipeline_source.hpp>

namespace troupe::testing {
namespace {

using data::Element;
using data::ElementContext;
using data::Pipeline;
using images::Box;
using images::Size;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// `count` images u8 [8, 10, 3] and numbers.
Pipeline noise(std::int64_t count) {
  const Tensor pixels = random_bytes(count, 8 * 10 * 3, 1);
  Tensor numbers(DType::i64, Shape{count});
  for (std::int64_t i = 0; i < count; ++i) numbers.mutable_data<std::int64_t>()[i] = i;
  return data::tensors({{"image", pixels.reshaped(Shape{count, 8, 10, 3})}, {"number", numbers}});
}

// f32 images [1, n, 1] that say where their pixels came from.
Pipeline rulers(std::int64_t count, std::int64_t n) {
  Tensor x(DType::f32, Shape{count, 1, n, 1});
  for (std::int64_t i = 0; i < count * n; ++i) x.mutable_data<float>()[i] = static_cast<float>(i % n);
  return data::tensors({{"image", x}});
}

std::vector<Element> elements_of(const Pipeline& pipeline, std::uint64_t epoch = 0) {
  const auto stream = open_stream(pipeline.stage());
  stream->start(epoch);
  std::vector<Element> out;
  while (auto element = stream->next()) out.push_back(std::move(*element));
  return out;
}

bool same(const std::vector<Element>& a, const std::vector<Element>& b) {
  return std::ranges::equal(a, b,
                            [](const Element& x, const Element& y) { return std::ranges::equal(x, y, bitwise_equal); });
}

Pipeline augmented(const Pipeline& pipeline) {
  return pipeline.map(images::random_resized_crop("image", {6, 6}, 1))
      .map(images::random_flip_left_right("image", 1))
      .map(images::random_flip_up_down("image", 1))
      .map(images::random_rotation("image", 20, 1))
      .map(images::random_brightness("image", 0.1, 1))
      .map(images::random_contrast("image", 0.8, 1.2, 1))
      .map(images::random_saturation("image", 0.8, 1.2, 1))
      .map(images::random_hue("image", 0.1, 1))
      .map(images::random_crop("image", {4, 5}, 1))
      .map(images::normalize("image", {0.5f}, {0.25f}));
}

TEST(ImageTransformations, SchemasFollowFromTheElements) {
  const Pipeline files =
      data::tensors({{"image", Tensor(DType::string, Shape{2})}, {"label", Tensor(DType::i64, Shape{2})}});
  const auto schema = [](const Pipeline& pipeline) { return to_string(pipeline.schema()); };
  const Pipeline decoded = files.map(images::decode("image"));
  EXPECT_EQ(schema(decoded), "image u8[?,?,3], label i64[]");
  EXPECT_EQ(schema(files.map(images::decode("image", {.channels = 0}))), "image u8[?,?,?], label i64[]");
  EXPECT_EQ(schema(files.map(images::decode_and_resize("image", {5, 6}))), "image u8[5,6,3], label i64[]");
  EXPECT_EQ(schema(decoded.map(images::pad("image", {.top = 1}))), "image u8[?,?,3], label i64[]");
  EXPECT_EQ(schema(decoded.map(images::rgb_to_grayscale("image"))), "image u8[?,?,1], label i64[]");
  EXPECT_EQ(schema(decoded.map(images::normalize("image", {0}, {1}))), "image f32[?,?,3], label i64[]");
  const Pipeline sized = decoded.map(images::resize("image", {8, 9}));
  EXPECT_EQ(schema(sized), "image u8[8,9,3], label i64[]");
  EXPECT_EQ(schema(sized.map(images::pad("image", {.top = 1, .bottom = 2, .left = 3, .right = 4}))),
            "image u8[11,16,3], label i64[]");
  EXPECT_EQ(schema(sized.map(images::center_crop("image", {3, 2}))), "image u8[3,2,3], label i64[]");
  EXPECT_EQ(schema(augmented(sized)), "image f32[4,5,3], label i64[]");
  EXPECT_TRUE(augmented(sized).addressable());
  EXPECT_THAT(augmented(sized).describe(), HasSubstr("map random_flip_left_right image: "));
}

TEST(ImageTransformations, StagesDoWhatTheFunctionsDo) {
  const Tensor image = random_bytes(8, 10, 3);
  const auto result = [&](const images::Transformation& t) {
    const Pipeline one =
        data::tensors({{"number", Tensor::zeros(DType::i32, Shape{1})}, {"image", image.reshaped(Shape{1, 8, 10, 3})}});
    return elements_of(one.map(t)).at(0).at(1);
  };
  EXPECT_TRUE(bitwise_equal(result(images::resize("image", {3, 4}, {.antialias = true})),
                            images::resize(image, {3, 4}, {.antialias = true})));
  EXPECT_TRUE(bitwise_equal(result(images::center_crop("image", {3, 4})), images::center_crop(image, {3, 4})));
  EXPECT_TRUE(bitwise_equal(result(images::pad("image", {.left = 2}, 9)), images::pad(image, {.left = 2}, 9)));
  EXPECT_TRUE(bitwise_equal(result(images::rgb_to_grayscale("image")), images::rgb_to_grayscale(image)));
  EXPECT_TRUE(
      bitwise_equal(result(images::normalize("image", {0.5f}, {0.2f})), images::normalize(image, {0.5f}, {0.2f})));
  EXPECT_TRUE(bitwise_equal(result(images::random_flip_left_right("image", 1, 1)), images::flip_left_right(image)));
  EXPECT_TRUE(bitwise_equal(result(images::random_flip_up_down("image", 1, 0)), image));
  EXPECT_TRUE(bitwise_equal(result(images::random_flip_up_down("image", 1, 1)), images::flip_up_down(image)));
  EXPECT_TRUE(
      bitwise_equal(result(images::random_contrast("image", 1.5, 1.5, 1)), images::adjust_contrast(image, 1.5)));
  EXPECT_TRUE(bitwise_equal(result(images::random_saturation("image", 2, 2, 1)), images::adjust_saturation(image, 2)));
  const Pipeline files = data::tensors({{"image", Tensor::of<std::string>(Shape{1}, {jpeg_of(image)})}});
  const Tensor decoded = decode_image(jpeg_of(image), "f");
  EXPECT_TRUE(bitwise_equal(elements_of(files.map(images::decode("image"))).at(0).at(0), decoded));
  EXPECT_TRUE(bitwise_equal(elements_of(files.map(images::decode_and_resize("image", {3, 4}))).at(0).at(0),
                            images::resize(decoded, {3, 4})));
}

TEST(ImageTransformations, ElementsAreTheSameWhereverTheyAreMade) {
  const Pipeline pipeline = augmented(noise(40));
  const std::vector<Element> expected = elements_of(pipeline, 3);
  EXPECT_FALSE(same(expected, elements_of(pipeline, 4)));
  const auto table = open_table(pipeline.stage());
  std::vector<Element> made(expected.size());
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::size_t i = made.size(); i-- > 0;)
        if (i % 4 == t) made[i] = table->read(3, i);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(same(made, expected));
}

// In order (a filter before them), by number, and in rows of batches.
TEST(ImageTransformations, BatchesHaveTheBitsOfElements) {
  const Pipeline table = augmented(noise(10));
  const Pipeline stream = augmented(noise(10).filter("all", [](const Element&) { return true; }));
  ASSERT_FALSE(stream.addressable());
  const std::vector<Element> expected = elements_of(table);
  EXPECT_TRUE(same(elements_of(stream), expected));
  for (const Pipeline& pipeline : {table, stream}) {
    const PipelineSource source(pipeline);
    const auto reader = source.open({.batch = 4, .last = LastStep::keep});
    for (std::uint64_t step = 0; step < 3; ++step) {
      const auto batch = reader->read(0, step, 0);
      ASSERT_TRUE(batch);
      for (std::int64_t i = 0; i < batch->examples; ++i)
        for (std::size_t c = 0; c < 2; ++c) {
          const Tensor& whole = batch->components[c];
          const Tensor row = whole.rows(i, i + 1).reshaped(whole.shape().sub(1, whole.shape().rank()));
          EXPECT_TRUE(bitwise_equal(row, expected[step * 4 + static_cast<std::uint64_t>(i)][c]));
        }
    }
  }
}

TEST(ImageTransformations, ImagesAndTheirCaptionsGoTogether) {
  const Tensor captions = Tensor::of<std::string>(Shape{6}, {"A dog", "a cat.", "dogs", "Cat, cat", "", "the dog"});
  const Pipeline ready = data::zip({noise(6), data::tensors({{"caption", captions}})})
                             .shuffle(3)
                             .map(images::random_crop("image", {4, 4}, 1))
                             .map(texts::vectorize("caption", {"cat", "dog"}, {.length = 2}))
                             .map(images::normalize("image", {0.5f}, {0.5f}));
  EXPECT_EQ(to_string(ready.schema()), "image f32[4,4,3], number i64[], caption i64[2]");
  const PipelineSource source(ready.batch(6));
  const auto batch = source.open({.batch = 6})->read(0, 0, 0);
  ASSERT_TRUE(batch);
  const std::vector<Element> elements = elements_of(ready);
  const std::vector<std::vector<std::int64_t>> ids = {{1, 3}, {1, 2}, {1, 0}, {2, 2}, {0, 0}, {1, 3}};
  for (std::size_t i = 0; i < 6; ++i) {
    const std::int64_t number = batch->components[1].data<std::int64_t>()[i];
    const std::int64_t* caption = batch->components[2].data<std::int64_t>() + 2 * i;
    EXPECT_EQ(std::vector<std::int64_t>(caption, caption + 2), ids.at(static_cast<std::size_t>(number)));
    EXPECT_EQ(elements[i][1].item<std::int64_t>(), number);
    EXPECT_EQ(elements[i][0].data<float>()[0], batch->components[0].data<float>()[i * 4 * 4 * 3]);
  }
}

TEST(ImageTransformations, FlipsHappenWithTheirProbability) {
  constexpr int kDraws = 20'000;
  const auto flips = [](std::uint64_t seed, double probability) {
    const auto prepared = images::random_flip_left_right("image", seed, probability).prepare(rulers(1, 2).schema());
    const Element ruler = elements_of(rulers(1, 2)).at(0);
    std::vector<bool> out;
    for (std::uint64_t i = 0; i < kDraws; ++i)
      out.push_back(prepared.function(ruler, {.epoch = i / 1000, .number = i % 1000})[0].data<float>()[0] == 1);
    return out;
  };
  for (const double probability : {0.25, 0.5}) {
    const double expected = kDraws * probability, sigma = std::sqrt(expected * (1 - probability));
    EXPECT_NEAR(static_cast<double>(std::ranges::count(flips(5, probability), true)), expected, 4 * sigma);
  }
  // Seeds draw by themselves.
  const std::vector<bool> a = flips(5, 0.5), b = flips(6, 0.5);
  int alike = 0;
  for (std::size_t i = 0; i < a.size(); ++i) alike += a[i] == b[i] ? 1 : 0;
  EXPECT_NEAR(alike, kDraws / 2, 4 * std::sqrt(kDraws / 4));
}

TEST(ImageTransformations, CropsLieAnywhereAndAlikeInOtherComponents) {
  constexpr std::int64_t kDraws = 20'000, kPlaces = 7;
  const Pipeline both =
      data::zip({rulers(1, 10),
                 data::tensors({{"mask", Tensor::of<float>(Shape{1, 1, 10, 1}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9})}})});
  const auto image = images::random_crop("image", {1, 4}, 9).prepare(both.schema());
  const auto mask = images::random_crop("mask", {1, 4}, 9).prepare(both.schema());
  const Element given = elements_of(both).at(0);
  std::array<int, kPlaces> counts{};
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const Tensor cut = image.function(given, {.number = i})[0];
    ++counts.at(static_cast<std::size_t>(cut.data<float>()[0]));
    ASSERT_TRUE(bitwise_equal(cut, mask.function(given, {.number = i})[1]));
  }
  constexpr double kExpected = static_cast<double>(kDraws) / kPlaces;
  double chi_squared = 0;
  for (const int count : counts) chi_squared += (count - kExpected) * (count - kExpected) / kExpected;
  EXPECT_LT(chi_squared, 22.5);  // 6 degrees of freedom: 1 of 1000 is beyond
}

TEST(ImageTransformations, NumbersAreUniform) {
  constexpr std::uint64_t kDraws = 20'000;
  const Pipeline grey = data::tensors({{"image", Tensor::zeros(DType::f32, Shape{1, 1, 1, 1})}});
  const auto prepared = images::random_brightness("image", 0.5, 3).prepare(grey.schema());
  const Element black = elements_of(grey).at(0);
  std::array<int, 10> counts{};
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const float x = prepared.function(black, {.number = i})[0].item<float>();
    ASSERT_LE(std::abs(x), 0.5f);
    ++counts.at(std::min<std::size_t>(9, static_cast<std::size_t>((x + 0.5f) * 10)));
  }
  double chi_squared = 0;
  for (const int count : counts) chi_squared += (count - 2000) * (count - 2000) / 2000.0;
  EXPECT_LT(chi_squared, 27.9);  // 9 degrees of freedom: 1 of 1000 is beyond
}

TEST(ImageTransformations, BoxesHaveTheAreaAndAspectPromised) {
  constexpr int kDraws = 20'000;
  const Size image{1000, 1000};
  const images::RandomCropOptions options{.least_area = 0.1, .most_area = 0.5};
  double areas = 0, aspects = 0, middles = 0;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    data::ElementRandom random(1, {.number = i});
    const Box box = images::random_box(image, options, random);
    const double area = static_cast<double>(box.height * box.width) / 1e6;
    const double aspect = static_cast<double>(box.width) / static_cast<double>(box.height);
    ASSERT_GE(area, 0.099);
    ASSERT_LE(area, 0.501);
    ASSERT_GE(aspect, 0.745);
    ASSERT_LE(aspect, 1.343);
    areas += area;
    aspects += std::log(aspect);
    middles += static_cast<double>(box.top) + static_cast<double>(box.height) / 2;
  }
  EXPECT_NEAR(areas / kDraws, 0.3, 0.004);  // 5 times 0.4 / sqrt(12 * 20,000)
  EXPECT_NEAR(aspects / kDraws, 0, 0.006);
  EXPECT_NEAR(middles / kDraws, 500, 6);
}

TEST(ImageTransformations, WhereNoBoxFitsTheCentreIsTaken) {
  data::ElementRandom random(1, {});
  EXPECT_EQ(images::random_box({10, 1000}, {.least_area = 0.5}, random), (Box{0, 493, 10, 13}));
  EXPECT_EQ(images::random_box({1000, 9}, {.least_area = 0.5}, random), (Box{494, 0, 12, 9}));
}

TEST(ImageTransformations, DifferentFunctionsDrawDifferentNumbers) {
  const Pipeline square = data::tensors({{"image", Tensor::of<float>(Shape{1, 2, 2, 1}, {1, 2, 3, 4})}});
  const auto sideways = images::random_flip_left_right("image", 1).prepare(square.schema());
  const auto upright = images::random_flip_up_down("image", 1).prepare(square.schema());
  const Element given = elements_of(square).at(0);
  int both = 0;
  for (std::uint64_t i = 0; i < 4000; ++i)
    both += sideways.function(given, {.number = i})[0].data<float>()[0] == 2 &&
                    upright.function(given, {.number = i})[0].data<float>()[0] == 3
                ? 1
                : 0;
  EXPECT_NEAR(both, 1000, 4 * std::sqrt(750));
}

TEST(ImageTransformations, ErrorsNameTheStage) {
  const auto message = [](auto&& f) { return error_of(f).to_string(); };
  const Pipeline images = noise(1);
  EXPECT_EQ(message([&] {
              images.map(images::resize("picture", {1, 1}));
            }),
            "invalid_argument: stage 'map resize picture': there is no component 'picture': the elements are image "
            "u8[8,10,3], number i64[]");
  EXPECT_EQ(message([&] {
              images.map(images::resize("number", {1, 1}));
            }),
            "invalid_argument: stage 'map resize number': component 'number' is i64[], but must be an image, u8 or f32 "
            "[height,width,channels]");
  EXPECT_EQ(message([&] { images.map(images::decode("image")); }),
            "invalid_argument: stage 'map decode image': component 'image' is u8[8,10,3], but must be the bytes of a "
            "file, string[]");
  EXPECT_THAT(message([&] { rulers(1, 3).map(images::random_hue("image", 0.1, 1)); }),
              HasSubstr("must have 3 channels, red, green and blue"));
  EXPECT_EQ(
      message([&] {
        elements_of(images.map(images::random_crop("image", {9, 2}, 1)));
      }),
      "invalid_argument: stage 'map random_crop image': random_crop: a box of 9 x 2 pixels at row 0, column 0 does "
      "not lie in an image of 8 x 10");
  const Pipeline files =
      data::tensors({{"image", Tensor::of<std::string>(Shape{2}, {jpeg_of(random_bytes(2, 2, 3)), "no"})}});
  EXPECT_THAT(message([&] { elements_of(files.map(images::decode("image"))); }),
              StartsWith("unimplemented: stage 'map decode image': element 1: begins with bytes"));
}

TEST(ImageTransformations, ArgumentsAreCheckedAtOnce) {
  const Pipeline rgb = noise(1);
  const std::function<void()> calls[] = {
      [] { images::decode("image", {.channels = 2}); },
      [] {
        images::decode_and_resize("image", {0, 1});
      },
      [] {
        images::resize("image", {1, 0});
      },
      [] {
        images::random_crop("image", {-1, 1}, 1);
      },
      [] { images::random_flip_left_right("image", 1, 1.1); },
      [] { images::random_contrast("image", 2, 1, 1); },
      [] { images::random_saturation("image", -1, 1, 1); },
      [] { images::random_brightness("image", std::nan(""), 1); },
      [] {
        images::random_resized_crop("image", {1, 1}, 1, {.least_area = 0});
      },
      [] {
        images::random_resized_crop("image", {1, 1}, 1, {.most_area = 1.1});
      },
      [] {
        images::random_resized_crop("image", {1, 1}, 1, {.least_aspect = 2});
      },
      [&] {
        rgb.map(images::normalize("image", {0, 1}, {1}));
      },
  };
  for (const auto& call : calls) EXPECT_EQ(error_of(call).code(), Code::invalid_argument) << &call - calls;
}

}  // namespace
}  // namespace troupe::testing
