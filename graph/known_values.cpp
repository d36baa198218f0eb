#include "troupe/graph/known_values.hpp"

#include <algorithm>
#include <map>

namespace troupe {
namespace {

constexpr int kMaxDepth = 64;  // of nodes between a value and its constants

class Evaluator final {
 public:
  explicit Evaluator(const Graph& graph) : graph_(graph) {}

  const KnownIntegers* value(Endpoint output) {
    const auto [it, fresh] = values_.try_emplace(output);
    if (fresh && depth_ < kMaxDepth) {
      ++depth_;
      std::optional<KnownIntegers> found = compute(output);
      --depth_;
      it->second = std::move(found);  // references into a map stay valid
    }
    return it->second ? &*it->second : nullptr;
  }

 private:
  class Context final : public ValueContext {
   public:
    Context(Evaluator& evaluator, const Node& node, int output) : evaluator_(evaluator), node_(node), output_(output) {}
    const Node& node() const override { return node_; }
    int output() const override { return output_; }
    int num_inputs() const override { return static_cast<int>(node_.inputs.size()); }
    const Shape& input_shape(int index) const override { return evaluator_.graph_.shape(endpoint(index)); }
    const KnownIntegers* input(int index) override { return evaluator_.value(endpoint(index)); }

   private:
    Endpoint endpoint(int index) const { return node_.inputs.at(static_cast<std::size_t>(index)); }
    Evaluator& evaluator_;
    const Node& node_;
    int output_;
  };

  std::optional<KnownIntegers> compute(Endpoint output) {
    const DType dtype = graph_.dtype(output);
    if (dtype != DType::i64 && dtype != DType::i32) return std::nullopt;
    const Node& node = graph_.node(output.node);
    if (node.op->role == OpRole::constant) return known_integers(node.attributes.tensor("value"));
    if (!node.op->value || (output.index != 0 && node.op->outputs[0].count_attr.empty())) return std::nullopt;
    Context context(*this, node, output.index);
    std::optional<KnownIntegers> found = node.op->value(context);
    if (found && (found->scalar ? found->values.size() != 1 : std::ssize(found->values) > kMaxKnownIntegers))
      return std::nullopt;
    if (found) found->dtype = dtype;
    return found;
  }

  const Graph& graph_;
  std::map<Endpoint, std::optional<KnownIntegers>> values_;
  int depth_ = 0;
};

}  // namespace

bool KnownIntegers::complete() const {
  return std::ranges::all_of(values, [](const auto& v) { return v.has_value(); });
}

std::vector<std::int64_t> KnownIntegers::integers() const {
  std::vector<std::int64_t> out;
  for (const auto& v : values) out.push_back(v.value());
  return out;
}

std::optional<KnownIntegers> known_integers(const Graph& graph, Endpoint output) {
  Evaluator evaluator(graph);
  const KnownIntegers* found = evaluator.value(output);
  return found ? std::optional(*found) : std::nullopt;
}

std::optional<KnownIntegers> known_integers(const Output& output) {
  if (output.eager) return known_integers(output.value());
  return known_integers(*output.graph, {output.node, output.index});
}

std::optional<KnownIntegers> known_integers(const Tensor& tensor) {
  const bool fits = (tensor.dtype() == DType::i64 || tensor.dtype() == DType::i32) && tensor.shape().rank() <= 1 &&
                    tensor.num_elements() <= kMaxKnownIntegers && tensor.space().on_host();
  if (!fits) return std::nullopt;
  KnownIntegers out{tensor.dtype(), tensor.shape().is_scalar(), {}};
  dispatch(IndexTypes{}, tensor.dtype(), [&]<class T>() {
    for (const T v : tensor.values<T>()) out.values.emplace_back(v);
  });
  return out;
}

std::optional<Tensor> known_tensor(const Output& output) {
  return output.eager ? output.value() : known_tensor(*output.graph, {output.node, output.index});
}

std::optional<Tensor> known_tensor(const Graph& graph, Endpoint output) {
  const Node& node = graph.node(output.node);
  if (node.op->role == OpRole::constant) return node.attributes.tensor("value");
  const auto known = known_integers(graph, output);
  if (!known || !known->complete()) return std::nullopt;
  const auto count = static_cast<std::int64_t>(known->values.size());
  return dispatch(IndexTypes{}, known->dtype, [&]<class T>() {
    Tensor out(known->dtype, known->scalar ? Shape{} : Shape{count});
    for (std::int64_t i = 0; i < count; ++i)
      out.mutable_data<T>()[i] = static_cast<T>(*known->values[static_cast<std::size_t>(i)]);
    return out;
  });
}

}  // namespace troupe
