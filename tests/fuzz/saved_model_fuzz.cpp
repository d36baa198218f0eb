#include "tests/fuzz/saved_model_fuzz.hpp"

#include <cstdio>
#include <cstdlib>

#include <troupe/actors/model/saved_model_format.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/formats/text_call.hpp>
#include <troupe/graph/layers/layers.hpp>
#include <troupe/graph/layers/network_format.hpp>
#include <troupe/graph/optimizers/optimizer_options.hpp>

namespace troupe {
namespace {

enum class Input : unsigned char { model, info, network, options };
constexpr unsigned kInputs = 4;

void promise_of_models(bool kept, const char* what, const std::string& why) {
  if (kept) return;
  std::fprintf(stderr, "broken promise of a reader of models: %s: %s\n", what, why.c_str());
  std::abort();
}

// Reads the bytes and writes what was read.
std::string read_and_write(Input kind, std::string_view bytes) {
  switch (kind) {
    case Input::model:
      return encode_model(decode_model(bytes));
    case Input::info:
      return encode_info(decode_info(bytes));
    case Input::network:
      return serialize(parse_network(bytes));
    case Input::options:
      try {
        return to_string(parse_optimizer(bytes));
      } catch (const Error&) {
        return to_string(parse_call(bytes));
      }
  }
  return "";
}

}  // namespace

bool read_model_of_stranger(std::string_view input) {
  if (input.empty()) return false;
  const auto kind = static_cast<Input>(static_cast<unsigned char>(input[0]) % kInputs);
  std::string written;
  try {
    written = read_and_write(kind, input.substr(1));
  } catch (const Error& error) {
    promise_of_models(!error.message().empty(), "errors say what is wrong", "");
    promise_of_models(error.code() != Code::internal, "errors are the input's", error.to_string());
    return false;
  }
  try {
    promise_of_models(read_and_write(kind, written) == written, "what is written is read", "other bytes");
  } catch (const Error& error) {
    promise_of_models(false, "what is written is read", error.to_string());
  }
  return true;
}

std::vector<std::string> saved_model_seeds() {
  SavedModel model;
  const Symbol word = input("word", Shape{kUnknown}, DType::string), age = input("age", Shape{4});
  const Symbol inner = layers::dense(2, Activation::relu)(layers::dropout(0.5)(age));
  model.network = Network({word, age}, {{"risk", inner}, {"code", layers::string_lookup({"one", "two"})(word)}});
  model.graph = std::make_shared<Graph>();
  const Output x = placeholder(*model.graph, DType::f32, {kUnknown, 1}, "x");
  const VariableRef w = variable(*model.graph, {.name = "w", .shape = Shape{1, 2}});
  matmul(x, w.read(), {.name = "y"});
  model.signatures["predict"] = {.inputs = {{"age", {"x", DType::f32, Shape{kUnknown, 1}}}},
                                 .outputs = {{"risk", {"y", DType::f32, Shape{kUnknown, 2}, "unit: 1"}}},
                                 .description = "How it ends."};
  model.compiled = {{"optimizer", "sgd"}};
  model.position = "epoch 3\n";
  const SavedModelInfo info{"0.1.0", "2026-11-25T12:40:30Z", "e3b0", {{"model.pb", {7, "ab"}}, {"assets/x", {1, ""}}}};
  const Optimizer lion = optimizers::Lion{.learning_rate = schedules::Cosine{.rate = 1e-3, .steps = 10},
                                          .weight_decay = {.rate = 0.1, .except = {"*/bias"}},
                                          .average = averages::Exponential{}};
  const auto seed = [](Input kind, const std::string& bytes) {
    return std::string(1, static_cast<char>(kind)) + bytes;
  };
  return {seed(Input::model, encode_model(model)), seed(Input::info, encode_info(info)),
          seed(Input::network, serialize(*model.network)), seed(Input::options, to_string(lion)),
          seed(Input::options, "f(a=[1, -2.5, true, \"x\\n\"], b=g(c=h))")};
}

}  // namespace troupe
