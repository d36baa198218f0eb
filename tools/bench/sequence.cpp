// Sequence models, forward and backward in one step, compared with scripts of TensorFlow and jax. One thread
// everywhere.
#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "tools/bench/cases.hpp"
#include "tools/bench/child.hpp"
#include "tools/bench/kernel_step.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/gradients/autodiff.hpp>

namespace troupe::bench {
namespace {

namespace fs = std::filesystem;

constexpr double kMilli = 1e3;  // milliseconds per second

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// A directory of tensors that peers read and write; removed in the end.
class TensorFiles {
 public:
  TensorFiles() {
    std::string pattern = (fs::temp_directory_path() / "troupe-bench-XXXXXX").string();
    if (!mkdtemp(pattern.data())) fail(Code::unavailable, "cannot make a directory like '{}'", pattern);
    directory_ = pattern;
  }
  ~TensorFiles() {
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }
  TensorFiles(const TensorFiles&) = delete;
  const std::string& directory() const { return directory_; }

  void write(const std::string& name, const Tensor& tensor) const {
    std::ofstream shape(fs::path(directory_) / (name + ".shape"));
    for (const std::int64_t size : tensor.shape().dims()) shape << size << ' ';
    std::ofstream file(fs::path(directory_) / (name + ".f32"), std::ios::binary);
    file.write(reinterpret_cast<const char*>(tensor.raw()), static_cast<std::streamsize>(tensor.num_bytes()));
    if (!file.flush() || !shape.flush()) fail(Code::unavailable, "cannot write to '{}'", directory_);
  }
  Tensor read(const std::string& name, const Shape& shape) const {
    Tensor out(DType::f32, shape);
    std::ifstream file(fs::path(directory_) / (name + ".f32"), std::ios::binary);
    if (!file.read(reinterpret_cast<char*>(out.mutable_raw()), static_cast<std::streamsize>(out.num_bytes())))
      fail(Code::internal, "the peer's '{}' has fewer than {} bytes", name, out.num_bytes());
    return out;
  }

 private:
  std::string directory_;
};

// A step with its inputs, and results by name.
struct SequenceStep {
  Task task{{.threads = 1, .gpus = {.count = 0}}};
  Graph graph;
  std::unique_ptr<Session> session;
  Callable call;
  std::vector<Tensor> feeds;
  TensorFiles files;

  std::vector<std::string> names;

  // `results`: by name, of the inputs.
  void prepare(const NamedTensors& inputs,
               const std::function<std::vector<std::pair<std::string, Output>>(const Outputs&)>& results) {
    Outputs in, out;
    for (const auto& [name, tensor] : inputs) {
      in.push_back(placeholder(graph, tensor.dtype(), tensor.shape(), name));
      feeds.push_back(tensor);
      files.write(name, tensor);
    }
    for (const auto& [name, output] : results(in)) {
      names.push_back(name);
      out.push_back(output);
    }
    session = std::make_unique<Session>(task, graph);
    call = session->callable(in, out);
  }

