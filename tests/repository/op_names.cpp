#include "tests/repository/op_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace troupe::repository {
namespace {

// May compare as they like: the families and builders of the ops, kernels, what knows no ops, and importers, whose
// tables name the ops of their format.
constexpr std::array<std::string_view, 7> kFree = {
    "graph/ops/", "graph/builder/", "graph/formats/onnx/", "graph/formats/saved_model/", "kernels/",
    "messages/",  "tests/"};
// May have one table of ops each.
constexpr std::array<std::string_view, 3> kTables = {"graph/passes/", "graph/elementwise_program.cpp",
                                                     "scheduler/plan/cost.cpp"};
// Here every op name counts that is not that of a node to be made; elsewhere only one beside a comparison.
constexpr std::array<std::string_view, 2> kStrict = {"graph/", "scheduler/"};
constexpr std::array<std::string_view, 4> kMakes = {"op =", "add_op(", "add_outputs(", "supports(graph_,"};

template <std::size_t N>
bool starts_with_any(std::string_view text, const std::array<std::string_view, N>& prefixes) {
  return std::ranges::any_of(prefixes, [&](std::string_view p) { return text.starts_with(p); });
}

struct Literal {
  std::size_t begin = 0;  // of the opening quote
  std::size_t end = 0;    // behind the closing one
  std::string value;
};

// The code without its comments, and its string literals. Literals stay in the code as blanks between quotes.
struct SourceText {
  std::string text;
  std::vector<Literal> literals;
};

std::size_t end_of_literal(std::string_view text, std::size_t quote) {
  const bool raw = quote > 0 && text[quote - 1] == 'R';
  if (raw) {
    const std::size_t open = text.find('(', quote);
    const std::string close = ")" + std::string(text.substr(quote + 1, open - quote - 1)) + "\"";
    return std::min(text.size(), text.find(close, quote) + close.size());
  }
  std::size_t at = quote + 1;
  while (at < text.size() && text[at] != text[quote] && text[at] != '\n') at += text[at] == '\\' ? 2 : 1;
  return std::min(text.size(), at + 1);
}

void blank(std::string& text, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i)
    if (text[i] != '\n') text[i] = ' ';
}

SourceText parse(std::string_view text) {
  SourceText code{std::string(text), {}};
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    std::size_t end = i + 1;
    if (rest.starts_with("//") || rest.starts_with("/*")) {
      end = std::min(text.size(), rest[1] == '/' ? text.find('\n', i) : text.find("*/", i) + 2);
      blank(code.text, i, end);
    } else if (rest[0] == '"') {
      end = end_of_literal(text, i);
      code.literals.push_back({i, end, std::string(text.substr(i + 1, end - i - 2))});
      blank(code.text, i + 1, end - 1);
    } else if (rest[0] == '\'' && (i == 0 || std::isalnum(static_cast<unsigned char>(text[i - 1])) == 0)) {
      end = end_of_literal(text, i);
    }
    i = end;
  }
  return code;
}

std::string_view trimmed_end(std::string_view text) { return text.substr(0, text.find_last_not_of(" \n") + 1); }

std::string_view trimmed_begin(std::string_view text) {
  return text.substr(std::min(text.size(), text.find_first_not_of(" \n")));
}

// Where the constant begins that the literal is part of.
std::optional<std::size_t> table_of(std::string_view code, const Literal& literal) {
  const std::size_t begin = code.rfind("constexpr", literal.begin);
  if (begin == code.npos || code.find(';', begin) < literal.begin) return std::nullopt;
  return begin;
}

class Checker {
 public:
  Checker(std::string_view path, std::string_view text, const std::vector<std::string>& ops)
      : path_(path), code_(parse(text)), ops_(ops) {}

  std::vector<std::string> run() {
    for (const Literal& literal : code_.literals) check(literal);
    return std::move(found_);
  }

 private:
  void check(const Literal& literal) {
    const std::string_view before = trimmed_end(std::string_view(code_.text).substr(0, literal.begin));
    const std::string_view after = trimmed_begin(std::string_view(code_.text).substr(literal.end));
    if (is_part(literal.value, before)) return report(literal, "is part of op names");
    if (std::ranges::find(ops_, literal.value) == ops_.end()) return;
    const bool compared =
        before.ends_with("==") || before.ends_with("!=") || after.starts_with("==") || after.starts_with("!=");
    if (compared) return report(literal, "is compared");
    if (!starts_with_any(path_, kStrict) || made(before)) return;
    const auto table = starts_with_any(path_, kTables) ? table_of(code_.text, literal) : std::nullopt;
    if (!table) return report(literal, "is an op");
    if (table_.value_or(*table) != *table) return report(literal, "is in a second table");
    table_ = table;
  }

  bool is_part(const std::string& value, std::string_view before) const {
    const bool prefix = before.ends_with("starts_with("), suffix = before.ends_with("ends_with(");
    return (prefix || suffix) && value.size() >= 3 && std::ranges::any_of(ops_, [&](const std::string& op) {
             return prefix ? op.starts_with(value) : op.ends_with(value);
           });
  }
  static bool made(std::string_view before) {
    return std::ranges::any_of(kMakes, [&](std::string_view make) { return before.ends_with(make); });
  }
  void report(const Literal& literal, std::string_view what) {
    const auto line =
        1 + std::count(code_.text.begin(), code_.text.begin() + static_cast<std::ptrdiff_t>(literal.begin), '\n');
    found_.push_back(fmt::format("{}:{}: \"{}\" {}: ask for a trait (graph/op.hpp), or name all ops in one op_table",
                                 path_, line, literal.value, what));
  }

  std::string_view path_;
  SourceText code_;
  const std::vector<std::string>& ops_;
  std::optional<std::size_t> table_;
  std::vector<std::string> found_;
};

}  // namespace

std::vector<std::string> op_name_violations(std::string_view path, std::string_view text,
                                            const std::vector<std::string>& ops) {
  if (starts_with_any(path, kFree)) return {};
  return Checker(path, text, ops).run();
}

}  // namespace troupe::repository
