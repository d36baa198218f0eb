#include "troupe/graph/op_signature.hpp"

#include <set>

namespace troupe {
namespace {

std::string text_of(const ArgDef& arg) {
  if (!arg.types_attr.empty()) return fmt::format("{}...: {}", arg.name, arg.types_attr);
  const std::string type = arg.fixed != DType::invalid ? std::string(name(arg.fixed)) : arg.type_attr;
  return fmt::format("{}{}: {}", arg.name, arg.count_attr.empty() ? "" : "...", type);
}

std::string text_of(const std::vector<ArgDef>& args) {
  std::string out;
  for (const ArgDef& arg : args) out += (out.empty() ? "" : ", ") + text_of(arg);
  return out;
}

std::string default_of(const AttrValue& value) {
  if (type_of(value) == AttrType::string) return fmt::format("'{}'", std::get<std::string>(value));
  return to_string(value);
}

}  // namespace

std::string signature_of(const OpDef& op) {
  std::set<std::string, std::less<>> deduced;
  for (const ArgDef& arg : op.inputs) deduced.insert({arg.type_attr, arg.count_attr, arg.types_attr});
  std::string out = fmt::format("{}({})", op.name, text_of(op.inputs));
  if (!op.outputs.empty()) out += fmt::format(" -> ({})", text_of(op.outputs));
  for (const AttrDef& attr : op.attrs) {
    if (deduced.contains(attr.name)) continue;
    out += fmt::format(", {}: {}", attr.name, name(attr.type));
    if (attr.default_value) out += " = " + default_of(*attr.default_value);
  }
  return out;
}

}  // namespace troupe
