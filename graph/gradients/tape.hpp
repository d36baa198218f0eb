// Gradients in eager mode (graph/op_runner.hpp): a tape records the ops that depend on what it watches, and calls their
// gradient functions in reverse order. Those are the same as gradients() calls, in the same order: the bits are those
// of a graph.
//
//   GradientTape tape;
//   tape.watch(x);
//   Output y = reduce_sum(square(x));
//   Output dx = tape.gradient(y, x);  // 2 x
//
// Gradients of gradients: an outer tape records what an inner one computes.
//
// A tape that is made in a function that is traced (actors/eager/function.hpp) records its nodes.
#pragma once

#include <functional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/gradients/autodiff.hpp>
#include <troupe/graph/op_runner.hpp>

namespace troupe {

struct TapeOptions {
  bool persistent = false;      // gradient() may be called again; otherwise the first call frees what was recorded
  bool watch_variables = true;  // trainable ones that are read
};

// Records what its thread runs, from its construction to stop() or its end; keeps the values that gradients need. Not
// thread-safe. Tapes end in the reverse order of their construction.
class GradientTape final : private OpRecorder {
 public:
  explicit GradientTape(TapeOptions options = {}) : options_(options) {}

  // A value, or the handle of a variable. Throws invalid_argument for a tensor of a graph that is not traced, or one
  // that is not floating.
  void watch(const Output& x);
  void stop() { recording_ = false; }
  void resume() { recording_ = true; }
  using OpRecorder::is_innermost;
  using OpRecorder::leave;

  // The gradient of the sum of `ys` for each x, as gradients() gives it: empty if no y depends on it. An x may be the
  // handle of a variable, of whose reads it is the sum. Throws failed_precondition in a second call unless persistent;
  // unimplemented naming the op if one on the way has no gradient; and as gradients() does.
  std::vector<Gradient> gradients(std::span<const Output> ys, std::span<const Output> xs,
                                  const GradientOptions& options = {});
  // The same, but those of rows are sparse for variables alone.
  std::vector<Gradient> gradients_by_kind(std::span<const Output> ys, std::span<const Output> xs,
                                          const GradientOptions& options = {}) {
    return compute(ys, xs, options, Dense::of_tensors);
  }
  // Dense; an invalid Output if y does not depend on x.
  Output gradient(const Output& y, const Output& x);
  Outputs gradient(const Output& y, const Outputs& xs);

 private:
  struct Record {
    Outputs inputs;
    Outputs outputs;
    Backward backward;  // null: the op's gradient function
  };
  // A value, or an output of a node.
  struct Key {
    explicit Key(const Output& x)
        : owner(x.eager ? static_cast<const void*>(x.eager.get()) : x.graph),
          place(x.eager ? 0 : (std::int64_t{x.node} << 32) + x.index + 1) {}
    bool operator==(const Key&) const = default;
    const void* owner;
    std::int64_t place;
  };
  struct HashKey {
    std::size_t operator()(const Key& key) const {
      return std::hash<const void*>()(key.owner) ^ static_cast<std::size_t>(key.place) * 0x9e3779b97f4a7c15ull;
    }
  };
  using Keys = std::unordered_set<Key, HashKey>;
  template <class T>
  using ByKey = std::unordered_map<Key, T, HashKey>;
  class Reverse;

  void ran(const NodeSpec& op, std::span<const Output> outputs) override;
  void ran_function(Graph& graph, std::span<const Output> xs, std::span<const Output> ys,
                    const Backward& backward) override;
  bool wants(const Output& x) const override;
  bool is_watched(const Output& x) const { return x.valid() && watched_.contains(key(x)); }
  // Of a variable's read: the variable.
  Key key(const Output& x) const {
    const Key own(x);
    const auto read = variable_of_.find(own);
    return read == variable_of_.end() ? own : read->second;
  }
  enum class Dense { none, of_tensors, all };  // which gradients of rows become dense
  std::vector<Gradient> compute(std::span<const Output> ys, std::span<const Output> xs, const GradientOptions& options,
                                Dense which);
  // A tensor of x's dtype and shape: of a variable what was read first.
  const Output& tensor_like(const Output& x) const {
    const auto read = reads_.find(Key(x));
    return read == reads_.end() ? x : read->second;
  }
  void record(std::span<const Output> inputs, std::span<const Output> outputs, Backward backward);

  const TapeOptions options_;
  bool recording_ = true;
  bool used_ = false;
  std::vector<Record> records_;
  Keys watched_;            // and what depends on it
  ByKey<Key> variable_of_;  // of reads
  ByKey<Output> reads_;     // the first of each variable
  Outputs kept_;            // so that no other value gets the place in memory of one that is known here
};

// Gradients of what a function computes, in either mode: of a graph by gradients(), in eager mode by a tape.
struct SeededOutputs {
  Outputs ys{};  // none: no gradients
  Outputs grad_ys{};
};
std::vector<Gradient> gradients_of(const std::function<SeededOutputs()>& fn, const Outputs& xs);

struct ValueAndGradients {
  Output value{};
  Outputs gradients{};  // dense, one for each x; an invalid Output where none flows
};
// fn(xs), and the gradients of the scalar that it returns.
ValueAndGradients value_and_grad(const std::function<Output(const Outputs& xs)>& fn, const Outputs& xs);

}  // namespace troupe
