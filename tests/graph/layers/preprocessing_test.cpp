// Preprocessing layers beside Keras 3 (TensorFlow 2.21): the numbers are what its layers give.
#include <gtest/gtest.h>

#include <random>

#include "tests/graph/layers/layer_values.hpp"
#include "tests/graph/messages.hpp"
#include <troupe/graph/data/texts.hpp>
#include <troupe/graph/layers/network_format.hpp>

namespace troupe {
namespace {

using testing::apply_layer;
using testing::expect_near;
using testing::message_of;
using Words = std::vector<std::string>;

Tensor strings(const Words& values) {
  Tensor t(DType::string, Shape{static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), t.mutable_data<std::string>());
  return t;
}

std::string text_of(const LayerPtr& layer, const Tensor& x) {
  return apply_layer(layer, {x}).outputs[0].to_string(100);
}

TEST(Preprocessing, NormalizationTakesTheStatisticsOfAllBatches) {
  FeatureStatistics statistics;
  statistics.update(Tensor::of<float>(Shape{2, 2}, {1, 10, 2, 20}));
  statistics.update(Tensor::of<float>(Shape{1, 2}, {4, 60}));
  expect_near(statistics.mean(), Shape{2}, {2.3333333, 30});
  expect_near(statistics.variance(), Shape{2}, {1.5555557, 466.66666});
  expect_near(apply_layer(layers::normalization(statistics.mean(), statistics.variance()),
                          {Tensor::of<float>(Shape{3, 2}, {1, 10, 2, 20, 4, 60})})
                  .outputs[0],
              Shape{3, 2}, {-1.0690448, -0.9258201, -0.26726115, -0.46291006, 1.3363062, 1.3887302});
  expect_near(apply_layer(layers::normalization(Tensor::of<float>(Shape{1}, {2}), Tensor::of<float>(Shape{1}, {4})),
                          {Tensor::of<std::uint8_t>(Shape{1, 2}, {1, 6})})
                  .outputs[0],
              Shape{1, 2}, {-0.5, 2});
  EXPECT_EQ(message_of([&] {
              statistics.update(Tensor::of<float>(Shape{1, 1}, {4}));
            }),
            "statistics: a batch has 1 features, but those before had 2");
  EXPECT_EQ(message_of([] { FeatureStatistics().mean(); }), "statistics: there is no data; call update() first");
}

TEST(Preprocessing, CategoriesAndBoundaries) {
  const Tensor rows = Tensor::of<std::int32_t>(Shape{2, 3}, {0, 2, 2, 1, 1, 3});
  expect_near(apply_layer(layers::category_encoding(4), {rows}).outputs[0], Shape{2, 4}, {1, 0, 1, 0, 0, 1, 0, 1});
  expect_near(apply_layer(layers::category_encoding(4, layers::Encoding::count), {rows}).outputs[0], Shape{2, 4},
              {1, 0, 2, 0, 0, 2, 0, 1});
  expect_near(
      apply_layer(layers::category_encoding(4, layers::Encoding::one_hot), {Tensor::of<std::uint8_t>(Shape{2}, {2, 0})})
          .outputs[0],
      Shape{2, 4}, {0, 0, 1, 0, 1, 0, 0, 0});
  EXPECT_EQ(text_of(layers::discretization({-1, 0, 2.5}), Tensor::of<float>(Shape{2, 3}, {-2, -1, -0.5, 0, 2.5, 9})),
            "i64[2,3] = 0 1 1 2 3 3");
  EXPECT_EQ(message_of([] {
              layers::discretization({1, 1});
            }),
            "discretization: boundaries must ascend, but 1 follows 1");
  EXPECT_EQ(layers::quantiles(Tensor::of<std::int32_t>(Shape{8}, {5, 1, 2, 8, 3, 7, 4, 6}), 4),
            (std::vector<double>{3, 5, 7}));
  EXPECT_EQ(layers::quantiles(Tensor::of<float>(Shape{4}, {1, 1, 1, 2}), 4), (std::vector<double>{1, 2}));
}

TEST(Preprocessing, LookupsNumberAVocabulary) {
  EXPECT_EQ(text_of(layers::string_lookup({"a", "b"}), strings({"b", "z", "a"})), "i64[3] = 2 0 1");
  const layers::LookupOptions masks{.masks = true};
  EXPECT_EQ(text_of(layers::string_lookup({"a", "b"}, masks), strings({"b", "z", "a", ""})), "i64[4] = 3 1 2 0");
  EXPECT_EQ(text_of(layers::string_of_lookup({"a", "b"}, masks), Tensor::of<std::int32_t>(Shape{4}, {3, 1, 2, 0})),
            "string[4] = b [UNK] a ");
  EXPECT_EQ(text_of(layers::integer_lookup({10, 20, 30}), Tensor::of<std::int64_t>(Shape{3}, {20, 5, 30})),
            "i64[3] = 2 0 3");
  EXPECT_EQ(text_of(layers::integer_lookup({10, 20, 30}, {.out_of_vocabulary = 3}),
                    Tensor::of<std::int32_t>(Shape{4}, {20, 5, 30, 7})),
            "i64[4] = 4 2 5 1");
  EXPECT_EQ(text_of(layers::string_lookup({"a"}, {.out_of_vocabulary = 0}), strings({"a", "z"})), "i64[2] = 0 -1");
  const Tensor hashed =
      apply_layer(layers::string_lookup({"a"}, {.out_of_vocabulary = 4}), {strings({"a", "z"})}).outputs[0];
  EXPECT_EQ(hashed.values<std::int64_t>()[0], 4);
  EXPECT_LT(hashed.values<std::int64_t>()[1], 4);
  EXPECT_EQ(message_of([] {
              layers::string_lookup({"a", "a"});
            }),
            "string_lookup: the vocabulary has 2 words, but only 1 distinct ones");
  EXPECT_EQ(message_of([] { layers::integer_lookup({}); }), "integer_lookup: the vocabulary is empty");
}

TEST(Preprocessing, HashesAreThoseOfTheText) {
  const Tensor words = apply_layer(layers::hashing(1000, 5), {strings({"12", "-3"})}).outputs[0];
  const Tensor integers =
      apply_layer(layers::hashing(1000, 5), {Tensor::of<std::int32_t>(Shape{2}, {12, -3})}).outputs[0];
  EXPECT_TRUE(bitwise_equal(words, integers));
}

TEST(Preprocessing, TextsBecomeIdsOrCounts) {
  const Tensor texts = strings({"The cat, the DOG!", "a bird's  cat", "", "mouse"});
  const Words vocabulary = {"the", "cat", "a", "dog"};
  EXPECT_EQ(text_of(layers::text_vectorization(vocabulary), texts), "i64[4,4] = 2 3 2 5 4 1 3 0 0 0 0 0 1 0 0 0");
  EXPECT_EQ(text_of(layers::text_vectorization(vocabulary, {.length = 2}), texts), "i64[4,2] = 2 3 4 1 0 0 1 0");
  EXPECT_EQ(text_of(layers::text_vectorization(vocabulary, {.output = layers::TextOutput::multi_hot}), texts),
            "f32[4,5] = 0 1 1 0 1 1 0 1 1 0 0 0 0 0 0 1 0 0 0 0");
  EXPECT_EQ(text_of(layers::text_vectorization(vocabulary, {.output = layers::TextOutput::count}),
                    texts.reshaped(Shape{4, 1})),
            "f32[4,5] = 0 2 1 0 1 1 0 1 1 0 0 0 0 0 0 1 0 0 0 0");
  EXPECT_EQ(text_of(layers::text_vectorization({"the", "cat", "a", "dog", "cat the"}, {.ngrams = 2}), texts),
            "i64[4,7] = 2 3 2 5 1 6 1 4 1 3 1 1 0 0 0 0 0 0 0 0 0 1 0 0 0 0 0 0");
  EXPECT_EQ(text_of(layers::text_vectorization(
                        {"A", "b"}, {.length = 3, .lower = false, .strip_punctuation = false, .separator = "|"}),
                    strings({"b|A|a"})),
            "i64[1,3] = 3 2 1");
}

// Of random bytes, among them white space, punctuation and bytes above 127.
TEST(Preprocessing, PipelinesMakeOfTextsWhatTheLayerMakes) {
  std::mt19937 random(3);
  Words texts;
  for (int i = 0; i < 50; ++i) {
    std::string text;
    for (unsigned n = random() % 80; n > 0; --n)
      text += random() % 3 == 0 ? static_cast<char>(random()) : "Ab c"[n % 4];
    texts.push_back(text);
  }
  const Words vocabulary = {"a", "b", "c", "ab", "ca", "b c", "a b c"};
  for (const std::int64_t ngrams : {1, 3})
    for (const bool changed : {false, true})
      for (const auto output : {layers::TextOutput::ids, layers::TextOutput::count, layers::TextOutput::multi_hot}) {
        const std::int64_t length = output == layers::TextOutput::ids ? 40 : 0;
        const auto stage = texts::vectorize(
            "text", vocabulary,
            {.output = output, .length = length, .lower = changed, .strip_punctuation = changed, .ngrams = ngrams});
        const auto prepared = stage.prepare({{"text", DType::string, Shape{}}});
        const Tensor of_layer = apply_layer(layers::text_vectorization(vocabulary, {.output = output,
                                                                                    .length = length,
                                                                                    .lower = changed,
                                                                                    .strip_punctuation = changed,
                                                                                    .ngrams = ngrams}),
                                            {strings(texts)})
                                    .outputs[0];
        for (std::size_t i = 0; i < texts.size(); ++i) {
          const Tensor row = of_layer.rows(static_cast<std::int64_t>(i), static_cast<std::int64_t>(i) + 1);
          const Tensor made = prepared.function({Tensor::scalar(texts[i])}, {})[0];
          EXPECT_TRUE(bitwise_equal(made, row.reshaped(Shape{row.num_elements()})));
        }
      }
}

TEST(Preprocessing, VocabulariesAreInOrderOfFrequency) {
  VocabularyBuilder words;
  words.update(split_words(strings({"B a, c a", " c b!"})));
  words.update(split_words(strings({"d"})));
  EXPECT_EQ(words.strings(), (Words{"c", "b", "a", "d"}));
  EXPECT_EQ(words.strings(2), (Words{"c", "b"}));
  EXPECT_EQ(message_of([&] { words.integers(); }), "vocabulary: the values are strings");
  VocabularyBuilder numbers;
  numbers.update(Tensor::of<std::int32_t>(Shape{4}, {7, 7, 5, 9}));
  EXPECT_EQ(numbers.integers(), (std::vector<std::int64_t>{7, 9, 5}));
}

TEST(Preprocessing, ConstantsAreWrittenWithTheModel) {
  const Symbol text = input("text", Shape{}, DType::string), number = input("number", Shape{2}, DType::f64);
  const Symbol words = layers::text_vectorization({"b", "\xff"}, {.output = layers::TextOutput::count})(text);
  const Symbol scaled =
      layers::normalization(Tensor::of<float>(Shape{2}, {1, 2}), Tensor::of<float>(Shape{2}, {3, 4}))(number);
  const Network network({text, number}, {{"y", layers::concatenate()(words, layers::discretization({0.5})(scaled))}});
  const std::string bytes = serialize(network);
  EXPECT_EQ(serialize(parse_network(bytes)), bytes);
  EXPECT_EQ(serialize(parse_network_text(to_text(network))), bytes);
}

}  // namespace
}  // namespace troupe
