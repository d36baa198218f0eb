#include "troupe/graph/formats/text.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>

#include <troupe/graph/formats/import.hpp>
#include <troupe/messages/device_name.hpp>

namespace troupe {
namespace {

bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_./-:*").find(c) != std::string_view::npos;
}

// A position in text; its errors state line and column.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  bool at_end() const { return at_ == text_.size(); }
  std::size_t left() const { return text_.size() - at_; }
  std::size_t position() const { return at_; }
  // Counts from where it was asked before: a long text is read once.
  int line() {
    line_ += static_cast<int>(std::ranges::count(text_.substr(counted_, at_ - counted_), '\n'));
    counted_ = at_;
    return line_;
  }

  template <class... Args>
  [[noreturn]] void error(fmt::format_string<Args...> format, Args&&... args) const {
    error_at(at_, fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void error_at(std::size_t position, const std::string& message,
                             Code code = Code::invalid_argument) const {
    const std::string_view before = text_.substr(0, position);
    const std::size_t line_begin = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    fail(code, "line {}, column {}: {}", 1 + std::ranges::count(before, '\n'), 1 + position - line_begin, message);
  }

  // Skips spaces, comments and line continuations.
  void skip() {
    while (!at_end()) {
      if (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')
        ++at_;
      else if (text_.substr(at_).starts_with("\\\n"))
        at_ += 2;
      else if (text_[at_] == '#')
        at_ = std::min(text_.find('\n', at_), text_.size());
      else
        return;
    }
  }
  void skip_lines() {
    for (skip(); !at_end() && text_[at_] == '\n'; skip()) ++at_;
  }
  bool at_line_end() {
    skip();
    return at_end() || text_[at_] == '\n';
  }

  bool starts_with(std::string_view token) {
    skip();
    return text_.substr(at_).starts_with(token);
  }
  bool take(std::string_view token) {
    if (!starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  // Takes the token if it is a whole word.
  bool take_word(std::string_view token) {
    if (!starts_with(token) || (at_ + token.size() < text_.size() && is_word_character(text_[at_ + token.size()])))
      return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token, std::string_view what) {
    if (!take(token)) error("expected '{}' {}", token, what);
  }

  // A word, quoted or not.
  std::string word(std::string_view what) {
    skip();
    if (!at_end() && text_[at_] == '"') return quoted();
    const std::string_view found = bare();
    if (found.empty()) error("expected {}", what);
    return std::string(found);
  }
  // Characters of words, possibly none.
  std::string_view bare() {
    skip();
    std::size_t end = at_;
    while (end < text_.size() && is_word_character(text_[end])) ++end;
    return advance_to(end);
  }
  // Up to a character that ends a number.
  std::string_view number_text() {
    skip();
    std::size_t end = at_;
    while (end < text_.size() && (is_word_character(text_[end]) || text_[end] == '+')) ++end;
    if (end < text_.size() && text_[end] == '(') end = std::min(text_.find(')', end), text_.size() - 1) + 1;
    return advance_to(end);
  }

  std::string quoted() {
    expect("\"", "before a string");
    std::string out;
    for (;;) {
      if (at_end() || text_[at_] == '\n') error("unterminated string: expected '\"'");
      const char c = text_[at_++];
      if (c == '"') return out;
      out += c == '\\' ? escaped() : c;
    }
  }

 private:
  std::string_view advance_to(std::size_t end) {
    const std::string_view found = text_.substr(at_, end - at_);
    at_ = end;
    return found;
  }
  char escaped() {
    const char c = at_end() ? '\0' : text_[at_++];
    if (c == '"' || c == '\\') return c;
    if (c == 'n') return '\n';
    unsigned value = 0;
    if (c == 'x' && left() >= 2) {
      const char* begin = text_.data() + at_;
      const auto [end, code] = std::from_chars(begin, begin + 2, value, 16);
      if (code == std::errc{} && end == begin + 2) {
        at_ += 2;
        return static_cast<char>(value);
      }
    }
    error("expected \\\", \\\\, \\n or \\xHH in a string");
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t counted_ = 0;
  int line_ = 1;
};

template <class T>
T integer(Cursor& cursor) {
  cursor.skip();
  const std::size_t begin = cursor.position();
  const std::string_view text = cursor.number_text();
  T value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || code != std::errc{} || end != text.data() + text.size())
    cursor.error_at(begin,
                    fmt::format("'{}' is not {}", text, is_integer(dtype_of<T>) ? name(dtype_of<T>) : "a number"));
  return value;
}

// NaN with these bits: "nan(0x7fc00001)".
template <class T, class Bits>
std::optional<T> nan_of_bits(std::string_view text) {
  if (!text.starts_with("nan(0x") || !text.ends_with(')')) return std::nullopt;
  const std::string_view digits = text.substr(6, text.size() - 7);
  Bits bits = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
  if (code != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return std::bit_cast<T>(bits);
}

template <class T>
T real(Cursor& cursor) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;
  cursor.skip();
  const std::size_t begin = cursor.position();
  const std::string_view text = cursor.number_text();
  if (const auto nan = nan_of_bits<T, Bits>(text)) return *nan;
  if (text == "nan") return T(std::numeric_limits<Wide>::quiet_NaN());
  Wide value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || code != std::errc{} || end != text.data() + text.size() || text.find("nan") != std::string::npos)
    cursor.error_at(begin, fmt::format("'{}' is not a number, or is too large", text));
  return T(value);
}

bool boolean(Cursor& cursor) {
  if (cursor.take_word("true")) return true;
  if (cursor.take_word("false")) return false;
  cursor.error("expected true or false");
}

template <class T>
T element(Cursor& cursor) {
  if constexpr (std::is_same_v<T, std::string>) {
    cursor.skip();
    return cursor.quoted();
  } else if constexpr (std::is_same_v<T, bool>) {
    return boolean(cursor);
  } else if constexpr (std::is_integral_v<T>) {
    return integer<T>(cursor);
  } else {
    return real<T>(cursor);
  }
}

DType dtype(Cursor& cursor) {
  cursor.skip();
  const std::size_t begin = cursor.position();
  const std::string_view text = cursor.bare();
  const auto found = parse_dtype(text);
  if (!found) cursor.error_at(begin, fmt::format("'{}' is not a dtype", text));
  return *found;
}

Shape shape(Cursor& cursor) {
  cursor.expect("[", "before a shape");
  if (cursor.take("?...")) {
    cursor.expect("]", "after a shape");
    return Shape::unknown_rank();
  }
  std::vector<std::int64_t> dims;
  while (!cursor.take("]")) {
    if (!dims.empty()) cursor.expect(",", "or ']' in a shape");
    cursor.skip();
    const std::size_t begin = cursor.position();
    dims.push_back(cursor.take("?") ? kUnknown : integer<std::int64_t>(cursor));
    if (dims.back() < kUnknown || dims.size() > static_cast<std::size_t>(kMaxRank))
      cursor.error_at(begin, fmt::format("a shape has at most {} dimensions, none of them negative", kMaxRank));
  }
  return Shape(std::span<const std::int64_t>(dims));
}

template <class T>
void read_elements(Cursor& cursor, Tensor& tensor) {
  for (T& value : tensor.mutable_values<T>()) {
    if (cursor.starts_with("..."))
      cursor.error("tensor elements are omitted: write the graph with to_text(), which includes all of them");
    value = element<T>(cursor);
  }
}

void read_elements(Cursor& cursor, Tensor& t) {
  if (!is_data(t.dtype())) return;
  dispatch(ElementTypes{}, t.dtype(), [&]<class T>() { read_elements<T>(cursor, t); });
}

Tensor tensor(Cursor& cursor) {
  cursor.skip();
  const std::size_t begin = cursor.position();
  const DType type = dtype(cursor);
  const Shape dims = shape(cursor);
  cursor.expect("=", "before the elements of a tensor");
  try {
    // Every element takes a character and a space: allocates nothing that the text cannot fill.
    if (dims.fully_known() && static_cast<std::uint64_t>(dims.num_elements()) > cursor.left())
      invalid_argument("a tensor of {} elements has only {} characters of text", dims.num_elements(), cursor.left());
    Tensor out(type, dims);
    read_elements(cursor, out);
    return out;
  } catch (const Error& error) {
    if (error.message().starts_with("line ")) throw;
    cursor.error_at(begin, error.message());
  }
}

template <class Read>
auto list(Cursor& cursor, Read read) {
  std::vector<decltype(read(cursor))> out;
  cursor.expect("[", "before a list");
  while (!cursor.take("]")) {
    if (!out.empty()) cursor.expect(",", "or ']' in a list");
    out.push_back(read(cursor));
  }
  return out;
}

AttrValue value_of(Cursor& cursor, AttrType type) {
  switch (type) {
    case AttrType::integer:
      return integer<std::int64_t>(cursor);
    case AttrType::real:
      return real<double>(cursor);
    case AttrType::boolean:
      return boolean(cursor);
    case AttrType::string:
      return element<std::string>(cursor);
    case AttrType::dtype:
      return dtype(cursor);
    case AttrType::shape:
      return shape(cursor);
    case AttrType::tensor:
      return tensor(cursor);
    case AttrType::function:
      cursor.expect("@", "before the name of a function");
      return FunctionName{cursor.word("the name of a function")};
    case AttrType::integers:
      return list(cursor, integer<std::int64_t>);
    case AttrType::reals:
      return list(cursor, real<double>);
    case AttrType::strings:
      return list(cursor, element<std::string>);
    case AttrType::dtypes:
      return list(cursor, dtype);
  }
  cursor.error("expected a value");
}

// The type that a value shows, for attributes the op does not define.
AttrType shown_type(Cursor& cursor) {
  for (int i = 0; i <= static_cast<int>(AttrType::dtypes); ++i)
    if (const auto type = static_cast<AttrType>(i); cursor.take(fmt::format("{}:", name(type)))) return type;
  if (cursor.starts_with("\"")) return AttrType::string;
  if (cursor.starts_with("@")) return AttrType::function;
  if (cursor.starts_with("[")) cursor.error("ambiguous list: state its type, as in shape:[2] or integers:[2]");
  Cursor ahead = cursor;
  const std::string_view text = ahead.number_text();
  if (text == "true" || text == "false") return AttrType::boolean;
  if (parse_dtype(text)) return ahead.starts_with("[") ? AttrType::tensor : AttrType::dtype;
  return !text.empty() && text.find_first_not_of("-0123456789") == std::string::npos ? AttrType::integer
                                                                                     : AttrType::real;
}

class TextParser {
 public:
  TextParser(std::string_view text, const OpRegistry& ops) : cursor_(text), ops_(ops) {}

  ImportedGraph graph() {
    ImportedGraph out;
    for (cursor_.skip_lines(); !cursor_.at_end(); cursor_.skip_lines()) {
      if (at_function())
        out.functions.push_back(function());
      else
        out.nodes.push_back(node());
    }
    return out;
  }

 private:
  // "function NAME", not a node named "function".
  bool at_function() {
    Cursor ahead = cursor_;
    return ahead.take_word("function") && !ahead.starts_with("=");
  }

  ImportedFunction function() {
    cursor_.take_word("function");
    ImportedFunction out{.name = cursor_.word("the name of a function")};
    if (cursor_.take_word("returns")) do {
        out.results.push_back(cursor_.word("a result"));
      } while (cursor_.take(","));
    cursor_.expect("{", "before the body of a function");
    end_line();
    for (cursor_.skip_lines(); !cursor_.take("}"); cursor_.skip_lines()) {
      if (cursor_.at_end()) cursor_.error("function '{}' is not closed: expected '}}'", out.name);
      out.nodes.push_back(node());
    }
    end_line();
    return out;
  }

  ImportedNode node() {
    ImportedNode out;
    out.where = fmt::format("line {}", cursor_.line());
    out.name = cursor_.word("the name of a node");
    cursor_.expect("=", "after the name of a node");
    const OpDef& op = this->op();
    out.op = op.name;
    inputs(out);
    while (!cursor_.at_line_end() && !cursor_.starts_with("->") && !cursor_.starts_with("@") && !at_with())
      attribute(op, out.attributes);
    if (cursor_.take("->")) outputs(out.outputs.emplace());
    if (cursor_.take("@")) out.device = device();
    if (at_with()) {
      cursor_.take_word("with");
      out.colocate_with = cursor_.word("the name of a node");
    }
    end_line();
    return out;
  }

  const OpDef& op() {
    cursor_.skip();
    const std::size_t begin = cursor_.position();
    const std::string_view found = cursor_.bare();
    if (found.empty()) cursor_.error("expected an op");
    try {
      return ops_.get(found);
    } catch (const Error& error) {
      cursor_.error_at(begin, error.message(), error.code());
    }
  }

  void inputs(ImportedNode& out) {
    cursor_.expect("(", "after the op");
    for (bool first = true; !cursor_.take(")"); first = false) {
      if (!first) cursor_.expect(",", "or ')' in the list of inputs");
      if (cursor_.take("^")) {
        out.controls.push_back(cursor_.word("a node"));
      } else {
        if (!out.controls.empty()) cursor_.error("control inputs come last");
        out.inputs.push_back(cursor_.word("an input"));
      }
    }
  }

  void attribute(const OpDef& op, Attributes& attributes) {
    cursor_.skip();
    const std::size_t begin = cursor_.position();
    const std::string key = cursor_.word("an attribute, '->', '@', 'with' or the end of the line");
    const AttrDef* known = op.find_attr(key);
    if (!known && !key.starts_with('_')) cursor_.error_at(begin, fmt::format("{} has no attribute '{}'", op.name, key));
    if (attributes.has(key)) cursor_.error_at(begin, fmt::format("attribute '{}' is given twice", key));
    cursor_.expect("=", "after the name of an attribute");
    attributes.set(key, value_of(cursor_, known ? known->type : shown_type(cursor_)));
  }

  void outputs(std::vector<ImportedOutput>& out) {
    do {
      const DType type = dtype(cursor_);
      out.push_back({type, shape(cursor_)});
    } while (cursor_.take(","));
  }

  std::string device() {
    cursor_.skip();
    const std::size_t begin = cursor_.position();
    const std::string found = cursor_.word("a device");
    try {
      return DeviceName::parse(found).to_string();
    } catch (const Error& error) {
      cursor_.error_at(begin, error.message());
    }
  }

  // "with NODE", not an attribute named "with".
  bool at_with() {
    Cursor ahead = cursor_;
    return ahead.take_word("with") && !ahead.starts_with("=");
  }

  void end_line() {
    if (!cursor_.at_line_end()) cursor_.error("expected the end of the line");
  }

  Cursor cursor_;
  const OpRegistry& ops_;
};

}  // namespace

std::string to_text(const Graph& graph) { return graph.dump(std::numeric_limits<std::int64_t>::max()); }

std::unique_ptr<Graph> parse_text(std::string_view text, const OpRegistry& ops) {
  return import_graph(TextParser(text, ops).graph(), ops);
}

Tensor parse_tensor(std::string_view text) {
  Cursor cursor(text);
  Tensor out = tensor(cursor);
  cursor.skip_lines();
  if (!cursor.at_end()) cursor.error("expected the end of the text");
  return out;
}

}  // namespace troupe
