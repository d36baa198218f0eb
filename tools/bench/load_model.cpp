#include "tools/bench/load_model.hpp"

#include <fmt/core.h>

#include <filesystem>
#include <iostream>

#include "tools/bench/cases.hpp"
#include "tools/bench/child.hpp"
#include "tools/bench/children.hpp"
#include "tools/bench/compared_step.hpp"
#include "tools/bench/kernel_step.hpp"
#include "tools/bench/process_memory.hpp"
#include <troupe/actors/model/loaded_model.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/formats/onnx/onnx.hpp>
#include <troupe/graph/layers/layers.hpp>

namespace troupe::bench {
namespace {

constexpr std::int64_t kWords = 30522, kTokens = 128;
constexpr const char* kModel = "/model";

// As a sentence encoder of 22 million parameters, 90 MB.
Sequential sentence_encoder() {
  Sequential out({layers::embedding(kWords, 384)});
  for (int i = 0; i < 6; ++i) out.add(layers::transformer_encoder(12, 1536, {.activation = Activation::gelu}));
  return out;
}

Tensor drawn_tokens(std::int64_t batch) {
  Tensor out(DType::i32, {batch, kTokens});
  std::int32_t word = 7;
  for (std::int32_t& token : out.mutable_values<std::int32_t>()) token = word = (word * 1103 + 12345) % kWords;
  return out;
}

// The encoder as a directory and as ONNX, with an input, in a folder of its own.
class EncoderFiles {
 public:
  explicit EncoderFiles(std::int64_t batch) {
    const Tensor tokens = drawn_tokens(batch);
    Graph graph;
    const Output x = placeholder(graph, DType::i32, tokens.shape(), "x");
    VariablePool pool;
    LayerContext context{.graph = graph, .variables = pool};
    const Output y = identity(sentence_encoder().apply(context, x), "y");
    const Output start = initializer(graph);
    SavedModel model{.graph = graph.clone(),
                     .signatures = {{"serve",
                                     {.inputs = {{"x", {.tensor = "x", .dtype = x.dtype(), .shape = x.shape()}}},
                                      .outputs = {{"y", {.tensor = "y", .dtype = y.dtype(), .shape = y.shape()}}}}}}};
    Session session(graph);
    session.run_targets({start});
    for (const VariableInfo& v : variables(graph))
      model.values[v.name] = session.run(find_variable(graph, v.name).read());
    save_model(posix_file_system(), files_.directory() + kModel, model);
    export_onnx(files_.directory() + "/model.onnx", graph,
                {.inputs = {{"", x, {}}}, .outputs = {{"y", y, {}}}, .variables = model.values});
    files_.write("x", tokens);
    y_ = y.shape();
  }
  const std::string& directory() const { return files_.directory(); }
  // Throws internal unless the peer has written the same results.
  void check(const Tensor& y) const { check_close(y, files_.read("y", y_).data<float>(), 1e-3); }
  std::vector<std::string> peer_command(const Settings& settings, const std::string& name) const {
    return {settings.python, build_directory() + "/include/troupe/tools/bench/peers/graph_peer.py", directory(), name,
            "1"};
  }

 private:
  TensorFiles files_;
  Shape y_;
};

Tensor load_and_run(const std::string& directory, std::int64_t batch) {
  Task task{{.threads = 1, .gpus = {.count = 0}}};
  const LoadedModel model = load_model(directory + kModel, {.task = &task});
  return model.run("serve", {{"x", drawn_tokens(batch)}}).at("y");
}

constexpr const char* kReady = "ready ";

// A peer that says that it is ready; null, with a line on stderr, if it is not there.
std::shared_ptr<Child> start_peer(const std::vector<std::string>& command, std::string& name) {
  try {
    auto child = std::make_shared<Child>(command);
    const std::string answer = child->read_line();
    if (!answer.starts_with(kReady)) fail(Code::unavailable, "{}", answer);
    name = answer.substr(std::string_view(kReady).size());
    return child;
  } catch (const Error& error) {
    fmt::print(stderr, "troupe-bench: peer onnxruntime is not available: {}\n", error.message());
    return nullptr;
  }
}

Contest first_answer(const Settings& settings) {
  const auto files = std::make_shared<EncoderFiles>(1);
  Contest out{.troupe =
                  [files] {
                    const auto begin = std::chrono::steady_clock::now();
                    load_and_run(files->directory(), 1);
                    return kMilli * std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
                  },
              .peers = {}};
  std::string name;
  if (const auto child = start_peer(files->peer_command(settings, "onnx-load"), name)) {
    files->check(load_and_run(files->directory(), 1));
    out.peers.push_back({name, [child] {
                           child->write_line("load");
                           return kMilli * std::stod(child->read_line());
                         }});
  }
  return out;
}

Contest most_memory(const Settings& settings) {
  constexpr std::int64_t kBatch = 8;
  const auto files = std::make_shared<EncoderFiles>(kBatch);
  const auto mib = [](const std::string& kib) { return std::stod(kib) / 1024; };
  Contest out{.troupe =
                  [files, mib, batch = kBatch] {
                    Child child({own_path(), "--child", kLoadModel});
                    child.write_line(fmt::format("{} {}", batch, files->directory()));
                    return mib(child.read_line());
                  },
              .peers = {}};
  std::string name;
  if (start_peer(files->peer_command(settings, "onnx-memory"), name))
    out.peers.push_back({name, [files, mib, command = files->peer_command(settings, "onnx-memory")] {
                           std::string unused;
                           const auto child = start_peer(command, unused);
                           if (!child) fail(Code::unavailable, "onnxruntime is gone");
                           return mib(child->read_line());
                         }});
  return out;
}

}  // namespace

void load_model_as_child() {
  std::int64_t batch = 0;
  std::string directory;
  std::cin >> batch >> directory;
  forget_peak();
  const double before = resident_kib("VmRSS:");
  Task task{{.threads = 1, .gpus = {.count = 0}}};
  const LoadedModel model = load_model(directory + kModel, {.task = &task});
  for (int i = 0; i < 3; ++i) model.run("serve", {{"x", drawn_tokens(batch)}});
  say(std::to_string(resident_kib("VmHWM:") - before));
}

void add_load_cases(std::vector<Case>& cases) {
  cases.push_back({.bench = "infer",
                   .name = "load",
                   .unit = "ms",
                   .measures = "a sentence encoder of 90 MB from its directory to the first result, one thread",
                   .peer = "onnxruntime from Python, from the exported file to the first result",
                   .ratio_target = 3,
                   .prepare = first_answer});
  cases.push_back({.bench = "infer",
                   .name = "memory",
                   .unit = "MiB",
                   .measures =
                       "peak memory of a process that loads the encoder and runs 3 batches of 8, less what it had "
                       "before, with pages of mapped files",
                   .peer = "onnxruntime from Python, the same",
                   .ratio_target = 1,
                   .prepare = most_memory});
}

}  // namespace troupe::bench
