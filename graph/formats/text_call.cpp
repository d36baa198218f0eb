#include "troupe/graph/formats/text_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>

#include <troupe/messages/error.hpp>
#include <troupe/messages/overloaded.hpp>

namespace troupe {
namespace {

constexpr int kMaxNestedCalls = 16;

bool begins_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool in_name(char c) { return begins_name(c) || std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::string quoted_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else
      out += c;
  }
  return out += '"';
}

class CallParser {
 public:
  explicit CallParser(std::string_view text) : text_(text) {}

  TextCall whole() {
    TextCall out = call(word(), 0);
    space();
    if (at_ < text_.size()) expected("the end");
    return out;
  }

 private:
  [[noreturn]] void expected(std::string_view what) const {
    const std::string found =
        at_ < text_.size() ? fmt::format("'{}'", text_.substr(at_, std::min<std::size_t>(16, text_.size() - at_)))
                           : "the end";
    invalid_argument("column {}: expected {}, found {}", at_ + 1, what, found);
  }
  void space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }
  // Passes over `c`, if it is next.
  bool next_is(char c) {
    space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string word() {
    space();
    const std::size_t begin = at_;
    if (at_ >= text_.size() || !begins_name(text_[at_])) expected("a name");
    while (at_ < text_.size() && in_name(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }
  // `read` reads one of those between commas, up to `end`.
  template <class Read>
  void separated(char end, Read read) {
    if (next_is(end)) return;
    do read();
    while (next_is(','));
    if (!next_is(end)) expected(fmt::format("',' or '{}'", end));
  }
  TextCall call(std::string name, int depth) {
    if (depth > kMaxNestedCalls) invalid_argument("'{}' nests deeper than {}", name, kMaxNestedCalls);
    TextCall out{std::move(name), {}};
    if (next_is('('))
      separated(')', [&] {
        const std::size_t begin = at_;
        std::string argument = word();
        if (!next_is('=')) expected(fmt::format("'=' and the value of {}", argument));
        for (const auto& [known, unused] : out.arguments)
          if (known == argument) invalid_argument("column {}: {} has '{}' twice", begin + 1, out.name, argument);
        out.add(std::move(argument), value(depth + 1));
      });
    return out;
  }
  TextValue value(int depth) {
    if (depth > kMaxNestedCalls) invalid_argument("the text nests deeper than {}", kMaxNestedCalls);
    space();
    if (at_ >= text_.size()) expected("a value");
    if (text_[at_] == '"') return text();
    if (next_is('[')) {
      TextValue::List out;
      separated(']', [&] { out.push_back(value(depth + 1)); });
      return out;
    }
    if (!begins_name(text_[at_])) return number();
    std::string name = word();
    if (name == "true" || name == "false") return name == "true";
    return call(std::move(name), depth);
  }
  std::string text() {
    std::string out;
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] != '\\') {
        out += text_[at_];
        continue;
      }
      const char escaped = ++at_ < text_.size() ? text_[at_] : '\0';
      if (escaped != '"' && escaped != '\\' && escaped != 'n' && escaped != 't') expected(R"(one of \" \\ \n \t)");
      out += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped;
    }
    if (at_ >= text_.size()) expected("'\"'");
    ++at_;
    return out;
  }
  TextValue number() {
    const char* const begin = text_.data() + at_;
    const char* const end = text_.data() + text_.size();
    const char* const last = std::find_if(begin, end, [](char c) { return !in_name(c) && !std::strchr("+-.", c); });
    if (std::int64_t whole = 0; std::from_chars(begin, last, whole).ptr == last && last != begin) {
      if (std::from_chars(begin, last, whole).ec != std::errc()) expected("an integer of 64 bits");
      at_ += static_cast<std::size_t>(last - begin);
      return whole;
    }
    double real = 0;
    const auto [stop, error] = std::from_chars(begin, last, real);
    if (error != std::errc() || stop != last || !std::isfinite(real)) expected("a value");
    at_ += static_cast<std::size_t>(last - begin);
    return real;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

template <class T>
constexpr const char* kTypeText = "";
template <>
constexpr const char* kTypeText<double> = "a number";
template <>
constexpr const char* kTypeText<std::int64_t> = "an integer";
template <>
constexpr const char* kTypeText<bool> = "true or false";
template <>
constexpr const char* kTypeText<std::string> = "text in quotes";
template <>
constexpr const char* kTypeText<std::vector<double>> = "a list of numbers";
template <>
constexpr const char* kTypeText<std::vector<std::int64_t>> = "a list of integers";
template <>
constexpr const char* kTypeText<std::vector<std::string>> = "a list of texts";

// Whether `value` is of this type, and then its value.
template <class T>
bool is_as(const TextValue& value, T& to) {
  const T* const exact = std::get_if<T>(&value.held);
  if (exact) to = *exact;
  return exact != nullptr;
}
bool is_as(const TextValue& value, double& to) {
  if (is_as<double>(value, to)) return true;
  const auto* const whole = std::get_if<std::int64_t>(&value.held);
  if (whole) to = static_cast<double>(*whole);
  return whole != nullptr;
}
template <class T>
bool is_as(const TextValue& value, std::vector<T>& to) {
  const auto* const list = std::get_if<TextValue::List>(&value.held);
  if (!list) return false;
  std::vector<T> out;
  for (const TextValue& element : *list) {
    T one{};
    if (!is_as(element, one)) return false;
    out.push_back(one);
  }
  to = std::move(out);
  return true;
}

}  // namespace

TextValue::TextValue(TextCall value) : held(std::make_shared<const TextCall>(std::move(value))) {}

std::string to_string(const TextValue& value) {
  const Overloaded cases{
      [](std::int64_t v) { return fmt::format("{}", v); },
      [](double v) { return fmt::format("{}", v); },
      [](bool v) { return std::string(v ? "true" : "false"); },
      [](const std::string& v) { return quoted_text(v); },
      [](const TextValue::List& v) {
        std::string out = "[";
        for (const TextValue& element : v) out += (out.size() > 1 ? ", " : "") + to_string(element);
        return out += ']';
      },
      [](const std::shared_ptr<const TextCall>& v) { return to_string(*v); },
  };
  return std::visit(cases, value.held);
}

std::string to_string(const TextCall& call) {
  std::string out = call.name;
  if (call.arguments.empty()) return out;
  out += '(';
  for (const auto& [name, value] : call.arguments)
    out += fmt::format("{}{}={}", out.back() == '(' ? "" : ", ", name, to_string(value));
  return out += ')';
}

TextCall parse_call(std::string_view text) { return CallParser(text).whole(); }

const TextValue* TextArguments::find(std::string_view name) {
  for (std::size_t i = 0; i < call_.arguments.size(); ++i)
    if (call_.arguments[i].first == name) {
      taken_[i] = true;
      return &call_.arguments[i].second;
    }
  return nullptr;
}

template <class T>
void TextArguments::take_as(std::string_view name, T& to) {
  const TextValue* const value = find(name);
  if (value && !is_as(*value, to))
    invalid_argument("{}: {} must be {}, not {}", call_.name, name, kTypeText<T>, to_string(*value));
}

void TextArguments::take(std::string_view name, double& to) { take_as(name, to); }
void TextArguments::take(std::string_view name, std::int64_t& to) { take_as(name, to); }
void TextArguments::take(std::string_view name, bool& to) { take_as(name, to); }
void TextArguments::take(std::string_view name, std::string& to) { take_as(name, to); }
void TextArguments::take(std::string_view name, std::vector<double>& to) { take_as(name, to); }
void TextArguments::take(std::string_view name, std::vector<std::int64_t>& to) { take_as(name, to); }
void TextArguments::take(std::string_view name, std::vector<std::string>& to) { take_as(name, to); }

void TextArguments::end() const {
  const auto left = std::ranges::find(taken_, false);
  if (left != taken_.end())
    invalid_argument("{} has no option '{}'", call_.name,
                     call_.arguments[static_cast<std::size_t>(left - taken_.begin())].first);
}

}  // namespace troupe
