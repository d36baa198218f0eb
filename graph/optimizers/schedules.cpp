#include "troupe/graph/optimizers/schedules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>

#include <troupe/graph/formats/text_call.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

using namespace schedules;

// Calls `visit(name, values)` for each field, so that all courses are checked, printed, written and read alike.
template <class C, class Fn>
void each_field(C& course, Fn visit) {
  using T = std::remove_const_t<C>;
  if constexpr (std::is_same_v<T, Piecewise>) {
    visit("rates", course.rates);
    visit("from", course.from);
  } else if constexpr (std::is_same_v<T, Mean>) {
    visit("start", course.start);
    visit("every", course.every);
  } else {
    visit("rate", course.rate);
    if constexpr (requires { course.end; }) visit("end", course.end);
    if constexpr (requires { course.factor; }) visit("factor", course.factor);
    if constexpr (requires { course.power; }) visit("power", course.power);
    if constexpr (requires { course.every; }) visit("every", course.every);
    if constexpr (requires { course.steps; }) visit("steps", course.steps);
  }
}

constexpr std::array<std::string_view, std::variant_size_v<Schedule::Course>> kNames = {
    "constant", "step", "piecewise", "exponential", "cosine", "polynomial", "mean"};

std::string problem_with(std::string_view field, double value) {
  const bool positive = field == "factor" || field == "power";
  if (std::isfinite(value) && (positive ? value > 0 : value >= 0)) return "";
  return fmt::format("{} must be {}, not {}", field, positive ? "positive" : "0 or more", value);
}
std::string problem_with(std::string_view field, std::int64_t value) {
  const std::int64_t least = field == "start" ? 0 : 1;
  return value >= least ? "" : fmt::format("{} must be {} or more, not {}", field, least, value);
}
template <class T>
std::string problem_with(std::string_view field, const std::vector<T>& values) {
  for (const T& value : values)
    if (std::string problem = problem_with(field, value); !problem.empty()) return problem;
  return "";
}
std::string problem_between(const auto&) { return ""; }
std::string problem_between(const Piecewise& p) {
  if (p.rates.size() != p.from.size() + 1)
    return fmt::format("there must be one more rate than changes, not {} rates and {} changes", p.rates.size(),
                       p.from.size());
  for (std::size_t i = 1; i < p.from.size(); ++i)
    if (p.from[i] <= p.from[i - 1])
      return fmt::format("changes must come at increasing times, not at {} and then {}", p.from[i - 1], p.from[i]);
  return "";
}

// The completed part of a course of `steps` steps, from 0 to 1.
double done(std::int64_t t, std::int64_t steps) {
  return static_cast<double>(std::min(t, steps)) / static_cast<double>(steps);
}

double rate_of(const Constant& c, std::int64_t) { return c.rate; }
double rate_of(const Step& c, std::int64_t t) { return c.rate * std::pow(c.factor, static_cast<double>(t / c.every)); }
double rate_of(const Piecewise& c, std::int64_t t) {
  return c.rates[static_cast<std::size_t>(std::ranges::upper_bound(c.from, t) - c.from.begin())];
}
double rate_of(const Exponential& c, std::int64_t t) {
  return c.rate * std::pow(c.factor, static_cast<double>(t) / static_cast<double>(c.every));
}
double rate_of(const Cosine& c, std::int64_t t) {
  if (t >= c.steps) return c.end;
  return c.end + (c.rate - c.end) * (1 + std::cos(std::numbers::pi * done(t, c.steps))) / 2;
}
double rate_of(const Polynomial& c, std::int64_t t) {
  return c.end + (c.rate - c.end) * std::pow(1 - done(t, c.steps), c.power);
}
double rate_of(const Mean& c, std::int64_t t) {
  if (t < c.start || (t - c.start) % c.every != 0) return 0;
  return 1 / static_cast<double>((t - c.start) / c.every + 1);
}

// The alternative with that name, with its defaults.
template <std::size_t I = 0>
Schedule::Course course_named(std::string_view name) {
  if constexpr (I == kNames.size())
    invalid_argument("unknown learning rate schedule '{}'", name);
  else
    return name == kNames[I] ? Schedule::Course(std::in_place_index<I>) : course_named<I + 1>(name);
}

}  // namespace

Schedule Schedule::after_warm_up(std::int64_t updates) const {
  Schedule out = *this;
  out.warm_up_ = updates;
  return out;
}

double Schedule::rate(std::int64_t t) const {
  const auto at = [&](std::int64_t step) {
    return std::visit([&](const auto& course) { return rate_of(course, step); }, course_);
  };
  if (t < warm_up_) return at(0) * static_cast<double>(t + 1) / static_cast<double>(warm_up_);
  return at(t - warm_up_);
}

