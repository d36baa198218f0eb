// Node attributes: named values fixed when the graph is built.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <troupe/messages/tensor.hpp>

namespace troupe {

// The name of a function in the graph's library, as an attribute (branches of If).
struct FunctionName {
  std::string value{};
  bool operator==(const FunctionName&) const = default;
};

enum class AttrType : std::uint8_t {
  integer,
  real,
  boolean,
  string,
  dtype,
  shape,
  tensor,
  function,
  integers,
  reals,
  strings,
  dtypes
};

// The alternatives are in the order of AttrType.
using AttrVariant =
    std::variant<std::int64_t, double, bool, std::string, DType, Shape, Tensor, FunctionName, std::vector<std::int64_t>,
                 std::vector<double>, std::vector<std::string>, std::vector<DType>>;

// A variant whose copy, move and destructor are compiled once, in attributes.cpp, instead of in each source that
// includes this header.
class AttrValue : public AttrVariant {
 public:
  template <class T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, AttrValue> && std::is_constructible_v<AttrVariant, T>)
      AttrValue(T&& value)
      : AttrVariant(std::forward<T>(value)) {}
  AttrValue();
  AttrValue(const AttrValue& other);
  AttrValue(AttrValue&& other) noexcept;
  AttrValue& operator=(const AttrValue& other);
  AttrValue& operator=(AttrValue&& other) noexcept;
  ~AttrValue();
};

inline AttrType type_of(const AttrValue& value) { return static_cast<AttrType>(value.index()); }
std::string_view name(AttrType type);
std::string to_string(const AttrValue& value);
bool equal(const AttrValue& a, const AttrValue& b);  // compares tensors by their bytes

// Copies share the values until one of them is changed: graphs are copied by each pass, attributes hardly change.
class Attributes {
 public:
  using Map = std::map<std::string, AttrValue, std::less<>>;

  Attributes();
  Attributes(std::initializer_list<Map::value_type> values);
  Attributes(const Attributes& other);
  Attributes(Attributes&& other) noexcept;
  Attributes& operator=(const Attributes& other);
  Attributes& operator=(Attributes&& other) noexcept;
  ~Attributes();

  bool has(std::string_view name) const;
  void set(std::string name, AttrValue value);
  void erase(std::string_view name);
  const Map& all() const;

  // Throws not_found or, for another type, invalid_argument.
  template <class T>
  const T& get(std::string_view name) const {
    const AttrValue& value = at(name);
    if (const T* typed = std::get_if<T>(&value)) return *typed;
    wrong_type(name, value);
  }
  std::int64_t integer(std::string_view name) const { return get<std::int64_t>(name); }
  double real(std::string_view name) const { return get<double>(name); }
  bool boolean(std::string_view name) const { return get<bool>(name); }
  const std::string& string(std::string_view name) const { return get<std::string>(name); }
  DType dtype(std::string_view name) const { return get<DType>(name); }
  const Shape& shape(std::string_view name) const { return get<Shape>(name); }
  const Tensor& tensor(std::string_view name) const { return get<Tensor>(name); }
  const std::vector<std::int64_t>& integers(std::string_view name) const {
    return get<std::vector<std::int64_t>>(name);
  }

 private:
  const AttrValue& at(std::string_view name) const;
  [[noreturn]] static void wrong_type(std::string_view name, const AttrValue& value);

  Map& own_values();

  std::shared_ptr<Map> values_;  // null: none
};

}  // namespace troupe
