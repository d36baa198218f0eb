#include "troupe/messages/attributes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>

namespace troupe {

AttrValue::AttrValue() = default;
AttrValue::AttrValue(const AttrValue& other) = default;
AttrValue::AttrValue(AttrValue&& other) noexcept = default;
AttrValue& AttrValue::operator=(const AttrValue& other) = default;
AttrValue& AttrValue::operator=(AttrValue&& other) noexcept = default;
AttrValue::~AttrValue() = default;

std::string_view name(AttrType type) {
  switch (type) {
    case AttrType::integer:
      return "integer";
    case AttrType::real:
      return "real";
    case AttrType::boolean:
      return "boolean";
    case AttrType::string:
      return "string";
    case AttrType::dtype:
      return "dtype";
    case AttrType::shape:
      return "shape";
    case AttrType::tensor:
      return "tensor";
    case AttrType::function:
      return "function";
    case AttrType::integers:
      return "integers";
    case AttrType::reals:
      return "reals";
    case AttrType::strings:
      return "strings";
    case AttrType::dtypes:
      return "dtypes";
  }
  return "unknown";
}

std::string to_string(const AttrValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, DType>) {
          return std::string(name(v));
        } else if constexpr (std::is_same_v<T, Shape> || std::is_same_v<T, Tensor>) {
          return v.to_string();
        } else if constexpr (std::is_same_v<T, FunctionName>) {
          return "@" + v.value;
        } else if constexpr (std::is_same_v<T, std::vector<DType>>) {
          std::string text;
          for (DType d : v) text += fmt::format("{}{}", text.empty() ? "" : ",", name(d));
          return "[" + text + "]";
        } else {
          return fmt::format("{}", v);
        }
      },
      value);
}

bool equal(const AttrValue& a, const AttrValue& b) {
  if (a.index() != b.index()) return false;
  if (const auto* t = std::get_if<Tensor>(&a)) return bitwise_equal(*t, std::get<Tensor>(b));
  return std::visit(
      [&b](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, Tensor>)
          return false;
        else
          return v == std::get<T>(b);
      },
      a);
}

Attributes::Attributes() = default;
Attributes::Attributes(std::initializer_list<Map::value_type> values) : values_(std::make_shared<Map>(values)) {}
Attributes::Attributes(const Attributes& other) = default;
Attributes::Attributes(Attributes&& other) noexcept = default;
Attributes& Attributes::operator=(const Attributes& other) = default;
Attributes& Attributes::operator=(Attributes&& other) noexcept = default;
Attributes::~Attributes() = default;

const Attributes::Map& Attributes::all() const {
  static const Map kNone;
  return values_ ? *values_ : kNone;
}

Attributes::Map& Attributes::own_values() {
  if (!values_)
    values_ = std::make_shared<Map>();
  else if (values_.use_count() > 1)
    values_ = std::make_shared<Map>(*values_);
  else
    std::atomic_thread_fence(std::memory_order_acquire);  // after what others read that shared them
  return *values_;
}

bool Attributes::has(std::string_view name) const { return all().contains(name); }
void Attributes::set(std::string name, AttrValue value) {
  own_values().insert_or_assign(std::move(name), std::move(value));
}
void Attributes::erase(std::string_view name) {
  if (!has(name)) return;
  Map& own = own_values();
  own.erase(own.find(name));
}

const AttrValue& Attributes::at(std::string_view name) const {
  const auto it = all().find(name);
  if (it == all().end()) fail(Code::not_found, "no attribute '{}'", name);
  return it->second;
}

void Attributes::wrong_type(std::string_view attr, const AttrValue& value) {
  invalid_argument("attribute '{}' is of type {}", attr, name(type_of(value)));
}

}  // namespace troupe
