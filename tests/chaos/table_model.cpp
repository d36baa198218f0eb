#include "tests/chaos/table_model.hpp"

#include <random>

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/softmax.hpp>

namespace troupe::chaos {
namespace {

constexpr std::int64_t kWords = 50'000, kUnits = 32, kCountUnits = 16, kWordsOfExample = 8;

}  // namespace

Program table_model() {
  return [](ProgramContext& c) -> ProgramOutputs {
    const VariableRef words =
        c.variable("words/table", {.shape = Shape{kWords, kUnits}, .on_demand = true}, initializers::random_uniform());
    const VariableRef seen =
        c.variable("seen/table", {.shape = Shape{kCountedRows, kCountUnits}}, initializers::zeros());
    const VariableRef out = c.variable("out/w", {.shape = Shape{kUnits, kTags}}, initializers::glorot_uniform());
    const Output logits = matmul(mean(gather(words.read(), c["words"]), {1}), out.read());
    const Output wrong = mean(sigmoid_cross_entropy(logits, c["tags"]));
    const Output counted = sum(gather(seen.read(), c["number"]));
    return {.objectives = {{.loss = wrong - counted, .optimizer = optimizers::SGD{.learning_rate = 1.0}}}};
  };
}

TensorDataset tagged_examples(std::int64_t examples) {
  std::mt19937 random(7);
  Tensor words(DType::i64, Shape{examples, kWordsOfExample}), number(DType::i64, Shape{examples}),
      tags(DType::f32, Shape{examples, kTags});
  for (std::int64_t i = 0; i < examples; ++i) {
    number.mutable_data<std::int64_t>()[i] = i;
    std::int64_t sum = 0;
    for (std::int64_t k = 0; k < kWordsOfExample; ++k) {
      const std::int64_t frequent = static_cast<std::int64_t>(random() % 50);
      const std::int64_t word = random() % 2 == 0 ? frequent : static_cast<std::int64_t>(random() % kWords);
      words.mutable_data<std::int64_t>()[i * kWordsOfExample + k] = word;
      sum += word;
    }
    for (std::int64_t tag = 0; tag < kTags; ++tag)
      tags.mutable_data<float>()[i * kTags + tag] = (sum + tag) % 5 == 0 ? 1.0F : 0.0F;
  }
  return TensorDataset({{"words", words}, {"number", number}, {"tags", tags}});
}

}  // namespace troupe::chaos
