// Networks: layers joined to a function of named tensors.
//
//   const Symbol image = input("image", Shape{28, 28, 1}, DType::u8), age = input("age", Shape{1});
//   const Symbol pixels = layers::flatten()(layers::rescaling(1 / 255.0)(image));
//   const Symbol joined = layers::concatenate()(layers::dense(64, Activation::relu)(pixels), age);
//   Network network({image, age}, {{"class", layers::dense(10)(joined)}, {"risk", layers::dense(1)(joined)}});
//   VariablePool variables;
//   LayerContext training{.graph = graph, .training = true, .variables = variables, .averages = &averages};
//   NamedOutputs results = network.apply(training, {{"image", images}, {"age", ages}});
//
// A network of layers one after the other is a Sequential:
//
//   Sequential model({layers::flatten(), layers::dense(128, Activation::relu), layers::dense(10)});
//
// A layer has a name, the scope of its nodes and variables: its kind, numbered from the second of a kind on ("dense",
// "dense_1"), in the order in which the network computes them, or the name given by LayerPtr::named(). Weights belong
// to names: a layer that occurs twice in a network has one name and shares them. A network is a layer, too: its
// variables are below its name ("encoder/dense/kernel").
//
// Mixed precision: layers with products may compute in bf16 or f16 (`compute`) while weights keep the dtype of the
// network's first floating input (master weights; f32 without one). Inputs and weights are cast on entry, so gradients
// reach the weights, and the optimizer, in that dtype. Layers without products run in their input's dtype
// (normalisations: their data; parameters and statistics are f32), except softmax and dropout, whose kernels support
// only f32 and f64: they cast back to the weights' dtype. Other floating results of a network are cast to the dtype of
// its first floating input. f16 needs loss scaling (graph/optimizers/loss_scaling.hpp) to keep gradients below 6e-8
// from vanishing; bf16 does not.
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <troupe/graph/layers/layer.hpp>

namespace troupe {

// A network as data. Its values are numbered: first the inputs, then the results of each call.
struct NetworkPlan {
  struct Member {
    std::string name{};
    LayerPtr layer{};
  };
  struct Call {
    int member = 0;
    std::vector<int> inputs{};
  };
  struct Result {
    std::string name{};
    int value = 0;
  };
  std::vector<InputSpec> inputs{};  // dtype invalid: any dtype and shape
  std::vector<Member> members{};
  std::vector<Call> calls{};  // in the order of computation
  std::vector<Result> results{};
  DType compute = DType::invalid;
};

using NamedOutputs = std::map<std::string, Output, std::less<>>;

class Network {
 public:
  using NamedSymbol = std::pair<std::string, Symbol>;

  Network();  // one input, which is the result
  // Throws invalid_argument for names that occur twice, and results that need an input not listed.
  Network(const Symbols& inputs, const std::vector<NamedSymbol>& results);
  // Results are named by their layers.
  Network(const Symbols& inputs, const Symbols& results);
  // Throws invalid_argument for a plan whose numbers, names or layers do not fit.
  explicit Network(NetworkPlan plan, std::string kind = "network");

  // Applies it to all inputs. Throws invalid_argument naming the input or layer that does not fit.
  NamedOutputs apply(LayerContext& context, const NamedOutputs& inputs) const;
  // The same in the order of inputs and results.
  Outputs apply(LayerContext& context, const Outputs& inputs) const;
  // Of one input and one result.
  Output apply(LayerContext& context, Output x) const;

  const NetworkPlan& plan() const { return *plan_; }
  // Copies of a network are the same layer: called twice, they share weights.
  const LayerPtr& layer() const { return layer_; }
  operator const LayerPtr&() const { return layer_; }
  template <class... More>
  Symbol operator()(const Symbol& x, const More&... more) const {
    return layer_(x, more...);
  }
  Symbols call(const Symbols& xs) const { return layer_.call(xs); }

  // Dtype of products in layers that do not set their own; invalid: that of their input. Makes it another layer. Throws
  // invalid_argument for a dtype that is not floating.
  void set_compute(DType compute);
  DType compute() const { return plan_->compute; }

  struct Summary {
    std::string name{};
    std::string kind{};
    Shape output{};                     // of its first output, in the first call
    std::int64_t parameters = 0;        // trainable ones
    std::vector<std::string> inputs{};  // layers or inputs that it is first called on
  };
  std::vector<Summary> summary(const OpRegistry& ops = standard_ops()) const;
  // The same as a printable table, with the total.
  std::string dump(const OpRegistry& ops = standard_ops()) const;

 private:
  std::shared_ptr<const NetworkPlan> plan_;
  LayerPtr layer_;
};

// A sequence of layers.
class Sequential {
 public:
  Sequential() : Sequential(std::vector<LayerPtr>{}) {}
  explicit Sequential(const std::vector<LayerPtr>& layers);
  void add(LayerPtr layer);

  void set_compute(DType compute) { network_.set_compute(compute); }
  DType compute() const { return network_.compute(); }
  // By name, each once.
  std::span<const NetworkPlan::Member> layers() const { return network_.plan().members; }

  // The result has the dtype of x, if both are floating. Throws invalid_argument naming the layer that does not fit.
  Output apply(LayerContext& context, Output x) const { return network_.apply(context, x); }

  // It takes an input of any shape and dtype.
  const Network& network() const { return network_; }
  operator const Network&() const { return network_; }
  operator const LayerPtr&() const { return network_.layer(); }
  Symbol operator()(const Symbol& x) const { return network_(x); }

  using Summary = Network::Summary;
  // Output shapes for an f32 input of this shape, like [?,28,28,1].
  std::vector<Summary> summary(const Shape& input, const OpRegistry& ops = standard_ops()) const;
  std::string dump(const Shape& input, const OpRegistry& ops = standard_ops()) const;

 private:
  Network network_;
};

}  // namespace troupe
