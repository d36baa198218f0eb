// The builder API: one function for each op, so that a graph reads like mathematics.
//
//   Output hidden = relu(matmul(x, w) + b);
//   Output loss = mean(sparse_softmax_cross_entropy(matmul(hidden, v), labels));
//
// Each function adds one node to the graph of its arguments (to the graph given, if it has none) and returns
// its output. Binary functions broadcast as NumPy does. A name is optional and relative to the graph's scope.
// Attributes, dtypes and shapes are checked at once: misuse throws Error naming op and node. What an op
// computes is said where it is not obvious.
#pragma once

#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include <troupe/graph/graph.hpp>

namespace troupe {

using Outputs = std::vector<Output>;
using Integers = std::vector<std::int64_t>;
using Name = std::string;

// Any op: adds a node to the graph of the first input. For ops without a function of their own.
const Node& add_node(Name op, const Outputs& inputs, Attributes attributes = {}, Name name = {});
Output add_op(Name op, const Outputs& inputs, Attributes attributes = {}, Name name = {});  // its first output
Outputs outputs_of(Graph& graph, const Node& node);

// --- Sources ---
Output constant(Graph& graph, Tensor value, Name name = {});
template <class T>
requires(dtype_of<T> != DType::invalid) Output constant(Graph& graph, const T& scalar, Name name = {}) {
  return constant(graph, Tensor::scalar<T>(scalar), std::move(name));
}
template <class T>
requires(dtype_of<T> != DType::invalid) Output constant(Graph& graph, std::initializer_list<T> vector, Name name = {}) {
  return constant(graph, Tensor::vector<T>(vector), std::move(name));
}
// A scalar of x's dtype in x's graph. Throws invalid_argument if an integer dtype cannot hold the value.
Output scalar_like(Output x, double value, Name name = {});
// A value to be fed. Its shape may be unknown in part.
Output placeholder(Graph& graph, DType dtype, Shape shape = Shape::unknown_rank(), Name name = {});

struct RandomOptions {
  DType dtype = DType::f32;
  std::int64_t seed = 0;
  Name name{};
};
Output random_uniform(Graph& graph, const Shape& shape, double minval = 0, double maxval = 1,
                      RandomOptions options = {});
Output random_normal(Graph& graph, const Shape& shape, double mean = 0, double stddev = 1, RandomOptions options = {});
// Normal within two standard deviations: values beyond are drawn again.
Output truncated_normal(Graph& graph, const Shape& shape, double mean = 0, double stddev = 1,
                        RandomOptions options = {});

// --- Order ---
Output identity(Output x, Name name = {});
Output stop_gradient(Output x, Name name = {});
// A node without outputs that runs after all of `nodes`; to be used as a control or a target.
Output group(Graph& graph, const Outputs& nodes, Name name = {});

// --- Elementwise ---
Output add(Output a, Output b, Name name = {});
Output sub(Output a, Output b, Name name = {});
Output mul(Output a, Output b, Name name = {});
Output div(Output a, Output b, Name name = {});
Output maximum(Output a, Output b, Name name = {});
Output minimum(Output a, Output b, Name name = {});
Output pow(Output a, Output b, Name name = {});
Output squared_difference(Output a, Output b, Name name = {});
Output operator+(Output a, Output b);
Output operator-(Output a, Output b);
Output operator*(Output a, Output b);
Output operator/(Output a, Output b);
Output operator-(Output x);
Output operator+(Output a, double b);  // the number becomes a constant of the other side's dtype
Output operator-(Output a, double b);
Output operator*(Output a, double b);
Output operator/(Output a, double b);
Output operator+(double a, Output b);
Output operator-(double a, Output b);
Output operator*(double a, Output b);
Output operator/(double a, Output b);

Output neg(Output x, Name name = {});
Output abs(Output x, Name name = {});
Output sign(Output x, Name name = {});
Output square(Output x, Name name = {});
Output exp(Output x, Name name = {});
Output log(Output x, Name name = {});
Output log1p(Output x, Name name = {});
Output sqrt(Output x, Name name = {});
Output rsqrt(Output x, Name name = {});
Output tanh(Output x, Name name = {});
Output sigmoid(Output x, Name name = {});
Output softplus(Output x, Name name = {});
Output floor(Output x, Name name = {});
Output erf(Output x, Name name = {});
Output relu(Output x, Name name = {});
Output leaky_relu(Output x, double alpha = 0.2, Name name = {});
Output cast(Output x, DType to, Name name = {});  // x itself if it has the dtype and no name is given

Output equal(Output a, Output b, Name name = {});
Output not_equal(Output a, Output b, Name name = {});
Output less(Output a, Output b, Name name = {});
Output less_equal(Output a, Output b, Name name = {});
Output greater(Output a, Output b, Name name = {});
Output greater_equal(Output a, Output b, Name name = {});
Output logical_and(Output a, Output b, Name name = {});
Output logical_or(Output a, Output b, Name name = {});
Output logical_not(Output x, Name name = {});
Output select(Output cond, Output a, Output b, Name name = {});  // cond ? a : b

Output add_n(const Outputs& xs, Name name = {});  // of one shape, from left to right
// The sum of x over the axes along which `like` was broadcast to x's shape.
Output sum_to_like(Output x, Output like, Name name = {});
Output broadcast_like(Output x, Output like, Name name = {});
Output zeros_like(Output x, Name name = {});
Output ones_like(Output x, Name name = {});
Output shape_of(Output x, Name name = {});       // i64 [rank]
Output element_count(Output x, Name name = {});  // i64 scalar

// --- Linear algebra ---
struct MatMulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  Name name{};
};
Output matmul(Output a, Output b, MatMulOptions options = {});
Output bias_add(Output x, Output bias, Name name = {});

