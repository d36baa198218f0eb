// Training of models made of layers, compared with TensorFlow, Keras and jax: a step is forward, backward and update.
#include <numeric>
#include <random>

#include "tools/bench/cases.hpp"
#include "tools/bench/compared_training.hpp"
#include <troupe/devices/device.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/layers/attention.hpp>
#include <troupe/graph/layers/losses.hpp>
#include <troupe/graph/layers/norm.hpp>
#include <troupe/graph/layers/recurrent.hpp>
#include <troupe/scheduler/data/tensor_dataset.hpp>

namespace troupe::bench {
namespace {

// Adam as Keras computes it: rows of a table without a gradient move too.
const Optimizer kAdam = optimizers::Adam{.learning_rate = 1e-3, .slot_updates = SlotUpdates::exact};

Tensor random_ids(const Shape& shape, std::int32_t below, std::uint64_t seed) {
  std::mt19937_64 draws(seed);
  Tensor out(DType::i32, shape);
  for (std::int32_t& id : out.mutable_values<std::int32_t>())
    id = static_cast<std::int32_t>(draws() % static_cast<std::uint64_t>(below));
  return out;
}

// The next token at each step: "tokens" and "next", i32 [steps].
Program language_model(Sequential layers) {
  return [layers = std::move(layers)](ProgramContext& c) -> ProgramOutputs {
    LayerContext context = c.layers();
    const Output logits = layers.apply(context, c["tokens"]);
    const Output loss = losses::sparse_softmax_cross_entropy(logits, c["next"]);
    return {.objectives = {{.loss = loss, .optimizer = kAdam}}};
  };
}

struct LanguageSizes {
  std::int64_t batch, steps, width;
  std::int32_t vocabulary;
};

Contest compare_language_models(const LanguageSizes& s, Sequential layers, const std::vector<std::string>& peers,
                                const Settings& settings) {
  const BatchSchema schema{{.name = "tokens", .dtype = DType::i32, .shape = {s.steps}},
                           {.name = "next", .dtype = DType::i32, .shape = {s.steps}}};
  const auto training =
      std::make_shared<ComparedTraining>(language_model(std::move(layers)), schema,
                                         std::vector<Tensor>{random_ids({s.batch, s.steps}, s.vocabulary, 1),
                                                             random_ids({s.batch, s.steps}, s.vocabulary, 2)});
  return compare_with(training, peers, settings, kMilli);
}

Contest transformer_contest(const Settings& settings) {
  const LanguageSizes s = settings.quick ? LanguageSizes{2, 5, 16, 11} : LanguageSizes{16, 128, 128, 128};
  constexpr int kBlocks = 4;
  Sequential model({layers::embedding(s.vocabulary, s.width), layers::position_embedding(s.steps)});
  for (int i = 0; i < kBlocks; ++i)
    model.add(layers::transformer_encoder(4, 4 * s.width, {.norm_first = true, .causal = true}));
  model.add(layers::layer_norm());
  model.add(layers::dense(s.vocabulary));
  return compare_language_models(s, model, {"transformer-tensorflow", "transformer-jax"}, settings);
}

Contest lstm_contest(const Settings& settings) {
  const LanguageSizes s = settings.quick ? LanguageSizes{2, 5, 16, 11} : LanguageSizes{32, 64, 256, 128};
  return compare_language_models(
      s,
      Sequential({layers::embedding(s.vocabulary, s.width), layers::lstm(s.width, {.return_sequences = true}),
                  layers::dense(s.vocabulary)}),
      {"lstm-tensorflow"}, settings);
}

// ---- Multi-label classification of short texts, of the size of Debian's tags

struct TagSizes {
  std::int64_t examples, words, vocabulary, embedding, hidden, labels, batch;
};

// Ids of 5 to `words` words an example, then zeros; 1 to 8 labels.
TensorDataset draw_texts(const TagSizes& s) {
  std::mt19937_64 draws(3);
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(draws() % static_cast<std::uint64_t>(n)); };
  Tensor words = Tensor::zeros(DType::i32, {s.examples, s.words});
  Tensor labels = Tensor::zeros(DType::f32, {s.examples, s.labels});
  for (std::int64_t i = 0; i < s.examples; ++i) {
    const std::int64_t count = std::min<std::int64_t>(s.words, 5 + below(s.words - 4));
    for (std::int64_t k = 0; k < count; ++k)
      words.mutable_data<std::int32_t>()[i * s.words + k] = static_cast<std::int32_t>(1 + below(s.vocabulary - 1));
    for (std::int64_t k = 1 + below(8); k > 0; --k) labels.mutable_data<float>()[i * s.labels + below(s.labels)] = 1;
  }
  return TensorDataset({{"words", words}, {"labels", labels}});
}

Program tagger(const TagSizes& s) {
  const LayerPtr table = layers::embedding(s.vocabulary, s.embedding, {.mask_zero = true});
  const LayerPtr mean_of_words = layers::lambda_of_many([](LayerContext&, const Outputs& in) -> Outputs {
    const Output weights = expand_dims(cast(in[1], DType::f32), {-1});
    const Output total = sum(in[0] * weights, {1});
    const Output count = sum(weights, {1});
    return {total / maximum(count, scalar_like(count, 1))};
  });
  const Symbol words = input("words", Shape{s.words}, DType::i32);
  const Symbol bag = mean_of_words(table.call({words}));
  const Symbol hidden = layers::dense(s.hidden, Activation::relu)(bag);
  const Network network({words}, {{"labels", layers::dense(s.labels)(hidden)}});
  return [network](ProgramContext& c) -> ProgramOutputs {
    LayerContext context = c.layers();
    const Output logits = network.apply(context, Outputs{c["words"]})[0];
    return {.objectives = {{.loss = losses::sigmoid_cross_entropy(logits, c["labels"]), .optimizer = kAdam}}};
  };
}

// Epochs of Keras' fit() beside those of a loop that reads shuffled batches of examples in memory.
Contest tags_contest(const Settings& settings) {
  const TagSizes s = settings.quick ? TagSizes{24, 8, 50, 4, 6, 5, 8} : TagSizes{6400, 64, 20000, 64, 256, 597, 64};
  struct State {
    TensorDataset data;
    std::shared_ptr<ComparedTraining> training;
    std::unique_ptr<BatchReader> reader;
    std::uint32_t epoch = 0;
  };
  TensorDataset data = draw_texts(s);
  const auto first = data.open({.batch = s.batch, .shuffle = false})->read(0, 0, 0);
  auto training = std::make_shared<ComparedTraining>(tagger(s), data.schema(), first->components);
  for (std::size_t i = 0; i < data.tensors().size(); ++i)
    training->write("all_" + data.schema()[i].name, data.tensors()[i]);
  auto state = std::make_shared<State>(State{std::move(data), training, nullptr, 0});
  state->reader = state->data.open({.batch = s.batch, .in_use = 2, .memory = &training->task().device().allocator()});
  const auto epoch = [state] {
    int steps = 0;
    while (const auto batch = state->reader->read(state->epoch, static_cast<std::uint64_t>(steps), 0)) {
      state->training->step(batch->components);
      ++steps;
    }
    ++state->epoch;
    return steps;
  };
  Contest contest = compare_with(training, {"tags-keras"}, settings, kMilli, epoch);
  contest.rounds = 1;
  return contest;
}

}  // namespace