Tensor Schedule::rate(std::int64_t t, DType dtype) const {
  if (dtype == DType::f64) return Tensor::scalar(rate(t));
  if (dtype == DType::f32) return Tensor::scalar(static_cast<float>(rate(t)));
  if (dtype == DType::f16) return Tensor::scalar(Half(static_cast<float>(rate(t))));
  if (dtype == DType::bf16) return Tensor::scalar(BFloat16(static_cast<float>(rate(t))));
  invalid_argument("a learning rate must be floating, not {}", name(dtype));
}

std::string Schedule::problem() const {
  std::string found;
  std::visit(
      [&](const auto& course) {
        each_field(course, [&](const char* field, const auto& value) {
          if (found.empty()) found = problem_with(field, value);
        });
        if (found.empty()) found = problem_between(course);
      },
      course_);
  if (found.empty() && warm_up_ < 0) found = fmt::format("the warm-up must be 0 updates or more, not {}", warm_up_);
  return found.empty() ? "" : fmt::format("{}: {}", kNames[course_.index()], found);
}

TextValue Schedule::to_text() const {
  if (is_constant()) return std::get<Constant>(course_).rate;
  TextCall out{std::string(kNames[course_.index()]), {}};
  const auto write = [&](const char* field, const auto& value) { out.add(field, value); };
  std::visit([&](const auto& course) { each_field(course, write); }, course_);
  if (warm_up_ > 0) out.add("warm_up", warm_up_);
  return out;
}

std::string Schedule::to_string() const { return troupe::to_string(to_text()); }

Schedule Schedule::of(const TextValue& text) {
  Schedule out(0.0);
  if (const auto* call = std::get_if<std::shared_ptr<const TextCall>>(&text.held)) {
    TextArguments arguments(**call);
    out.course_ = course_named((*call)->name);
    std::visit(
        [&](auto& course) { each_field(course, [&](const char* field, auto& to) { arguments.take(field, to); }); },
        out.course_);
    arguments.take("warm_up", out.warm_up_);
    arguments.end();
  } else if (const auto* real = std::get_if<double>(&text.held)) {
    out = *real;
  } else if (const auto* whole = std::get_if<std::int64_t>(&text.held)) {
    out = static_cast<double>(*whole);
  } else {
    invalid_argument("a learning rate must be a number or a schedule, not {}", troupe::to_string(text));
  }
  if (const std::string problem = out.problem(); !problem.empty()) invalid_argument("learning rate: {}", problem);
  return out;
}

Attributes Schedule::attributes() const {
  Attributes out{{"schedule", std::string(kNames[course_.index()])}, {"warm_up", warm_up_}};
  std::vector<double> reals;
  std::vector<std::int64_t> integers;
  const auto append = [](auto& list, const auto& value) {
    if constexpr (requires { value.begin(); })
      list.insert(list.end(), value.begin(), value.end());
    else
      list.push_back(value);
  };
  const auto write = [&](const char*, const auto& value) {
    if constexpr (std::is_same_v<decltype(value), const double&> ||
                  std::is_same_v<decltype(value), const std::vector<double>&>)
      append(reals, value);
    else
      append(integers, value);
  };
  std::visit([&](const auto& course) { each_field(course, write); }, course_);
  out.set("reals", reals);
  out.set("integers", integers);
  return out;
}

Schedule Schedule::of(const Attributes& attributes) {
  const auto& reals = attributes.get<std::vector<double>>("reals");
  const auto& integers = attributes.integers("integers");
  Schedule out(0.0);
  out.course_ = course_named(attributes.string("schedule"));
  out.warm_up_ = attributes.integer("warm_up");
  std::size_t next_real = 0, next_integer = 0;
  const auto next = [](const auto& list, std::size_t& at) {
    if (at >= list.size()) invalid_argument("a learning rate schedule has too few numbers");
    return list[at++];
  };
  const auto read = [&]<class T>(const char*, T& value) {
    if constexpr (std::is_same_v<T, double>)
      value = next(reals, next_real);
    else if constexpr (std::is_same_v<T, std::int64_t>)
      value = next(integers, next_integer);
    else if constexpr (std::is_same_v<T, std::vector<double>>)
      value = reals, next_real = reals.size();
    else
      value = integers, next_integer = integers.size();
  };
  std::visit([&](auto& course) { each_field(course, read); }, out.course_);
  if (next_real != reals.size() || next_integer != integers.size())
    invalid_argument("a learning rate schedule has too many numbers");
  if (const std::string problem = out.problem(); !problem.empty()) invalid_argument("learning rate: {}", problem);
  return out;
}

}  // namespace troupe
