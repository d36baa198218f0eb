// Layers: functions with weights. A layer has no state: its weights are variables in a pool. The first application
// creates them, with shapes derived from its inputs; later applications with the same pool (a tower, an evaluation)
// share them. An invalid layer throws invalid_argument naming it.
//
// A layer of one's own with one input and one output overrides apply(); any other overrides apply_all() and, for
// several outputs, outputs(). Its gradient is that of its ops. To be written with a model it also overrides config(),
// and the reader's registry has its kind (graph/layers/registry.hpp).
//
//   class Scale final : public Layer {
//    public:
//     std::string kind() const override { return "scale"; }
//     Output apply(LayerContext& context, Output x) const override {
//       return x * context.weight("factor", {.dtype = context.weight_type(x)}, initializers::ones()).read();
//     }
//   };
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <troupe/graph/layers/weights.hpp>
#include <troupe/graph/optimizers/running_average.hpp>

namespace troupe {

// Terms that layers add to the loss of a model: scalars, of regularized weights (each once) and of layers of one's own.
struct ExtraLosses {
  std::vector<Output> terms{};
  std::set<std::string> regularized{};  // names of variables
};

// The state of layers that are given sequences piece by piece: what they keep of the steps before. Layers of single
// steps need none; those that know it are causal self-attention and positions.
struct SequenceCache {
  std::int64_t capacity = 0;  // most steps of a sequence
  Output position{};          // i64 scalar: the number of steps before this piece
  // Keys and values of each attention, in the order of application, [n, heads, capacity, depth]: placeholders for those
  // before this piece, and the same with its steps.
  std::vector<Output> before{}, after{};
};

// The context in which layers are applied.
struct LayerContext {
  Graph& graph;
  bool training = false;  // dropout drops; batch_norm uses the statistics of the batch
  VariablePool& variables;
  // Collects the running averages of layers that train with batch statistics, with the values to follow; must not be
  // null for those layers.
  std::vector<RunningAverage>* averages = nullptr;
  ExtraLosses* losses = nullptr;  // collects these, unless null
  // The name of the layer being applied, set by the network; before, a prefix for its variables.
  std::string layer = {};
  // Dtypes of products and of weights. invalid: that of the layer's input. Set by the network.
  DType compute = DType::invalid;
  DType weights = DType::invalid;
  bool trainable = true;           // of weights; false in frozen layers
  SequenceCache* cache = nullptr;  // not null: inputs are pieces [n, steps, ...] of sequences

  // The dtype a layer computes in, if it requests `own` (invalid: no request).
  DType compute_type(Output x, DType own = DType::invalid) const;
  DType weight_type(Output x) const { return weights != DType::invalid ? weights : x.dtype(); }

  VariableRef weight(const std::string& name, WeightSpec spec, const WeightOptions& options);
  VariableRef weight(const std::string& name, const WeightSpec& spec, const Initializer& initializer) {
    return weight(name, spec, WeightOptions{.initializer = initializer});
  }
  // A scalar to be added to the loss; nothing happens if losses are not collected.
  void add_loss(Output loss) const;
};

struct NetworkPlan;
class Layer;
class LayerPtr;

// A layer as data. Options of a kind have fixed names and types.
struct LayerConfig {
  std::string kind{};
  Attributes options{};
  std::map<std::string, WeightOptions> weights{};        // those that differ from the kind's
  std::map<std::string, LayerPtr> layers{};              // inside
  std::shared_ptr<const NetworkPlan> network = nullptr;  // of a network (graph/layers/network.hpp)
};

class Layer {
 public:
  virtual ~Layer() = default;
  virtual std::string kind() const = 0;                         // "dense": names are made of it
  virtual Output apply(LayerContext& context, Output x) const;  // default: throws invalid_argument
  // Called by networks and other layers. Default: apply(), of one input.
  virtual Outputs apply_all(LayerContext& context, const Outputs& xs) const;
  virtual int outputs() const { return 1; }
  // Throws failed_precondition for a layer that cannot be written.
  virtual LayerConfig config() const;
};

// A symbolic tensor between layers: an input of a network, or a result of a layer that is called on others.
class Symbol;
using Symbols = std::vector<Symbol>;

// A layer, shared: the same one called twice in a network has the same weights. Null by default.
class LayerPtr {
 public:
  LayerPtr() = default;
  LayerPtr(std::nullptr_t) {}
  template <class T>
  requires std::is_base_of_v<Layer, T> LayerPtr(std::shared_ptr<T> layer) : layer_(std::move(layer)) {}

  explicit operator bool() const { return layer_ != nullptr; }
  const Layer& operator*() const { return *layer_; }
  const Layer* operator->() const { return layer_.get(); }
  const Layer* get() const { return layer_.get(); }

  // The same layer, which a network will know by this name instead of one made of its kind.
  LayerPtr named(std::string name) const;
  const std::string& name() const { return name_; }

  // Its results for these inputs; call() of any number, the others of one. Throw invalid_argument for null and symbols
  // without a value.
  Symbols call(const Symbols& xs) const;
  Symbol operator()(const Symbols& xs) const;
  template <class... More>
  Symbol operator()(const Symbol& x, const More&... more) const;

 private:
  std::shared_ptr<const Layer> layer_;
  std::string name_;
};

// An input of a network.
struct InputSpec {
  std::string name{};
  Shape shape{};             // of one example, whose dimensions may be unknown: a tensor has the batch before it
  DType dtype = DType::f32;  // any
};

class Symbol {
 public:
  struct Source {
    LayerPtr layer{};  // null: an input
    Symbols inputs{};
    InputSpec input{};
  };

  Symbol() = default;  // without a value
  Symbol(std::shared_ptr<const Source> source, int output) : source_(std::move(source)), output_(output) {}

  bool valid() const { return source_ != nullptr; }
  const std::shared_ptr<const Source>& source() const { return source_; }
  int output() const { return output_; }

 private:
  std::shared_ptr<const Source> source_;
  int output_ = 0;
};

Symbol input(std::string name, Shape shape, DType dtype = DType::f32);

template <class... More>
Symbol LayerPtr::operator()(const Symbol& x, const More&... more) const {
  return (*this)(Symbols{x, more...});
}

}  // namespace troupe
