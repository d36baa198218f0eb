// Graph::dump: the writer of the text format.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <troupe/graph/graph.hpp>
#include <troupe/graph/rewrite.hpp>

namespace troupe {
namespace {

bool is_plain(std::string_view text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_./-:*").find(c) != std::string_view::npos;
  };
  return !text.empty() && std::ranges::all_of(text, plain);
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out.append(1, '\\').append(1, c);
    else if (c == '\n')
      out += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out + "\"";
}

// Names of devices, functions and attributes may be any text; quotes them if necessary.
std::string word(std::string_view text) { return is_plain(text) ? std::string(text) : quoted(text); }

template <class T>
std::string number(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return quoted(value);
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_integral_v<T>) {
    return fmt::format("{}", static_cast<std::int64_t>(value));
  } else {
    const auto wide = static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(value);
    if (!std::isnan(wide)) return fmt::format("{}", wide);
    const auto bits = [](const T& v) {
      if constexpr (sizeof(T) == 2)
        return std::bit_cast<std::uint16_t>(v);
      else
        return std::bit_cast<std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>>(v);
    };
    const auto usual = T(std::numeric_limits<std::remove_const_t<decltype(wide)>>::quiet_NaN());
    return bits(value) == bits(usual) ? "nan" : fmt::format("nan(0x{:x})", bits(value));
  }
}

// Adds a point if needed, to tell it from an integer.
std::string real(double value) {
  std::string text = number(value);
  return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
}

template <class T>
void append_elements(std::string& out, const Tensor& tensor, std::int64_t count) {
  const T* values = tensor.data<T>();
  for (std::int64_t i = 0; i < count; ++i) out.append(1, ' ').append(number(values[i]));
}

void append_elements(std::string& out, const Tensor& t, std::int64_t count) {
  if (is_data(t.dtype())) dispatch(ElementTypes{}, t.dtype(), [&]<class T>() { append_elements<T>(out, t, count); });
}

std::string text_of(const Tensor& tensor, std::int64_t max_values) {
  if (!is_data(tensor.dtype()) || !tensor.space().on_host()) return tensor.to_string();
  std::string out = fmt::format("{}{} =", name(tensor.dtype()), tensor.shape().to_string());
  const std::int64_t shown = std::min(max_values, tensor.num_elements());
  append_elements(out, tensor, shown);
  return shown < tensor.num_elements() ? out + " ..." : out;
}

template <class Values, class Print>
std::string list(const Values& values, std::string_view separator, Print print) {
  std::string out;
  for (const auto& v : values) out.append(out.empty() ? "" : separator).append(print(v));
  return "[" + out + "]";
}

std::string text_of(const AttrValue& value, std::int64_t max_values) {
  return std::visit(
      [&](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, Tensor>)
          return text_of(v, max_values);
        else if constexpr (std::is_same_v<T, FunctionName>)
          return "@" + word(v.value);
        else if constexpr (std::is_same_v<T, std::string>)
          return quoted(v);
        else if constexpr (std::is_same_v<T, double>)
          return real(v);
        else if constexpr (std::is_same_v<T, std::vector<double>>)
          return list(v, ", ", real);
        else if constexpr (std::is_same_v<T, std::vector<std::string>>)
          return list(v, ", ", quoted);
        else
          return to_string(value);
      },
      value);
}

// Lists and shapes look alike: states the type where the op does not define the attribute.
std::string type_prefix(const OpDef& op, const std::string& key, const AttrValue& value) {
  const AttrType type = type_of(value);
  const bool list = type == AttrType::shape || type >= AttrType::integers;
  return list && !op.find_attr(key) ? fmt::format("{}:", name(type)) : "";
}

std::string line_of(const Graph& graph, const Node& node, std::int64_t max_values) {
  std::string out = node.name + " = " + node.op->name + "(";
  std::string separator;
  for (const Endpoint& e : node.inputs) {
    out += separator + output_name(graph, e);
    separator = ", ";
  }
  for (const int c : node.controls) {
    out += separator + "^" + graph.node(c).name;
    separator = ", ";
  }
  out += ")";
  for (const auto& [key, value] : node.attributes.all())
    out += fmt::format(" {}={}{}", word(key), type_prefix(*node.op, key, value), text_of(value, max_values));
  for (std::size_t i = 0; i < node.output_types.size(); ++i)
    out += fmt::format("{}{}{}", i == 0 ? " -> " : ", ", name(node.output_types[i]), node.output_shapes[i].to_string());
  if (!node.device.empty()) out += " @ " + word(node.device);
  if (!node.colocate_with.empty()) out += " with " + word(node.colocate_with);
  return out + "\n";
}

// Functions of a graph and of the bodies of its functions, each once.
void collect_functions(const Graph& graph, std::map<std::string_view, const Function*>& found) {
  for (const auto& [name, function] : graph.functions())
    if (found.emplace(name, &function).second) collect_functions(*function.body, found);
}

}  // namespace

std::string Graph::dump(std::int64_t max_values) const {
  std::string text;
  for (const auto& n : nodes_) text += line_of(*this, *n, max_values);
  std::map<std::string_view, const Function*> functions;
  collect_functions(*this, functions);
  for (const auto& [name, function] : functions) {
    const Graph& body = *function->body;
    text += "function " + word(name);
    for (std::size_t i = 0; i < function->results.size(); ++i)
      text += (i == 0 ? " returns " : ", ") + output_name(body, function->results[i]);
    text += " {\n";
    for (int id = 0; id < body.size(); ++id) text += "  " + line_of(body, body.node(id), max_values);
    text += "}\n";
  }
  return text;
}

}  // namespace troupe
