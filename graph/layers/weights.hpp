// Weights of layers: how they begin (initializers), what they cost (regularizers) and how they are kept in bounds
// (constraints). All three are data, so that a model can be written and read back (graph/layers/registry.hpp).
//
//   layers::dense(10, Activation::none, {.kernel = {.initializer = initializers::he_normal(),
//                                                   .regularizer = regularizers::l2(1e-4),
//                                                   .constraint = constraints::max_norm(3)}});
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <troupe/graph/builder/variable.hpp>

namespace troupe {

// A weight to initialize. fan_in: inputs that each output depends on; fan_out: outputs that depend on each input.
struct WeightSpec {
  DType dtype = DType::f32;
  Shape shape{};
  double fan_in = 1;
  double fan_out = 1;
  bool trainable = true;
  bool on_demand = false;  // VariableOptions::on_demand
};

// The first value of a weight: one of initializers:: (a kind with options), or a function of the program's own, with
// which a model cannot be written.
class Initializer {
 public:
  using Function = std::function<Output(Graph&, const WeightSpec&)>;

  Initializer() = default;  // none: the layer's choice
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Initializer> &&
           std::is_invocable_r_v<Output, F&, Graph&, const WeightSpec&>) Initializer(F function)
      : function_(std::move(function)) {}
  // By the names of initializers:: and their arguments. Throws not_found or invalid_argument.
  Initializer(std::string kind, Attributes options);

  explicit operator bool() const { return function_ != nullptr; }
  Output operator()(Graph& graph, const WeightSpec& spec) const { return function_(graph, spec); }
  const std::string& kind() const { return kind_; }  // "": a function of the program's own
  const Attributes& options() const { return options_; }

 private:
  Function function_;
  std::string kind_;
  Attributes options_;
};

// Random ones depend on the session's seed, this seed and the variable's name. Normal ones are truncated at two
// standard deviations, which are those before that (Keras' he_normal and its like: 1.137 times as large).
namespace initializers {
Initializer zeros();
Initializer ones();
Initializer constant(double value);
// Uniform in [-l, l): l = sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio 2010), sqrt(6 / fan_in) (He et al. 2015: for
// relu), sqrt(3 / fan_in) (LeCun et al. 1998: for selu).
Initializer glorot_uniform(std::int64_t seed = 0);
Initializer he_uniform(std::int64_t seed = 0);
Initializer lecun_uniform(std::int64_t seed = 0);
// Normal with the same variances: 2 / (fan_in + fan_out), 2 / fan_in and 1 / fan_in.
Initializer glorot_normal(std::int64_t seed = 0);
Initializer he_normal(std::int64_t seed = 0);
Initializer lecun_normal(std::int64_t seed = 0);
Initializer random_uniform(double low = -0.05, double high = 0.05, std::int64_t seed = 0);
Initializer random_normal(double mean = 0, double stddev = 0.05, std::int64_t seed = 0);  // not truncated
Initializer truncated_normal(double mean = 0, double stddev = 0.05, std::int64_t seed = 0);
// A matrix of all dimensions but the last as rows, with orthonormal columns, or rows if these are fewer, times `gain`
// (Saxe, McClelland & Ganguli 2014).
Initializer orthogonal(double gain = 1, std::int64_t seed = 0);
Initializer identity(double gain = 1);  // of matrices, square or not
}  // namespace initializers

// Adds l1 sum |w| + l2 sum w^2 to the loss.
struct Regularizer {
  double l1 = 0;
  double l2 = 0;

  explicit operator bool() const { return l1 != 0 || l2 != 0; }
  bool operator==(const Regularizer&) const = default;
};
namespace regularizers {
inline Regularizer l1(double factor = 0.01) { return {.l1 = factor}; }
inline Regularizer l2(double factor = 0.01) { return {.l2 = factor}; }
inline Regularizer l1_l2(double l1 = 0.01, double l2 = 0.01) { return {l1, l2}; }
}  // namespace regularizers
// The scalar that it adds, in the weight's dtype.
Output penalty(Output weight, const Regularizer& regularizer);

// Replaces a weight after each update. Norms are roots of sums of squares over `axes`: 0 for each unit of a
// dense kernel [in, units], {0, 1, 2} for each filter of a convolution.
struct Constraint {
  enum class Kind { none, max_norm, min_max_norm, unit_norm, non_negative };
  Kind kind = Kind::none;
  double low = 0;
  double high = 1;
  double rate = 1;  // of min_max_norm: the part of the way to the bounds that each update goes
  std::vector<std::int64_t> axes{0};

  explicit operator bool() const { return kind != Kind::none; }
  bool operator==(const Constraint&) const = default;
};
namespace constraints {
using Axes = std::vector<std::int64_t>;
Constraint max_norm(double limit = 2, Axes axes = {0});  // norms are at most `limit`
Constraint min_max_norm(double low = 0, double high = 1, double rate = 1, Axes axes = {0});
Constraint unit_norm(Axes axes = {0});
Constraint non_negative();  // negative elements become 0
}  // namespace constraints
Output constrained(Output weight, const Constraint& constraint);
// Gives a variable its constrained value: a node on its device, without an output. A norm within the bounds leaves its
// weights as they are.
Output constrain(const VariableRef& variable, const Constraint& constraint);

// How a layer treats one of its weights.
struct WeightOptions {
  Initializer initializer{};  // none: the layer's choice
  Regularizer regularizer{};
  Constraint constraint{};
  bool on_demand = false;  // of a table: VariableOptions::on_demand
};

// The variables of a model in one graph, by name ("dense/kernel") without the scope in which they were
// created.
class VariablePool {
 public:
  // The variable with this name; the first call creates it, under the last part of the name in the graph's current
  // scope. Throws invalid_argument if it exists with another dtype or shape, or in another graph.
  VariableRef get(Graph& graph, const std::string& name, const WeightSpec& spec, const WeightOptions& options);
  // Takes a variable that exists: get() of this name returns it. Throws already_exists for a name that is taken.
  void add(const std::string& name, const VariableRef& variable, bool trainable = true);
  // In order of creation.
  const std::vector<VariableRef>& all() const { return variables_; }
  // Those trained by gradients.
  const std::vector<VariableRef>& trainable() const { return trainable_; }
  // Trained ones that are to be constrained after each update: variable.assign(constrained(value, constraint)).
  struct Constrained {
    VariableRef variable{};
    Constraint constraint{};
  };
  const std::vector<Constrained>& constrained() const { return constrained_; }

 private:
  std::vector<VariableRef> variables_;
  std::vector<VariableRef> trainable_;
  std::vector<Constrained> constrained_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
};

}  // namespace troupe
