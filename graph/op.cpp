#include "troupe/graph/op.hpp"

#include <algorithm>

#include <troupe/graph/loaded_ops.hpp>

namespace troupe {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t next = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = std::exchange(row[j], next);
    }
  }
  return row[b.size()];
}

void declare(OpDef& def, const std::string& attr, AttrType type) {
  if (!attr.empty() && !def.find_attr(attr)) def.attrs.push_back({attr, type, std::nullopt, {}});
}

}  // namespace

OpDef::OpDef() = default;
OpDef::OpDef(const OpDef& other) = default;
OpDef::OpDef(OpDef&& other) noexcept = default;
OpDef& OpDef::operator=(const OpDef& other) = default;
OpDef& OpDef::operator=(OpDef&& other) noexcept = default;
OpDef::~OpDef() = default;

const AttrDef* OpDef::find_attr(std::string_view wanted) const {
  const auto it = std::ranges::find(attrs, wanted, &AttrDef::name);
  return it == attrs.end() ? nullptr : &*it;
}

Op& Op::input(std::string name, std::string type_attr) {
  def_.inputs.push_back({.name = std::move(name), .type_attr = std::move(type_attr)});
  return *this;
}
Op& Op::input(std::string name, DType fixed) {
  def_.inputs.push_back({.name = std::move(name), .fixed = fixed});
  return *this;
}
Op& Op::input_list(std::string name, std::string type_attr, std::string count_attr) {
  declare(def_, count_attr, AttrType::integer);
  def_.inputs.push_back(
      {.name = std::move(name), .type_attr = std::move(type_attr), .count_attr = std::move(count_attr)});
  return *this;
}
Op& Op::input_list(std::string name, DType fixed, std::string count_attr) {
  declare(def_, count_attr, AttrType::integer);
  def_.inputs.push_back({.name = std::move(name), .fixed = fixed, .count_attr = std::move(count_attr)});
  return *this;
}
Op& Op::input_types(std::string name, std::string types_attr) {
  declare(def_, types_attr, AttrType::dtypes);
  def_.inputs.push_back({.name = std::move(name), .types_attr = std::move(types_attr)});
  return *this;
}
Op& Op::input_shape(std::string name, std::string type_attr) {
  def_.inputs.push_back({.name = std::move(name), .type_attr = std::move(type_attr), .shape_only = true});
  return *this;
}
Op& Op::output(std::string name, std::string type_attr) {
  def_.outputs.push_back({.name = std::move(name), .type_attr = std::move(type_attr)});
  return *this;
}
Op& Op::output(std::string name, DType fixed) {
  def_.outputs.push_back({.name = std::move(name), .fixed = fixed});
  return *this;
}
Op& Op::output_list(std::string name, std::string type_attr, std::string count_attr) {
  declare(def_, count_attr, AttrType::integer);
  def_.outputs.push_back(
      {.name = std::move(name), .type_attr = std::move(type_attr), .count_attr = std::move(count_attr)});
  return *this;
}
Op& Op::output_types(std::string name, std::string types_attr) {
  declare(def_, types_attr, AttrType::dtypes);
  def_.outputs.push_back({.name = std::move(name), .types_attr = std::move(types_attr)});
  return *this;
}
Op& Op::type(std::string name, std::vector<DType> allowed, std::optional<DType> default_value) {
  if (def_.kernel_type.empty()) def_.kernel_type = name;
  AttrDef attr{std::move(name), AttrType::dtype, std::nullopt, std::move(allowed)};
  if (default_value) attr.default_value = *default_value;
  def_.attrs.push_back(std::move(attr));
  return *this;
}
Op& Op::kernel_type(std::string attr) {
  def_.kernel_type = std::move(attr);
  return *this;
}
Op& Op::attr(std::string name, AttrType required) {
  def_.attrs.push_back({std::move(name), required, std::nullopt, {}});
  return *this;
}
Op& Op::attr(std::string name, AttrValue default_value) {
  const AttrType type = type_of(default_value);
  def_.attrs.push_back({std::move(name), type, std::move(default_value), {}});
  return *this;
}
Op& Op::shape(ShapeFn fn) {
  def_.shape = std::move(fn);
  return *this;
}
Op& Op::value(ValueFn fn) {
  def_.value = std::move(fn);
  return *this;
}

Op& Op::gradient(GradientFn fn) {
  def_.gradient = std::move(fn);
  return *this;
}
Op& Op::no_gradient() {
  def_.no_gradient = true;
  return *this;
}
Op& Op::role(OpRole role) {
  def_.role = role;
  return *this;
}
Op& Op::precision(PrecisionClass precision) {
  def_.precision = precision;
  return *this;
}
Op& Op::stateful() {
  def_.stateful = true;
  return *this;
}
Op& Op::reads_only() {
  def_.reads_only = true;
  return *this;
}
Op& Op::has_effects() {
  def_.has_effects = def_.stateful = true;
  return *this;
}
Op& Op::forwards() {
  def_.forwards = true;
  return *this;
}
Op& Op::update_rule(std::string many) {
  def_.update_rule = true;
  def_.many = std::move(many);
  return *this;
}

void OpRegistry::add(const Op& op) {
  OpDef def = op.build();
  for (const auto* args : {&def.inputs, &def.outputs})
    for (const ArgDef& arg : *args)
      if (!arg.type_attr.empty() && !def.find_attr(arg.type_attr))
        invalid_argument("op {}: '{}' uses type attribute '{}', which is not declared", def.name, arg.name,
                         arg.type_attr);
  const std::string name = def.name;
  if (!ops_.emplace(name, std::move(def)).second) fail(Code::already_exists, "op {} is registered twice", name);
}

const OpDef* OpRegistry::find(std::string_view name) const {
  const auto it = ops_.find(name);
  if (it != ops_.end()) return &it->second;
  const LoadedOps* const library = library_of(name);
  return library ? &library->ops.find(name)->second : nullptr;
}

const OpDef& OpRegistry::get(std::string_view name) const {
  if (const OpDef* def = find(name)) return *def;
  std::string similar;
  for (const std::string& known : names())
    if (edit_distance(known, name) <= 2) similar += (similar.empty() ? "; did you mean " : " or ") + known;
  fail(Code::not_found, "there is no op '{}'{}", name, similar);
}

std::vector<std::string> OpRegistry::names() const {
  std::vector<std::string> out;
  for (const auto& [name, def] : ops_) out.push_back(name);
  for (const LoadedOps* library : loaded_ops())
    for (const auto& [name, def] : library->ops) out.push_back(name);
  return out;
}

}  // namespace troupe
