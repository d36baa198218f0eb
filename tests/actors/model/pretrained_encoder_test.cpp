// Folders of encoders. tests/python/sentence_encoder_test.py compares what they compute with NumPy.
#include <gtest/gtest.h>

#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/error_of.hpp"
#include <troupe/actors/model/pretrained_encoder.hpp>

namespace troupe::testing {
namespace {

constexpr std::int64_t kFeatures = 4, kHidden = 6, kPositions = 8;

class PretrainedEncoders : public ::testing::Test {
 protected:
  PretrainedEncoders() {
    const auto add = [&](const std::string& name, const Shape& shape) {
      weights_.emplace(name, Tensor::zeros(DType::f32, shape));
    };
    const auto add_both = [&](const std::string& name, const Shape& shape) {
      add(name + ".weight", shape);
      add(name + ".bias", Shape{shape.dim(0)});
    };
    add("embeddings.word_embeddings.weight", {5, kFeatures});
    add("embeddings.position_embeddings.weight", {kPositions, kFeatures});
    add("embeddings.token_type_embeddings.weight", {2, kFeatures});
    add_both("embeddings.LayerNorm", {kFeatures});
    for (const char* layer : {"encoder.layer.0.", "encoder.layer.1."}) {
      for (const char* part : {"self.query", "self.key", "self.value", "output.dense"})
        add_both(fmt::format("{}attention.{}", layer, part), {kFeatures, kFeatures});
      add_both(fmt::format("{}attention.output.LayerNorm", layer), {kFeatures});
      add_both(fmt::format("{}intermediate.dense", layer), {kHidden, kFeatures});
      add_both(fmt::format("{}output.dense", layer), {kFeatures, kHidden});
      add_both(fmt::format("{}output.LayerNorm", layer), {kFeatures});
    }
    add_both("pooler.dense", {kFeatures, kFeatures});
  }

  PretrainedEncoder read(const std::string& vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n") {
    make_directories(files_, "/e");
    save_values(files_, "/e/model.safetensors", weights_);
    replace_file(files_, "/e/vocab.txt", vocabulary, "test");
    return read_pretrained_encoder(files_, "/e", 2);
  }
  std::string refused() {
    return error_of([&] { read(); }).to_string();
  }

  MemoryFileSystem files_;
  Parameters weights_;
};

TEST_F(PretrainedEncoders, HaveTheShapeOfTheirWeights) {
  const PretrainedEncoder encoder = read();
  EXPECT_EQ(encoder.vocabulary.size(), 5u);
  EXPECT_EQ(encoder.options.layers, 2);
  EXPECT_EQ(encoder.options.hidden, kHidden);
  EXPECT_EQ(encoder.options.positions, kPositions);
  const Parameters values = load_values(files_, encoder.file, encoder.values);
  EXPECT_EQ(values.size(), 5 + 2 * 16u);
  EXPECT_EQ(values.at("layer1/feed_forward_in/kernel").shape(), Shape({kFeatures, kHidden}));
  EXPECT_EQ(values.at("words/table").shape(), Shape({5, kFeatures}));
}

TEST_F(PretrainedEncoders, AreTheVariablesOfTheNetwork) {
  const PretrainedEncoder encoder = read();
  const Symbols inputs{input("ids", Shape{kUnknown}, DType::i64), input("types", Shape{kUnknown}, DType::i64),
                       input("mask", Shape{kUnknown}, DType::boolean)};
  const Network network(inputs, {{"embedding", sentence_encoder(inputs, encoder.options)}});
  Graph graph;
  VariablePool variables;
  LayerContext context{.graph = graph, .variables = variables};
  Outputs xs;
  for (const Symbol& symbol : inputs)
    xs.push_back(placeholder(graph, symbol.source()->input.dtype, Shape{kUnknown, kUnknown}));
  network.apply(context, xs);
  Parameters values = load_values(files_, encoder.file, encoder.values);
  for (const VariableRef& variable : variables.trainable()) {
    ASSERT_TRUE(values.contains(variable.name)) << variable.name;
    EXPECT_EQ(values.at(variable.name).shape(), variable.shape) << variable.name;
    values.erase(variable.name);
  }
  EXPECT_TRUE(values.empty()) << values.begin()->first;
}

TEST_F(PretrainedEncoders, NameWeightsThatAreMissingOrOfAnotherShape) {
  weights_.erase("encoder.layer.1.attention.self.key.bias");
  EXPECT_EQ(refused(),
            "not_found: '/e/model.safetensors' has no weight 'encoder.layer.1.attention.self.key.bias', which an "
            "encoder of sentences needs");
  weights_["encoder.layer.1.attention.self.key.bias"] = Tensor::zeros(DType::f32, Shape{7});
  EXPECT_EQ(refused(),
            "invalid_argument: '/e/model.safetensors': 'encoder.layer.1.attention.self.key.bias' is F32[7], but f32[4] "
            "is expected");
  weights_["encoder.layer.1.attention.self.key.bias"] = Tensor::zeros(DType::f16, Shape{kFeatures});
  EXPECT_EQ(refused(),
            "invalid_argument: '/e/model.safetensors': 'encoder.layer.1.attention.self.key.bias' is F16[4], but f32[4] "
            "is expected");
}

TEST_F(PretrainedEncoders, FitTheirVocabularyAndHeads) {
  EXPECT_EQ(error_of([&] { read("[PAD]\na\n"); }).to_string(),
            "invalid_argument: '/e/vocab.txt' has 2 pieces, but 'embeddings.word_embeddings.weight' of "
            "'/e/model.safetensors' has 5 rows");
  read();
  EXPECT_EQ(error_of([&] { read_pretrained_encoder(files_, "/e", 3); }).to_string(),
            "invalid_argument: '/e/model.safetensors' has 4 features, which cannot be cut into 3 heads");
  weights_ = {{"encoder.layer.x.a", Tensor::scalar<float>(1)},
              {"embeddings.word_embeddings.weight", Tensor::zeros(DType::f32, {5, 4})},
              {"embeddings.position_embeddings.weight", Tensor::zeros(DType::f32, {5, 4})},
              {"embeddings.token_type_embeddings.weight", Tensor::zeros(DType::f32, {5, 4})}};
  EXPECT_EQ(refused(), "invalid_argument: '/e/model.safetensors': 'encoder.layer.x.a' is of no layer from 0 to 999");
}

}  // namespace
}  // namespace troupe::testing
