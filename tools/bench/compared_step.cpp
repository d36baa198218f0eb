#include "tools/bench/compared_step.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "tools/bench/child.hpp"
#include "tools/bench/kernel_step.hpp"
#include <troupe/actors/session/quantization.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/formats/onnx/onnx.hpp>
#include <troupe/graph/passes/freeze.hpp>

namespace troupe::bench {
namespace fs = std::filesystem;

TensorFiles::TensorFiles() {
  std::string pattern = (fs::temp_directory_path() / "troupe-bench-XXXXXX").string();
  if (!mkdtemp(pattern.data())) fail(Code::unavailable, "cannot make a directory like '{}'", pattern);
  directory_ = pattern;
}

TensorFiles::~TensorFiles() {
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
}

void TensorFiles::write(const std::string& name, const Tensor& tensor) const {
  std::ofstream shape(fs::path(directory_) / (name + ".shape"));
  shape << troupe::name(tensor.dtype());
  for (const std::int64_t size : tensor.shape().dims()) shape << ' ' << size;
  std::ofstream file(fs::path(directory_) / (name + ".data"), std::ios::binary);
  file.write(reinterpret_cast<const char*>(tensor.raw()), static_cast<std::streamsize>(tensor.num_bytes()));
  if (!file.flush() || !shape.flush()) fail(Code::unavailable, "cannot write to '{}'", directory_);
}

Tensor TensorFiles::read(const std::string& name, const Shape& shape) const {
  Tensor out(DType::f32, shape);
  std::ifstream file(fs::path(directory_) / (name + ".data"), std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(out.mutable_raw()), static_cast<std::streamsize>(out.num_bytes())))
    fail(Code::internal, "the peer's '{}' has fewer than {} bytes", name, out.num_bytes());
  return out;
}

ComparedStep::ComparedStep(const Inputs& inputs, const std::function<Results(const Outputs&)>& results, int threads)
    : threads_(threads) {
  for (const auto& [name, tensor] : inputs) {
    inputs_.push_back(placeholder(graph_, tensor.dtype(), tensor.shape(), name));
    feeds_.push_back(tensor);
    files_.write(name, tensor);
  }
  for (const auto& [name, output] : results(inputs_)) {
    names_.push_back(name);
    results_.push_back(output);
  }
  const std::vector<VariableInfo> weights = variables(graph_);
  Outputs start, reads;
  for (const VariableInfo& weight : weights) reads.push_back(find_variable(graph_, weight.name).read());
  if (!weights.empty()) start.push_back(initializer(graph_));
  session_ = std::make_unique<Session>(task_, graph_);
  if (!start.empty()) session_->run_targets(start);
  for (std::size_t i = 0; i < weights.size(); ++i) weights_[weights[i].name] = session_->run(reads[i]);
  call_ = session_->callable(inputs_, results_);
}

void ComparedStep::freeze_for_inference() {
  frozen_ = freeze(graph_, weights_);
  session_ = std::make_unique<Session>(task_, *frozen_, SessionOptions{.inference = InferencePasses{}});
  const auto in_frozen = [&](const Outputs& outputs) {
    Outputs out;
    for (const Output& output : outputs)
      out.push_back(frozen_->output(*frozen_->find(output.source().name), output.index));
    return out;
  };
  call_ = session_->callable(in_frozen(inputs_), in_frozen(results_));
}

void ComparedStep::quantize_for_inference() {
  const auto frozen = freeze(graph_, weights_);
  const auto in = [](Graph& graph, const Outputs& outputs) {
    Outputs out;
    for (const Output& output : outputs) out.push_back(graph.output(*graph.find(output.source().name), output.index));
    return out;
  };
  std::map<std::string, Tensor> batch;
  for (std::size_t i = 0; i < inputs_.size(); ++i) batch[inputs_[i].source().name] = feeds_[i];
  const auto batches = [&, once = true]() mutable -> std::optional<std::map<std::string, Tensor>> {
    return std::exchange(once, false) ? std::optional(batch) : std::nullopt;
  };
  QuantizedModel made = quantize(task_, *frozen, in(*frozen, results_), batches);
  frozen_ = std::move(made.graph);
  const Outputs inputs = in(*frozen_, inputs_);
  write_onnx(*frozen_, inputs, made.outputs);
  session_ = std::make_unique<Session>(task_, *frozen_, SessionOptions{.inference = InferencePasses{}});
  call_ = session_->callable(inputs, made.outputs);
}

void ComparedStep::write_onnx() const { write_onnx(graph_, inputs_, results_); }

void ComparedStep::write_onnx(const Graph& graph, const Outputs& inputs, const Outputs& results) const {
  OnnxExport what;
  for (const Output& input : inputs) what.inputs.push_back({"", input, {}});
  for (std::size_t i = 0; i < names_.size(); ++i) what.outputs.push_back({names_[i], results[i], {}});
  what.variables = weights_;
  export_onnx((fs::path(files_.directory()) / "model.onnx").string(), graph, what);
}

std::optional<Peer> ComparedStep::peer(const std::string& name, const Settings& settings, double tolerance,
                                       double scale) const {
  const auto check = [&] {
    const std::vector<Tensor> results = run();
    for (std::size_t i = 0; i < names_.size(); ++i)
      check_close(results[i], files_.read(names_[i], results[i].shape()).data<float>(), tolerance);
  };
  return python_peer(settings, "graph_peer.py", {files_.directory(), name, std::to_string(threads_)}, check, scale);
}

std::optional<Peer> python_peer(const Settings& settings, const std::string& script,
                                const std::vector<std::string>& arguments, const std::function<void()>& check,
                                double scale) {
  std::vector<std::string> command{settings.python, build_directory() + "/include/troupe/tools/bench/peers/" + script};
  command.insert(command.end(), arguments.begin(), arguments.end());
  try {
    auto child = std::make_shared<Child>(command);
    const std::string answer = child->read_line(), ready = "ready ";
    if (!answer.starts_with(ready)) fail(Code::unavailable, "{}", answer);
    check();
    return Peer{answer.substr(ready.size()), [child, scale] {
                  child->write_line("run");
                  return scale * std::stod(child->read_line());
                }};
  } catch (const Error& error) {
    if (error.code() == Code::internal) throw;
    fmt::print(stderr, "troupe-bench: peer {} is not available: {}\n",
               fmt::join(arguments.begin() + 1, arguments.end(), " "), error.message());
    return std::nullopt;
  }
}

Contest compare_with(const std::shared_ptr<ComparedStep>& step, const std::vector<std::string>& peers,
                     const Settings& settings, double scale, double tolerance) {
  Contest contest{
      .troupe = [step, scale,
                 slice = settings.slice_seconds()] { return scale * seconds_per_call(slice, [&] { step->run(); }); },
      .peers = {}};
  for (const std::string& name : peers)
    if (auto peer = step->peer(name, settings, tolerance, scale)) contest.peers.push_back(std::move(*peer));
  return contest;
}

}  // namespace troupe::bench
