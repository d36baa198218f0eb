// Sequences from a small transformer with random weights: the state of the steps must not change them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/error_of.hpp"
#include <troupe/actors/model/generate.hpp>
#include <troupe/actors/model/model.hpp>
#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using Tokens = std::vector<std::int64_t>;

constexpr std::int64_t kTokens = 5, kCapacity = 24;

enum class Positions { rotary, learnt, waves };

Network transformer(Positions positions) {
  using namespace layers;
  const Symbol ids = input("ids", Shape{kUnknown}, DType::i64);
  Symbol x = embedding(kTokens, 16)(ids);
  if (positions == Positions::learnt) x = position_embedding(kCapacity)(x);
  if (positions == Positions::waves) x = position_encoding()(x);
  const double base = positions == Positions::rotary ? 10000 : 0;
  for (int i = 0; i < 2; ++i)
    x = transformer_encoder(4, 32, {.norm_first = true, .causal = true, .rotary_base = base})(x);
  return Network({ids}, {{"next", dense(kTokens)(layer_norm()(x))}});
}

// The network as a whole: of all steps of a sequence at once.
class Uncached {
 public:
  Uncached(Task& task, const Network& network) : task_(task) {
    tokens_ = placeholder(graph_, DType::i64, Shape{kUnknown, kUnknown});
    VariablePool variables;
    LayerContext context{.graph = graph_, .variables = variables};
    logits_ = network.apply(context, tokens_);
    Session initial(task_, graph_);
    std::vector<Output> values;
    for (const VariableRef& v : variables.all()) {
      reads_.push_back(v.read());
      names_.push_back(v.name);
      values.push_back(v.initial_value);
    }
    values_ = initial.run(values);
    // Embeddings of 0.05 say little: sharper ones make unequal choices.
    for (Tensor& value : values_) {
      value = value.clone();
      for (float& x : value.mutable_values<float>()) x *= 3;
    }
    session_.emplace(task_, graph_);
  }
  Parameters values() const {
    Parameters out;
    for (std::size_t i = 0; i < names_.size(); ++i) out.emplace(names_[i], values_[i]);
    return out;
  }
  // [steps, tokens]
  Tensor logits(const Tokens& tokens) {
    Feeds feeds{{tokens_, Tensor::of<std::int64_t>(Shape{1, std::ssize(tokens)}, tokens)}};
    for (std::size_t i = 0; i < reads_.size(); ++i) feeds.emplace_back(reads_[i], values_[i]);
    const Tensor all = session_->run(feeds, logits_);
    return all.reshaped(Shape{all.shape()[1], all.shape()[2]});
  }
  std::vector<double> last(const Tokens& tokens) {
    const Tensor all = logits(tokens);
    return log_probabilities({all.data<float>() + all.num_elements() - kTokens, kTokens});
  }

 private:
  Task& task_;
  Graph graph_;
  Output tokens_, logits_;
  std::vector<Output> reads_;
  std::vector<std::string> names_;
  std::vector<Tensor> values_;
  std::optional<Session> session_;
};

class Generates : public ::testing::TestWithParam<Positions> {
 protected:
  Task task_{TaskOptions{.threads = 1}};
  Network network_ = transformer(GetParam());
  Uncached whole_{task_, network_};
  Generator generator_{task_, network_, whole_.values(), kCapacity};
};

INSTANTIATE_TEST_SUITE_P(, Generates, ::testing::Values(Positions::rotary, Positions::learnt, Positions::waves));

TEST_P(Generates, CachedLogitsAreThoseOfTheWholeSequence) {
  const Tokens tokens = {1, 4, 2, 2, 0, 3, 1, 1, 4, 0, 2, 3};
  const Tensor expected = whole_.logits(tokens);
  std::int64_t at = 0;
  for (const std::int64_t steps : {5, 1, 1, 3, 2}) {  // pieces of different lengths
    const Tensor piece = generator_.extend(
        Tensor::of<std::int64_t>(Shape{1, steps}, {tokens.data() + at, static_cast<std::size_t>(steps)}));
    ASSERT_EQ(piece.shape(), (Shape{1, steps, kTokens}));
    for (std::int64_t i = 0; i < steps * kTokens; ++i)
      EXPECT_NEAR(piece.data<float>()[i], expected.data<float>()[at * kTokens + i], 1e-5) << at << " " << i;
    at += steps;
  }
}

TEST_P(Generates, TheMostProbableTokens) {
  Tokens expected = {1};
  for (int i = 0; i < 20; ++i) {
    const std::vector<double> logs = whole_.last(expected);
    expected.push_back(std::max_element(logs.begin(), logs.end()) - logs.begin());
  }
  const Tokens found = generator_.generate(Tokens{1}, {.tokens = 20, .sampling = {.temperature = 0}});
  EXPECT_EQ(found, Tokens(expected.begin() + 1, expected.end()));
}

