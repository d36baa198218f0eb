#include "troupe/graph/elementwise_program.hpp"

#include <algorithm>
#include <charconv>

#include <troupe/graph/elementwise_vocabulary.hpp>
#include <troupe/graph/op_table.hpp>

namespace troupe {
namespace {

enum class Kind : std::uint8_t { none, arithmetic, comparison, selection, conversion };
struct Entry {
  Kind kind = Kind::none;
  ElementwiseRule rule;
};

// The vocabulary of programs: names of ops.
constexpr Entry kUnary{Kind::arithmetic, {1, false}}, kBinary{Kind::arithmetic, {2, false}},
    kOfOneShape{Kind::arithmetic, {2, true}}, kComparison{Kind::comparison, {2, false}};
#define TROUPE_UNARY(NAME) {#NAME, kUnary},
#define TROUPE_BINARY(NAME) {#NAME, kBinary},
#define TROUPE_GRADIENT(NAME) {#NAME, kOfOneShape},
#define TROUPE_COMPARISON(NAME) {#NAME, kComparison},
constexpr auto kWords = op_table<Entry>({
    TROUPE_UNARY_OPS(TROUPE_UNARY)              //
    TROUPE_ARITHMETIC_OPS(TROUPE_BINARY)        //
    {"Div", kBinary},                           //
    {"ReluGrad", kOfOneShape},                  //
    TROUPE_FLOAT_GRADIENT_OPS(TROUPE_GRADIENT)  //
    TROUPE_COMPARISON_OPS(TROUPE_COMPARISON)    //
    {"Select", {Kind::selection, {3, false}}},
    {"Cast", {Kind::conversion, {1, false}}},
});
#undef TROUPE_COMPARISON
#undef TROUPE_GRADIENT
#undef TROUPE_BINARY
#undef TROUPE_UNARY

// The number in `text`, which is a letter and a number.
int number(std::string_view text, int limit, std::string_view line) {
  int value = -1;
  const char* const last = text.data() + text.size();
  const auto [end, code] = std::from_chars(text.data() + 1, last, value);
  if (code != std::errc{} || end != last || value < 0 || value >= limit)
    invalid_argument("program line '{}': '{}' is not one of the {} operands available", line, text, limit);
  return value;
}

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> out;
  while (!line.empty()) {
    const auto space = line.find(' ');
    out.push_back(line.substr(0, space));
    line = space == std::string_view::npos ? "" : line.substr(space + 1);
  }
  return out;
}

ElementwiseStep parse_step(const std::string& line, std::span<const DType> inputs, std::span<const DType> results) {
  const auto parts = words(line);
  const auto colon = parts.empty() ? std::string_view::npos : parts[0].find(':');
  if (colon == std::string_view::npos) invalid_argument("program line '{}' must begin with OP:DTYPE", line);
  const auto dtype = parse_dtype(parts[0].substr(colon + 1));
  if (!dtype) invalid_argument("program line '{}': unknown dtype", line);
  ElementwiseStep step{.op = std::string(parts[0].substr(0, colon)), .dtype = *dtype};
  std::vector<DType> types;
  for (std::string_view word : std::span(parts).subspan(1)) {
    const bool is_input = word.starts_with('i');
    if (!is_input && !word.starts_with('r')) invalid_argument("program line '{}': operands must be iN or rN", line);
    const auto& known = is_input ? inputs : results;
    const int index = number(word, static_cast<int>(known.size()), line);
    step.operands.push_back({is_input, index});
    types.push_back(known[static_cast<std::size_t>(index)]);
  }
  if (!elementwise_rule(step.op, types, step.dtype))
    invalid_argument("program line '{}' cannot be computed element by element", line);
  return step;
}

}  // namespace

std::optional<ElementwiseRule> elementwise_rule(std::string_view op, std::span<const DType> inputs, DType result) {
  const Entry entry = kWords.of(op);
  if (entry.kind == Kind::none || static_cast<int>(inputs.size()) != entry.rule.operands) return std::nullopt;
  const bool alike = std::ranges::all_of(inputs, [&](DType t) { return t == inputs.back(); });
  bool fits = false;
  switch (entry.kind) {
    case Kind::none:
      break;
    case Kind::arithmetic:
      fits = alike && is_floating(result) && result == inputs[0];
      break;
    case Kind::comparison:
      fits = alike && is_floating(inputs[0]) && result == DType::boolean;
      break;
    case Kind::selection:
      fits = inputs[0] == DType::boolean && inputs[1] == inputs[2] && inputs[1] == result && is_floating(result);
      break;
    case Kind::conversion:
      fits = is_floating(result) && (is_floating(inputs[0]) || inputs[0] == DType::boolean || inputs[0] == DType::u8);
      break;
  }
  return fits ? std::optional(entry.rule) : std::nullopt;
}

std::vector<ElementwiseStep> parse_elementwise(std::span<const std::string> lines, std::span<const DType> inputs) {
  if (lines.empty() || std::ssize(lines) > kMaxElementwiseSteps || std::ssize(inputs) > kMaxElementwiseInputs)
    invalid_argument("a program has 1 to {} steps and at most {} inputs, not {} and {}", kMaxElementwiseSteps,
                     kMaxElementwiseInputs, lines.size(), inputs.size());
  std::vector<ElementwiseStep> steps;
  std::vector<DType> results;
  for (const std::string& line : lines) {
    steps.push_back(parse_step(line, inputs, results));
    results.push_back(steps.back().dtype);
  }
  return steps;
}

std::vector<std::string> to_strings(std::span<const ElementwiseStep> steps) {
  std::vector<std::string> lines;
  for (const ElementwiseStep& step : steps) {
    std::string line = fmt::format("{}:{}", step.op, name(step.dtype));
    for (const ElementwiseOperand& o : step.operands) line += fmt::format(" {}{}", o.is_input ? 'i' : 'r', o.index);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace troupe
