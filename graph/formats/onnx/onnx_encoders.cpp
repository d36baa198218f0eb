// Encoders of ai.onnx.ml: tables from keys to values.
#include <cmath>
#include <set>

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/formats/onnx/onnx_ml.hpp>
#include <troupe/messages/element_types.hpp>

namespace troupe {
namespace {

Tensor strings_tensor(const std::vector<std::string>& values) {
  return Tensor::of<std::string>(Shape{std::ssize(values)}, values);
}
Tensor integers_tensor(const Integers& values) { return Tensor::of<std::int64_t>(Shape{std::ssize(values)}, values); }

// The attribute `prefix` + one of the types that it may be of; invalid if there is none.
Tensor list_attr(const OnnxNode& node, const std::string& prefix) {
  if (node.has_attr(prefix + "_tensor")) {
    const Tensor t = node.tensor(prefix + "_tensor");
    return t.reshaped(Shape{t.num_elements()});
  }
  if (node.has_attr(prefix + "_strings")) return strings_tensor(node.strings(prefix + "_strings"));
  if (node.has_attr(prefix + "_int64s")) return integers_tensor(node.integers(prefix + "_int64s"));
  if (node.has_attr(prefix + "_floats")) return vector_of(node.reals(prefix + "_floats"), DType::f32);
  return {};
}

Tensor default_of(const OnnxNode& node, DType dtype) {
  if (node.has_attr("default_tensor")) {
    const Tensor t = node.tensor("default_tensor");
    if (t.num_elements() != 1) invalid_argument("attribute 'default_tensor' has {} elements, not 1", t.num_elements());
    return t.reshaped(Shape{});
  }
  switch (dtype) {
    case DType::string:
      return Tensor::scalar<std::string>(node.string("default_string", "_Unused"));
    case DType::f32:
      return Tensor::scalar<float>(static_cast<float>(node.real("default_float", -0.0)));
    case DType::f64:
      return Tensor::scalar<double>(-0.0);
    case DType::i64:
      return Tensor::scalar<std::int64_t>(node.integer("default_int64", -1));
    default:
      return scalar_of(dtype, -1);
  }
}

// The first of equal keys, with its value: NaN equals NaN.
template <class K>
std::vector<std::int64_t> first_of_equal(std::span<const K> keys) {
  std::vector<std::int64_t> kept;
  std::set<K> seen;
  bool nan_seen = false;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    bool fresh = false;
    if constexpr (std::is_floating_point_v<K>) {
      if (std::isnan(keys[i]))
        fresh = !std::exchange(nan_seen, true);
      else
        fresh = seen.insert(keys[i]).second;
    } else {
      fresh = seen.insert(keys[i]).second;
    }
    if (fresh) kept.push_back(static_cast<std::int64_t>(i));
  }
  return kept;
}

using LookupKeys = Types<std::string, std::int32_t, std::int64_t, float, double>;

bool is_lookup_key(DType dtype) {
  return dtype == DType::string || dtype == DType::i32 || dtype == DType::i64 || dtype == DType::f32 ||
         dtype == DType::f64;
}

Output lookup(OnnxNode& node, Output x, Tensor keys, const Tensor& values, const Tensor& otherwise) {
  troupe::Graph& graph = node.graph();
  if (keys.num_elements() != values.num_elements())
    invalid_argument("has {} keys, but {} values", keys.num_elements(), values.num_elements());
  if (otherwise.dtype() != values.dtype())
    invalid_argument("the default is {}, but the values are {}", name(otherwise.dtype()), name(values.dtype()));
  if (keys.dtype() != x.dtype())
    invalid_argument("the keys are {}, but the input is {}", name(keys.dtype()), name(x.dtype()));
  if (!is_lookup_key(keys.dtype())) fail(Code::unimplemented, "keys of {} are not supported", name(keys.dtype()));
  const Integers kept =
      dispatch(LookupKeys{}, keys.dtype(), [&]<class K>() { return first_of_equal(keys.values<K>()); });
  Output from = constant(graph, keys), to = constant(graph, values);
  if (std::ssize(kept) != keys.num_elements()) {
    const Output places = constant(graph, integers_tensor(kept));
    from = gather(from, places);
    to = gather(to, places);
  }
  return table_lookup(x, from, to, constant(graph, otherwise));
}

void label_encoder_node(OnnxNode& node) {
  const Output x = node.in(0);
  if (node.has_attr("classes_strings")) {  // version 1: between strings and their positions
    const Tensor words = strings_tensor(node.strings("classes_strings"));
    Integers positions(static_cast<std::size_t>(words.num_elements()));
    for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<std::int64_t>(i);
    const Tensor places = integers_tensor(positions);
    const bool encodes = x.dtype() == DType::string;
    return node.set(encodes ? lookup(node, x, words, places, default_of(node, DType::i64))
                            : lookup(node, x, places, words, default_of(node, DType::string)));
  }
  const Tensor keys = list_attr(node, "keys"), values = list_attr(node, "values");
  if (!keys.valid() || !values.valid()) invalid_argument("needs attributes for its keys and values");
  node.set(lookup(node, x, keys, values, default_of(node, values.dtype())));
}

void category_mapper_node(OnnxNode& node) {
  const Output x = node.in(0);
  const Tensor words = strings_tensor(node.strings("cats_strings"));
  const Tensor integers = integers_tensor(node.integers("cats_int64s"));
  node.set(x.dtype() == DType::string ? lookup(node, x, words, integers, default_of(node, DType::i64))
                                      : lookup(node, x, integers, words, default_of(node, DType::string)));
}

void one_hot_encoder_node(OnnxNode& node) {
  Output x = node.in(0);
  const Tensor categories = class_labels(node, "cats_int64s", "cats_strings");
  if (categories.dtype() == DType::i64 && x.dtype() != DType::string) x = cast(x, DType::i64);
  if (categories.dtype() != x.dtype())
    invalid_argument("the categories are {}, but the input is {}", name(categories.dtype()), name(x.dtype()));
  const std::int64_t count = categories.num_elements();
  Output place = table_find(x, constant(node.graph(), categories));
  Integers places(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<std::int64_t>(i);
  // Other values: a place behind the last, or an error, which gather() raises for -1.
  place = node.integer("zeros", 1) != 0
              ? select(less(place, scalar_like(place, 0)), scalar_like(place, static_cast<double>(count)), place)
              : gather(constant(node.graph(), integers_tensor(places)), place, {.name = "known_category"});
  node.set(one_hot(place, count));
}

constexpr OnnxOp kEncoderOps[] = {
    {"CategoryMapper", category_mapper_node},
    {"LabelEncoder", label_encoder_node},
    {"OneHotEncoder", one_hot_encoder_node},
};

}  // namespace

std::span<const OnnxOp> onnx_encoder_ops() { return kEncoderOps; }

}  // namespace troupe