void add_training_cases(std::vector<Case>& cases) {
  cases.push_back({.bench = "train",
                   .name = "transformer",
                   .unit = "ms",
                   .measures = "a training step of a causal transformer: 4 blocks of 4 heads, width 128, 128 tokens of "
                               "128 kinds, batch 16, Adam; 1 thread",
                   .peer = "the better of Keras' layers in a tf.function and jax, jitted, 1 thread",
                   .ratio_target = 1.2,
                   .prepare = transformer_contest});
  cases.push_back({.bench = "train",
                   .name = "lstm",
                   .unit = "ms",
                   .measures = "a training step of a language model: an LSTM of 256 units, 64 steps of 128 kinds, "
                               "batch 32, Adam; 1 thread",
                   .peer = "Keras' layers in a tf.function, 1 thread",
                   .ratio_target = 1.3,
                   .prepare = lstm_contest});
  cases.push_back({.bench = "train",
                   .name = "tags",
                   .unit = "ms",
                   .measures =
                       "a step of epochs over 6,400 texts in memory: a bag of embeddings (20,000 x 64) of up to "
                       "64 words, 256 relu, 597 labels, batch 64, Adam as in Keras; 1 thread",
                   .peer = "Keras' fit() of the same model, 1 thread",
                   .ratio_target = 4,
                   .prepare = tags_contest});
}

}  // namespace troupe::bench