  // Compares the peer's results before it is measured.
  std::optional<Peer> peer(const std::string& name, const Settings& settings) {
    try {
      auto child = std::make_shared<Child>(
          std::vector<std::string>{settings.python, build_directory() + "/include/troupe/tools/bench/sequence_peer.py",
                                   files.directory(), name});
      const std::string answer = child->read_line(), ready = "ready ";
      if (!answer.starts_with(ready)) fail(Code::unavailable, "{}", answer);
      const std::vector<Tensor> results = call(feeds);
      for (std::size_t i = 0; i < names.size(); ++i)
        check_close(results[i], files.read(names[i], results[i].shape()).data<float>(), 1e-4);
      return Peer{answer.substr(ready.size()), [child] {
                    child->write_line("run");
                    return kMilli * std::stod(child->read_line());
                  }};
    } catch (const Error& error) {
      if (error.code() == Code::internal) throw;
      fmt::print(stderr, "troupe-bench: peer {} is not available: {}\n", name, error.message());
      return std::nullopt;
    }
  }
};

Contest contest_of(const std::shared_ptr<SequenceStep>& step, const std::vector<std::string>& peers,
                   const Settings& settings) {
  Contest contest{.troupe =
                      [step, slice = settings.slice_seconds()] {
                        return kMilli * seconds_per_call(slice, [&] { step->call(step->feeds); });
                      },
                  .peers = {}};
  for (const std::string& name : peers)
    if (auto peer = step->peer(name, settings)) contest.peers.push_back(std::move(*peer));
  return contest;
}

Contest lstm_contest(const Settings& settings) {
  const std::int64_t batch = settings.quick ? 2 : 32, steps = settings.quick ? 3 : 64,
                     inputs = settings.quick ? 4 : 128, units = settings.quick ? 5 : 256;
  auto small = [](Tensor t) {
    for (float& x : t.mutable_values<float>()) x *= 0.1f;
    return t;
  };
  Tensor bias = small(random_tensor({1, 8 * units}, 4));
  std::fill_n(bias.mutable_data<float>() + 4 * units, 4 * units, 0.0f);  // Keras has one bias
  auto step = std::make_shared<SequenceStep>();
  step->prepare({{"x", random_tensor({batch, steps, inputs}, 1)},
                 {"w", small(random_tensor({1, 4 * units, inputs}, 2))},
                 {"r", small(random_tensor({1, 4 * units, units}, 3))},
                 {"bias", bias},
                 {"dy", random_tensor({batch, steps, 1, units}, 5)}},
                [](const Outputs& in) -> std::vector<std::pair<std::string, Output>> {
                  const Output y = lstm(in[0], in[1], in[2], {.batch_major = true, .bias = in[3]}).y;
                  const auto flows = gradients(Outputs{y}, Outputs{in[0], in[1], in[2], in[3]}, {.grad_ys = {in[4]}});
                  return {{"y", y},
                          {"dx", flows[0].dense},
                          {"dw", flows[1].dense},
                          {"dr", flows[2].dense},
                          {"dbias", flows[3].dense}};
                });
  return contest_of(step, {"lstm"}, settings);
}

Contest attention_contest(const Settings& settings) {
  const Shape shape = settings.quick ? Shape{2, 5, 4} : Shape{8, 512, 64};
  auto step = std::make_shared<SequenceStep>();
  step->prepare({{"q", random_tensor(shape, 1)},
                 {"k", random_tensor(shape, 2)},
                 {"v", random_tensor(shape, 3)},
                 {"dy", random_tensor(shape, 4)}},
                [](const Outputs& in) -> std::vector<std::pair<std::string, Output>> {
                  const Output y = attention(in[0], in[1], in[2], {.causal = true});
                  const auto flows = gradients(Outputs{y}, Outputs{in[0], in[1], in[2]}, {.grad_ys = {in[3]}});
                  return {{"y", y}, {"dq", flows[0].dense}, {"dk", flows[1].dense}, {"dv", flows[2].dense}};
                });
  return contest_of(step, {"attention", "attention-fused"}, settings);
}

}  // namespace

void add_sequence_cases(std::vector<Case>& cases) {
  cases.push_back(
      {.bench = "sequence",
       .name = "lstm",
       .unit = "ms",
       .measures = "an LSTM of 256 units over 64 steps of 128 inputs, batch 32, forward and backward; 1 thread",
       .peer = "TensorFlow's Keras LSTM in a tf.function, 1 thread",
       .ratio_target = 1.35,
       .prepare = lstm_contest});
  cases.push_back({.bench = "sequence",
                   .name = "attention",
                   .unit = "ms",
                   .measures = "causal attention of 8 heads, 512 positions, depth 64, forward and backward; 1 thread",
                   .peer = "the better of jax's dot_product_attention and a softmax in jax, jitted, 1 thread",
                   .ratio_target = 1.5,
                   .prepare = attention_contest});
}

}  // namespace troupe::bench
