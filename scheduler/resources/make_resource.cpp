#include "troupe/scheduler/resources/make_resource.hpp"

#include <troupe/devices/hash_table.hpp>
#include <troupe/graph/component_shapes.hpp>
#include <troupe/scheduler/resources/gradient_accumulator.hpp>
#include <troupe/scheduler/resources/tensor_queue.hpp>

namespace troupe {
namespace {

// "FIFOQueue(capacity 10; f32[2], i64[])".
std::string declared(const std::string& op, const std::string& rules, const std::vector<DType>& dtypes,
                     const std::vector<Shape>& shapes) {
  std::string text;
  for (std::size_t i = 0; i < dtypes.size(); ++i)
    text += fmt::format("{}{}{}", i == 0 ? "" : ", ", name(dtypes[i]), shapes[i].to_string());
  return fmt::format("{}({}{}{})", op, rules, rules.empty() ? "" : "; ", text);
}

bool is(const Attributes& attributes, std::string_view kind) { return attributes.string("kind") == kind; }

std::shared_ptr<Resource> make_queue(const std::string& name, const std::string& op, const Attributes& attributes) {
  QueueRules rules{.capacity = attributes.integer("capacity"), .dtypes = attributes.get<std::vector<DType>>("dtypes")};
  rules.shapes = unpacked_shapes(attributes.integers("shapes"), rules.dtypes.size());
  std::string text = fmt::format("capacity {}", rules.capacity);
  rules.by_priority = is(attributes, "priority queue");
  rules.shuffled = is(attributes, "shuffled queue");
  if (rules.shuffled) {
    rules.min_after_dequeue = attributes.integer("min_after_dequeue");
    rules.seed = static_cast<std::uint64_t>(attributes.integer("seed"));
    text += fmt::format(", min_after_dequeue {}, seed {}", rules.min_after_dequeue, rules.seed);
  }
  std::string declaration = declared(op, text, rules.dtypes, rules.shapes);
  return std::make_shared<TensorQueue>(name, std::move(declaration), std::move(rules));
}

std::shared_ptr<Resource> make_accumulator(const std::string& name, const std::string& op,
                                           const Attributes& attributes) {
  AccumulatorRules rules{.dtype = attributes.dtype("dtype"),
                         .shape = attributes.shape("shape"),
                         .sparse = is(attributes, "sparse accumulator")};
  std::string declaration = declared(op, {}, {rules.dtype}, {rules.shape});
  return std::make_shared<GradientAccumulator>(name, std::move(declaration), std::move(rules));
}

std::shared_ptr<Resource> make_table(const std::string& name, const std::string& op, const Attributes& attributes) {
  const DType keys = attributes.dtype("key_dtype"), values = attributes.dtype("value_dtype");
  const Shape& shape = attributes.shape("value_shape");
  return std::make_shared<HashTable>(name, declared(op, {}, {keys, values}, {Shape{}, shape}), keys, values, shape);
}

}  // namespace

std::shared_ptr<Resource> make_resource(const std::string& name, const std::string& op, const Attributes& attributes) {
  if (is(attributes, "queue") || is(attributes, "shuffled queue") || is(attributes, "priority queue"))
    return make_queue(name, op, attributes);
  if (is(attributes, "accumulator") || is(attributes, "sparse accumulator"))
    return make_accumulator(name, op, attributes);
  if (is(attributes, "table")) return make_table(name, op, attributes);
  fail(Code::unimplemented, "'{}': {} of kind '{}' makes no resource", name, op, attributes.string("kind"));
}

}  // namespace troupe
