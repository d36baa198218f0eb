// Values that are known while a graph is built: of constants, and of what is computed from them and from known
// dimensions by ops with a value function (OpDef::value). So the shape of reshape(x, concat(shape_of(x)[0:1], {-1})) is
// known as far as x's is.
#pragma once

#include <optional>
#include <vector>

#include <troupe/graph/graph.hpp>

namespace troupe {

// A scalar or vector of integers, each known or not.
struct KnownIntegers {
  DType dtype = DType::i64;
  bool scalar = false;
  std::vector<std::optional<std::int64_t>> values{};

  bool complete() const;
  std::vector<std::int64_t> integers() const;  // if complete
};

// The view a value function has of its node.
class ValueContext {
 public:
  virtual ~ValueContext() = default;
  virtual const Node& node() const = 0;
  virtual int output() const = 0;  // the output wanted; 0 except for an op with a list of outputs
  virtual int num_inputs() const = 0;
  virtual const Shape& input_shape(int index) const = 0;
  // Null if nothing is known of the input.
  virtual const KnownIntegers* input(int index) = 0;
};

// The integers of an output, as far as known; none if it is no scalar or vector of i32 or i64, is longer than
// kMaxKnownIntegers, or its length is not known.
inline constexpr std::int64_t kMaxKnownIntegers = 1024;
std::optional<KnownIntegers> known_integers(const Graph& graph, Endpoint output);
std::optional<KnownIntegers> known_integers(const Output& output);
// The elements of a tensor, under the same conditions; none if its memory is not on the host, too.
std::optional<KnownIntegers> known_integers(const Tensor& tensor);

// The whole value of an output, if it is a constant or its integers are known.
std::optional<Tensor> known_tensor(const Graph& graph, Endpoint output);
std::optional<Tensor> known_tensor(const Output& output);

}  // namespace troupe