// As many beams as there are sequences of two tokens keep all of them.
TEST_P(Generates, WideBeamsFindTheMostProbableSequence) {
  double best = -1e9;
  Tokens expected;
  for (std::int64_t a = 0; a < kTokens; ++a)
    for (std::int64_t b = 0; b < kTokens; ++b)
      for (std::int64_t c = 0; c < kTokens; ++c) {
        const double sum = whole_.last({2})[a] + whole_.last({2, a})[b] + whole_.last({2, a, b})[c];
        if (sum <= best) continue;
        best = sum;
        expected = {a, b, c};
      }
  EXPECT_EQ(generator_.generate(Tokens{2}, {.tokens = 3, .beams = kTokens * kTokens}), expected);
}

TEST_P(Generates, WhatFollowsFromTheSeedAndEndsAtTheEnd) {
  const GenerateOptions options{.tokens = 20, .sampling = {.temperature = 4}, .seed = 7};
  const Tokens once = generator_.generate(Tokens{1}, options);
  EXPECT_EQ(generator_.generate(Tokens{1}, options), once);
  EXPECT_NE(generator_.generate(Tokens{1}, {.tokens = 20, .sampling = {.temperature = 4}, .seed = 8}), once);
  GenerateOptions ending = options;
  ending.end = once[4];
  const Tokens ended = generator_.generate(Tokens{1}, ending);
  EXPECT_EQ(ended.back(), once[4]);
  EXPECT_LE(ended.size(), 5u);
}

TEST_P(Generates, NotMoreThanItsCapacity) {
  EXPECT_EQ(error_of([&] { generator_.generate(Tokens{1}, {.tokens = kCapacity + 1}); }).code(), Code::out_of_range);
  EXPECT_EQ(generator_.generate(Tokens{1}, {.tokens = kCapacity}).size(), static_cast<std::size_t>(kCapacity));
}

TEST(Generator, RefusesLayersThatSeeOtherSteps) {
  Task task{TaskOptions{.threads = 1}};
  using namespace layers;
  const auto problem = [&](const LayerPtr& layer) {
    const Network network = Sequential({embedding(3, 4), layer, dense(3)});
    return error_of([&] { Generator(task, network, {}, 8); }).message();
  };
  EXPECT_THAT(problem(lstm(4, {.return_sequences = true})), HasSubstr("'lstm' of kind 'lstm' cannot be given"));
  EXPECT_THAT(problem(transformer_encoder(2, 4)), HasSubstr("causal"));
}

const std::vector<float> kLogits = {0, std::log(2.0F), std::log(4.0F), 0};

TEST(Sampling, OptionsCutAndSharpenTheProbabilities) {
  const auto probabilities = [](const SamplingOptions& options) { return sampling_probabilities(kLogits, options); };
  const auto are = [](const std::vector<double>& expected) { return Pointwise(DoubleNear(1e-7), expected); };
  EXPECT_THAT(probabilities({}), are({0.125, 0.25, 0.5, 0.125}));
  EXPECT_THAT(probabilities({.temperature = 0}), are({0, 0, 1, 0}));
  EXPECT_THAT(probabilities({.temperature = 0.5}), are({1 / 22.0, 4 / 22.0, 16 / 22.0, 1 / 22.0}));
  EXPECT_THAT(probabilities({.top_k = 2}), are({0, 1 / 3.0, 2 / 3.0, 0}));
  EXPECT_THAT(probabilities({.top_k = 3}), are({1 / 7.0, 2 / 7.0, 4 / 7.0, 0}));
  EXPECT_THAT(probabilities({.top_p = 0.7}), are({0, 1 / 3.0, 2 / 3.0, 0}));
  EXPECT_THAT(probabilities({.top_p = 0.4}), are({0, 0, 1, 0}));
  EXPECT_THAT(probabilities({.top_p = 0.8}), are({1 / 7.0, 2 / 7.0, 4 / 7.0, 0}));
  for (const SamplingOptions& wrong : {SamplingOptions{.temperature = -1}, SamplingOptions{.top_k = -1},
                                       SamplingOptions{.top_p = 0}, SamplingOptions{.top_p = 1.1}})
    EXPECT_EQ(error_of([&] { sampling_probabilities(kLogits, wrong); }).code(), Code::invalid_argument);
}

TEST(Sampling, TokensTakeTheirPartOfTheRange) {
  const std::vector<double> probabilities = {0.25, 0, 0.5, 0.25};
  EXPECT_EQ(token_at(probabilities, 0), 0);
  EXPECT_EQ(token_at(probabilities, 0.25), 2);
  EXPECT_EQ(token_at(probabilities, 0.74), 2);
  EXPECT_EQ(token_at(probabilities, 0.9999999), 3);
}

}  // namespace
}  // namespace troupe
