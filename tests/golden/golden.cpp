#include "tests/golden/golden.hpp"

#include <filesystem>

#include "tests/actors/checkpoint/example.hpp"
#include <troupe/actors/model/model.hpp>
#include <troupe/actors/model/values.hpp>
#include <troupe/actors/session/saver.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/formats/onnx/onnx.hpp>
#include <troupe/graph/layers/layers.hpp>
#include <troupe/kernels/readers/record_formats.hpp>
#include <troupe/kernels/readers/record_index.hpp>
#include <troupe/kernels/readers/tfrecord.hpp>

namespace troupe::golden {
namespace {

Tensor counted(const Shape& shape, float first, float step) {
  Tensor out(DType::f32, shape);
  for (float& x : out.mutable_values<float>()) first = (x = first) + step;
  return out;
}

void write_records(FileSystem& files, const std::string& path) {
  replace_file(
      files, path,
      [](WritableFile& file) {
        TfRecordWriter writer(file);
        for (const char* record : kRecords) writer.append(record);
        writer.finish();
      },
      "golden");
  write_index(files, path, tfrecord_format(), build_index(files, path, tfrecord_format()));
}

// Trained for an epoch, so that it has slots and a position.
void write_trained(const std::string& directory) {
  Model model({layers::dense(4, Activation::tanh), layers::batch_norm(), layers::dense(2)}, Shape{3});
  model.compile({.optimizer = optimizers::Adam{.learning_rate = 0.01}, .loss = Loss::mean_squared_error});
  const auto data = training_data();
  model.fit(TensorDataset({{"x", data.at("x")}, {"targets", data.at("targets")}}), {.epochs = 1, .batch = 8});
  model.save(directory);
}

void write_session(const std::string& directory) {
  Graph graph;
  const VariableRef w = variable(graph, {.name = "w", .initial_value = constant(graph, counted({2, 3}, 1, 0.5f))});
  const VariableRef n =
      variable(graph, {.name = "n", .initial_value = constant(graph, Tensor::scalar<std::int64_t>(7))});
  const Output initialize = initializer(graph);
  Session session(graph);
  session.run_targets({initialize});
  Saver(session, graph, {.directory = directory}).save(12);
}

}  // namespace

SavedModel layers_model() {
  const Symbol word = input("word", Shape{}, DType::string), age = input("age", Shape{2});
  const Symbol risk = layers::dense(1)(layers::dense(2, Activation::relu)(age));
  SavedModel out;
  out.network = Network({word, age}, {{"risk", risk}, {"code", layers::string_lookup({"one", "two"})(word)}});
  out.values = {{"dense/kernel", Tensor::of<float>({2, 2}, {3, -1, 4, -1})},
                {"dense/bias", Tensor::vector<float>({1, 0})},
                {"dense_1/kernel", Tensor::of<float>({2, 1}, {2, 100})},
                {"dense_1/bias", Tensor::vector<float>({0.5f})}};
  return out;
}

SavedModel graph_model() {
  SavedModel out;
  out.graph = std::make_shared<Graph>();
  Graph& graph = *out.graph;
  const Output x = placeholder(graph, DType::f32, {kUnknown, 2}, "x");
  const VariableRef w = variable(graph, {.name = "w", .shape = Shape{2, 16}});
  matmul(x, w.read(), {.name = "y"}) * 2.0;
  out.signatures["predict"] = {.inputs = {{"examples", {"x", DType::f32, Shape{kUnknown, 2}, "kg, m"}}},
                               .outputs = {{"scores", {"y", DType::f32, Shape{kUnknown, 16}}}},
                               .description = "A product."};
  out.values = {{"w", counted({2, 16}, -1, 0.25f)}};
  out.compiled = {{"optimizer", to_string(optimizers::Adam{.learning_rate = 0.25})}};
  out.assets = {{"words.txt", "one\ntwo\n"}};
  out.metadata = {{"author", "é"}};
  return out;
}

SavedModel text_model() {
  SavedModel out;
  out.graph = std::make_shared<Graph>();
  VariablePool pool;
  LayerContext context{.graph = *out.graph, .variables = pool};
  const Output text = placeholder(*out.graph, DType::string, {kUnknown}, "text");
  const Output counts = Sequential({layers::text_vectorization({"good", "bad"}, {.output = layers::TextOutput::count}),
                                    layers::dense(2, Activation::none, {.use_bias = false})})
                            .apply(context, text);
  const Output label = Sequential({layers::string_of_lookup({"down", "up"}, {.out_of_vocabulary = 0})})
                           .apply(context, arg_max(counts, 1));
  out.signatures["classify"] = {.inputs = {{"text", {"text", DType::string, Shape{kUnknown}}}},
                                .outputs = {{"label", {label.name(), DType::string, Shape{kUnknown}}}}};
  out.values = {{"dense/kernel", Tensor::of<float>({3, 2}, {0, 0, -1, 1, 2, -2})}};
  return out;
}

std::map<std::string, Tensor> training_data() {
  return {{"x", counted({16, 3}, -1, 0.0625f)}, {"targets", counted({16, 2}, 1, -0.03125f)}};
}

Parameters values_of_all_types() {
  return {{"f32", counted({3}, 0.5f, 1)},
          {"f64", Tensor::vector<double>({1e-300, -2})},
          {"f16", Tensor::vector<Half>({Half(1.5f)})},
          {"i8", Tensor::vector<std::int8_t>({-128, 127})},
          {"u8", Tensor::vector<std::uint8_t>({255})},
          {"i16", Tensor::vector<std::int16_t>({-300})},
          {"u16", Tensor::vector<std::uint16_t>({60000})},
          {"i32", Tensor::of<std::int32_t>({1, 2}, {-1, 1 << 30})},
          {"i64", Tensor::scalar<std::int64_t>(-7)},
          {"bool", Tensor::vector<bool>({true, false})}};
}

void write_all(const std::string& directory) {
  FileSystem& files = posix_file_system();
  files.make_directory(directory);
  const auto at = [&](const char* name) { return join_path(directory, name); };
  save_model(files, at("layers"), layers_model());
  save_model(files, at("graph"), graph_model());
  save_model(files, at("text"), text_model());
  write_trained(at("trained"));
  testing::Example(3).save(files, at("job"), {7, 0xabc}, 2);
  write_session(at("session"));
  write_records(files, at("records.tfrecord"));
  const SavedModel linear = graph_model();
  export_onnx(at("linear.onnx"), *linear.graph,
              {.inputs = {{"examples", linear.graph->output("x")}},
               .outputs = {{"scores", linear.graph->output("y")}},
               .variables = linear.values});
  save_values(files, at("values.safetensors"), values_of_all_types());
  save_values(files, at("values.npz"), values_of_all_types());
}

}  // namespace troupe::golden
