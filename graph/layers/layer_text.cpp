#include "troupe/graph/layers/layer_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include <troupe/graph/formats/text_call.hpp>
#include <troupe/graph/layers/core.hpp>
#include <troupe/graph/layers/standard_layer.hpp>
#include <troupe/messages/overloaded.hpp>

namespace troupe {
namespace {

LayerPtr layer_of(const TextValue& value, std::string_view what);

// A call without arguments, or text: both are words.
std::string word_of(const TextValue& value, std::string_view what) {
  if (const auto* text = std::get_if<std::string>(&value.held)) return *text;
  if (const auto* call = std::get_if<std::shared_ptr<const TextCall>>(&value.held))
    if ((*call)->arguments.empty()) return (*call)->name;
  invalid_argument("{} must be text, not {}", what, to_string(value));
}

template <class T>
std::vector<T> typed_list(const TextValue& value, std::string_view what) {
  TextCall call{"list", {{"values", value}}};
  if (!std::holds_alternative<TextValue::List>(value.held)) call.arguments[0].second = TextValue::List{value};
  std::vector<T> out;
  TextArguments arguments(call);
  try {
    arguments.take("values", out);
  } catch (const Error&) {
    invalid_argument("{} must be a list of another type than {}", what, to_string(value));
  }
  return out;
}

// The value as the type of the kind's default.
AttrValue option_of(const TextValue& value, const AttrValue& like, const std::string& what) {
  const auto wrong = [&](std::string_view wanted) -> AttrValue {
    invalid_argument("{} must be {}, not {}", what, wanted, to_string(value));
  };
  switch (type_of(like)) {
    case AttrType::integer:
      if (const auto* v = std::get_if<std::int64_t>(&value.held)) return *v;
      return wrong("an integer");
    case AttrType::real:
      if (const auto* v = std::get_if<std::int64_t>(&value.held)) return static_cast<double>(*v);
      if (const auto* v = std::get_if<double>(&value.held)) return *v;
      return wrong("a number");
    case AttrType::boolean:
      if (const auto* v = std::get_if<bool>(&value.held)) return *v;
      return wrong("true or false");
    case AttrType::string:
      return word_of(value, what);
    case AttrType::integers:
      return typed_list<std::int64_t>(value, what);
    case AttrType::reals:
      return typed_list<double>(value, what);
    case AttrType::strings:
      return typed_list<std::string>(value, what);
    default:
      return wrong("given in C++");
  }
}

TextValue text_value_of(const AttrValue& value) {
  const Overloaded cases{[](const FunctionName& v) { return TextValue(v.value); },
                         [](DType v) { return TextValue(std::string(name(v))); },
                         [](const Shape& v) { return TextValue(v.to_string()); },
                         [](const Tensor& v) { return TextValue(v.to_string()); },
                         [](const std::vector<DType>&) { return TextValue(TextValue::List{}); },
                         [](const auto& v) { return TextValue(v); }};
  return std::visit(cases, static_cast<const AttrVariant&>(value));
}

const TextCall& call_of(const TextValue& value, std::string_view what) {
  if (const auto* call = std::get_if<std::shared_ptr<const TextCall>>(&value.held)) return **call;
  invalid_argument("{} must be a call, like zeros or random_normal(stddev=0.1), not {}", what, to_string(value));
}

// All initializers with their defaults.
std::vector<Initializer> default_initializers() {
  using namespace initializers;
  return {zeros(),         ones(),      constant(0),    glorot_uniform(), he_uniform(),    lecun_uniform(),
          glorot_normal(), he_normal(), lecun_normal(), random_uniform(), random_normal(), truncated_normal(),
          orthogonal(),    identity()};
}

Initializer initializer_of(const TextCall& call) {
  for (const Initializer& known : default_initializers()) {
    if (known.kind() != call.name) continue;
    Attributes options;
    TextArguments arguments(call);
    for (const auto& [name, value] : known.options().all()) {
      const TextValue* given = arguments.find(name);
      options.set(name, given ? option_of(*given, value, fmt::format("{}: '{}'", call.name, name)) : value);
    }
    arguments.end();
    return Initializer(call.name, std::move(options));
  }
  fail(Code::not_found, "there is no initializer '{}'", call.name);
}

Constraint constraint_of(const TextCall& call) {
  TextArguments arguments(call);
  Constraint out;
  if (call.name == "max_norm") {
    out = constraints::max_norm();
    arguments.take("limit", out.high);
  } else if (call.name == "min_max_norm") {
    out = constraints::min_max_norm();
    arguments.take("low", out.low);
    arguments.take("high", out.high);
    arguments.take("rate", out.rate);
  } else if (call.name == "unit_norm") {
    out = constraints::unit_norm();
  } else if (call.name == "non_negative") {
    out = constraints::non_negative();
  } else {
    fail(Code::not_found, "there is no constraint '{}': use max_norm, min_max_norm, unit_norm or non_negative",
         call.name);
  }
  if (out.kind != Constraint::Kind::non_negative) arguments.take("axes", out.axes);
  arguments.end();
  return out;
}

WeightOptions weight_options_of(const TextValue& value, const std::string& what) {
  const TextCall& call = call_of(value, what);
  if (call.name != "weight") return {.initializer = initializer_of(call)};
  WeightOptions out;
  TextArguments arguments(call);
  if (const TextValue* given = arguments.find("initializer"))
    out.initializer = initializer_of(call_of(*given, what + ": 'initializer'"));
  arguments.take("l1", out.regularizer.l1);
  arguments.take("l2", out.regularizer.l2);
  if (const TextValue* given = arguments.find("constraint"))
    out.constraint = constraint_of(call_of(*given, what + ": 'constraint'"));
  arguments.take("on_demand", out.on_demand);
  arguments.end();
  return out;
}

LayerPtr standard_layer_of(const TextCall& call, const LayerKind& kind) {
  LayerConfig config{.kind = kind.name};
  TextArguments arguments(call);
  const auto what = [&](const std::string& name) { return fmt::format("{}: '{}'", kind.name, name); };
  for (const auto& [name, value] : kind.options.all())
    if (const TextValue* given = arguments.find(name)) config.options.set(name, option_of(*given, value, what(name)));
  for (const std::string& name : kind.weights)
    if (const TextValue* given = arguments.find(name)) config.weights[name] = weight_options_of(*given, what(name));
  for (const std::string& name : kind.layers)
    if (const TextValue* given = arguments.find(name)) config.layers.emplace(name, layer_of(*given, what(name)));
  std::string own_name;
  if (!kind.options.has("name")) arguments.take("name", own_name);
  arguments.end();
  const LayerPtr out = standard_layer(std::move(config));
  return own_name.empty() ? out : out.named(own_name);
}

LayerPtr layer_of_call(const TextCall& call) {
  if (const LayerKind* kind = find_layer_kind(call.name)) return standard_layer_of(call, *kind);
  if (call.name == "frozen") {
    TextArguments arguments(call);
    const TextValue* inner = arguments.find("layer");
    if (!inner) invalid_argument("frozen: the layer is missing");
    arguments.end();
    return layers::frozen(layer_of(*inner, "frozen: 'layer'"));
  }
  fail(Code::not_found, "there is no layer of kind '{}'; there are: {}", call.name, fmt::join(layer_kinds(), ", "));
}

LayerPtr layer_of(const TextValue& value, std::string_view what) {
  if (const auto* call = std::get_if<std::shared_ptr<const TextCall>>(&value.held)) return layer_of_call(**call);
  if (const auto* list = std::get_if<TextValue::List>(&value.held)) {
    Sequential out;
    for (const TextValue& one : *list) out.add(layer_of(one, what));
    return out;
  }
  invalid_argument("{} must be a layer or a list of layers, not {}", what, to_string(value));
}

}  // namespace

LayerPtr parse_layer(std::string_view text) {
  try {
    return layer_of_call(parse_call(text));
  } catch (const Error& error) {
    throw error.within(fmt::format("layer '{}'", text.substr(0, 60)));
  }
}

std::vector<std::string> layer_kinds() {
  std::vector<std::string> out = {"frozen"};
  for (const LayerKind* kind : all_layer_kinds()) out.push_back(kind->name);
  std::ranges::sort(out);
  return out;
}

std::string layer_signature(std::string_view kind) {
  if (kind == "frozen") return "frozen(layer)";
  const LayerKind* const known = find_layer_kind(kind);
  if (!known)
    fail(Code::not_found, "there is no layer of kind '{}'; there are: {}", kind, fmt::join(layer_kinds(), ", "));
  std::vector<std::string> options = known->layers;
  for (const auto& [name, value] : known->options.all())
    options.push_back(fmt::format("{}={}", name, to_string(text_value_of(value))));
  std::string out = fmt::format("{}({})", kind, fmt::join(options, ", "));
  if (!known->weights.empty()) out += fmt::format(", weights {}", fmt::join(known->weights, ", "));
  return out;
}

}  // namespace troupe
