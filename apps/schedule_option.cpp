#include "apps/schedule_option.hpp"

#include <charconv>
#include <map>
#include <optional>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

template <class T>
T parsed(std::string_view text, const char* what) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) invalid_argument("expected {}, not '{}'", what, text);
  return value;
}

// Parses "course,key=value,..." and hands out each value once.
class Fields {
 public:
  explicit Fields(std::string_view text) {
    course_ = next(text);
    while (!text.empty()) {
      const std::string_view field = next(text);
      const std::size_t equals = field.find('=');
      if (equals == std::string_view::npos) invalid_argument("expected NAME=NUMBER, not '{}'", field);
      if (!values_.emplace(field.substr(0, equals), field.substr(equals + 1)).second)
        invalid_argument("'{}' is given twice", field.substr(0, equals));
    }
  }

  std::string_view course() const { return course_; }

  double number(const std::string& key, std::optional<double> otherwise = std::nullopt) {
    return take<double>(key, otherwise, "a number");
  }
  std::int64_t whole(const std::string& key, std::optional<std::int64_t> otherwise = std::nullopt) {
    return take<std::int64_t>(key, otherwise, "a whole number");
  }
  // Fields with numeric keys, in ascending order.
  std::map<std::int64_t, double> changes() {
    std::map<std::int64_t, double> out;
    for (const auto& [key, value] : values_)
      out[parsed<std::int64_t>(key, "the number of an update")] = parsed<double>(value, "a number");
    values_.clear();
    return out;
  }
  void end() const {
    if (!values_.empty()) invalid_argument("{} has no '{}'", course_, values_.begin()->first);
  }

 private:
  static std::string_view next(std::string_view& text) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view out = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    return out;
  }
  template <class T>
  T take(const std::string& key, std::optional<T> otherwise, const char* what) {
    const auto it = values_.find(key);
    if (it != values_.end()) {
      const T value = parsed<T>(it->second, what);
      values_.erase(it);
      return value;
    }
    if (!otherwise) invalid_argument("{0} needs {1}, as in '{0},{1}=100'", course_, key);
    return *otherwise;
  }

  std::string_view course_;
  std::map<std::string, std::string, std::less<>> values_;
};

Schedule course_of(Fields& fields, double rate) {
  using namespace schedules;
  const std::string_view course = fields.course();
  if (course == "constant") return rate;
  if (course == "step")
    return Step{.rate = rate, .factor = fields.number("factor", 0.1), .every = fields.whole("every")};
  if (course == "exponential")
    return Exponential{.rate = rate, .factor = fields.number("factor"), .every = fields.whole("every", 1)};
  if (course == "cosine") return Cosine{.rate = rate, .end = fields.number("end", 0), .steps = fields.whole("steps")};
  if (course == "polynomial")
    return Polynomial{.rate = rate,
                      .end = fields.number("end", 0),
                      .power = fields.number("power", 1),
                      .steps = fields.whole("steps")};
  if (course != "piecewise")
    invalid_argument("expected constant, step, piecewise, exponential, cosine or polynomial, not '{}'", course);
  Piecewise out{.rates = {rate}, .from = {}};
  for (const auto& [from, then] : fields.changes()) {
    out.from.push_back(from);
    out.rates.push_back(then);
  }
  return out;
}

}  // namespace

Schedule parse_schedule(std::string_view text, double rate) {
  Fields fields(text);
  const std::int64_t warm_up = fields.whole("warmup", 0);
  const Schedule out = course_of(fields, rate).after_warm_up(warm_up);
  fields.end();
  if (const std::string problem = out.problem(); !problem.empty()) invalid_argument("{}", problem);
  return out;
}

}  // namespace troupe