// --- Reductions: over all axes if none are given ---
struct ReduceOptions {
  bool keep_dims = false;
  Name name{};
};
Output sum(Output x, Integers axes = {}, ReduceOptions options = {});
Output mean(Output x, Integers axes = {}, ReduceOptions options = {});
Output max(Output x, Integers axes = {}, ReduceOptions options = {});
Output min(Output x, Integers axes = {}, ReduceOptions options = {});
Output arg_max(Output x, std::int64_t axis, Name name = {});  // the first maximum; i64
Output l2_loss(Output x, Name name = {});                     // sum(x^2) / 2

// --- Arrays: axes may be negative ---
Output reshape(Output x, const Shape& shape, Name name = {});  // one dimension may be unknown (-1)
Output reshape(Output x, Output shape, Name name = {});
Output reshape_like(Output x, Output like, Name name = {});
Output transpose(Output x, Integers perm = {}, Name name = {});  // default: reverses the dimensions
Output squeeze(Output x, Integers axes = {}, Name name = {});    // default: all dimensions of size 1
Output expand_dims(Output x, std::int64_t axis, Name name = {});
Output concat(const Outputs& xs, std::int64_t axis, Name name = {});
Output stack(const Outputs& xs, std::int64_t axis, Name name = {});
Outputs split(Output x, std::int64_t axis, std::int64_t parts, Name name = {});
Outputs split_sizes(Output x, std::int64_t axis, Integers sizes, Name name = {});
Outputs unstack(Output x, std::int64_t axis, Name name = {});           // the size along the axis must be known
Output slice(Output x, Integers begin, Integers size, Name name = {});  // size -1: to the end
struct PadOptions {
  double value = 0;
  Name name{};
};
Output pad(Output x, Integers before, Integers after, PadOptions options = {});
Output tile(Output x, Integers multiples, Name name = {});
Output gather(Output table, Output indices, Name name = {});  // rows of axis 0
// Zeros like `like` [m,...] with values [n,...] added to the rows `indices` [n].
Output scatter_add_rows(Output indices, Output values, Output like, Name name = {});
struct OneHotOptions {
  DType dtype = DType::f32;
  double on = 1;
  double off = 0;
  Name name{};
};
Output one_hot(Output indices, std::int64_t depth, OneHotOptions options = {});
Output fill(Output dims, Output value, Name name = {});
Output range(Output start, Output limit, Output delta, Name name = {});

// --- Control flow ---
// Builds a branch: adds nodes to the graph given, using the arguments alone, and returns the results.
using BranchFn = std::function<Outputs(Graph&, const Outputs&)>;
// Runs one branch on `inputs`. Both must return as many results, of the same dtypes.
Outputs if_else(Output cond, const Outputs& inputs, const BranchFn& then_branch, const BranchFn& else_branch,
                Name name = {});
// The same, of functions that the graph has.
Outputs if_else(Output cond, const Outputs& inputs, const std::string& then_function, const std::string& else_function,
                Name name = {});

}  // namespace troupe
