// Options as text: calls with named arguments, which may be calls.
//
//   adamw(learning_rate=cosine(rate=0.01, end=0, steps=1000), beta1=0.9, weight_decay=decay(rate=0.1, except=["bias"]))
//
//   call    NAME or NAME(NAME=VALUE, ...)         NAME: letters, digits and _, a letter first
//   value   true, false, a number, "text", a call, or a list [VALUE, ...]
//
// Text has the escapes \" \\ \n \t. Numbers without point and exponent are integers. Spaces between these do not
// matter. What to_string() writes, parse_call() reads with the same bits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace troupe {

struct TextCall;

struct TextValue {
  using List = std::vector<TextValue>;
  std::variant<std::int64_t, double, bool, std::string, List, std::shared_ptr<const TextCall>> held;

  TextValue(std::int64_t value) : held(value) {}
  TextValue(double value) : held(value) {}
  TextValue(bool value) : held(value) {}
  TextValue(std::string value) : held(std::move(value)) {}
  TextValue(const char* value) : held(std::string(value)) {}
  TextValue(List value) : held(std::move(value)) {}
  TextValue(TextCall value);
  template <class T>
  TextValue(const std::vector<T>& values) : held(List(values.begin(), values.end())) {}
};

struct TextCall {
  std::string name{};
  std::vector<std::pair<std::string, TextValue>> arguments{};

  void add(std::string argument, TextValue value) { arguments.emplace_back(std::move(argument), std::move(value)); }
};

std::string to_string(const TextCall& call);
std::string to_string(const TextValue& value);

// Throws invalid_argument for text that is no call, names the same argument twice, or nests deeper than 16: "column 14:
// expected ...".
TextCall parse_call(std::string_view text);

// Hands out the arguments of a call, each once. Errors are invalid_argument and name the call and the argument.
class TextArguments {
 public:
  explicit TextArguments(const TextCall& call) : call_(call), taken_(call.arguments.size()) {}

  // Null if there is none of this name.
  const TextValue* find(std::string_view name);
  // Sets `to` if there is an argument of this name; throws if it is of another type. Integers are numbers, too.
  void take(std::string_view name, double& to);
  void take(std::string_view name, std::int64_t& to);
  void take(std::string_view name, bool& to);
  void take(std::string_view name, std::string& to);
  void take(std::string_view name, std::vector<double>& to);
  void take(std::string_view name, std::vector<std::int64_t>& to);
  void take(std::string_view name, std::vector<std::string>& to);
  // Throws for an argument that nobody took.
  void end() const;

 private:
  template <class T>
  void take_as(std::string_view name, T& to);

  const TextCall& call_;
  std::vector<bool> taken_;
};

}  // namespace troupe
