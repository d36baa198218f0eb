#include "troupe/actors/model/answer_change.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/model/loaded_model.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr double kTolerance = 0.05;

std::string signature_of(const LoadedModel& model, const std::string& wanted) {
  const auto& all = model.signatures();
  if (!wanted.empty() || all.size() == 1) return wanted.empty() ? all.begin()->first : wanted;
  return all.contains("serving_default") ? "serving_default" : "predict";
}

template <class T>
bool same_row(std::span<const T> a, std::span<const T> b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a.size() > 1) return std::ranges::max_element(a) - a.begin() == std::ranges::max_element(b) - b.begin();
    return std::abs(static_cast<double>(a[0]) - static_cast<double>(b[0])) <=
           kTolerance * (1 + std::abs(static_cast<double>(b[0])));
  } else {
    return std::ranges::equal(a, b);
  }
}

// `before` first. Counts rows; false: `after` has numbers that are not finite.
template <class T>
bool count_rows(const Tensor& before, const Tensor& after, AnswerChange& out) {
  const auto a = before.values<T>(), b = after.values<T>();
  if (a.empty()) return true;
  const std::size_t rows = before.shape().rank() > 0 ? static_cast<std::size_t>(before.shape()[0]) : 1;
  const std::size_t columns = a.size() / rows;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto x = a.subspan(row * columns, columns), y = b.subspan(row * columns, columns);
    if constexpr (std::is_floating_point_v<T>) {
      const auto finite = [](T value) { return std::isfinite(value); };
      if (std::ranges::all_of(x, finite) && !std::ranges::all_of(y, finite)) return false;
    }
    ++out.rows;
    if (!same_row(y, x)) ++out.changed;
  }
  return true;
}

bool compare(const Tensor& before, const Tensor& after, AnswerChange& out) {
  switch (before.dtype()) {
    case DType::f32:
      return count_rows<float>(before, after, out);
    case DType::f64:
      return count_rows<double>(before, after, out);
    case DType::i32:
      return count_rows<std::int32_t>(before, after, out);
    case DType::i64:
      return count_rows<std::int64_t>(before, after, out);
    case DType::string:
      return count_rows<std::string>(before, after, out);
    default:  // no classes or scores
      return true;
  }
}

}  // namespace

AnswerChange answer_change(const SavedModel& before, const SavedModel& after,
                           std::span<const RecordedRequest> requests) {
  Task task;
  LoadedModelOptions options;
  options.task = &task;
  const LoadedModel old_model(before, options), new_model(after, options);
  AnswerChange out;
  for (const RecordedRequest& request : requests) {
    const std::string place = fmt::format("recorded request {}", ++out.requests);
    const std::string signature = signature_of(old_model, request.signature);
    std::map<std::string, Tensor> expected;
    try {
      expected = old_model.run(signature, request.inputs);
    } catch (const Error&) {
      continue;  // the stable version does not answer it either
    }
    std::map<std::string, Tensor> found;
    try {
      found = new_model.run(signature, request.inputs);
    } catch (const Error& error) {
      fail(Code::failed_precondition, "{}: it fails: {}", place, error.message());
    }
    for (const auto& [name, value] : expected) {
      const auto own = found.find(name);
      if (own == found.end() || own->second.dtype() != value.dtype() || own->second.shape() != value.shape())
        fail(Code::failed_precondition, "{}: output '{}' is {}, not {}", place, name,
             own == found.end() ? "missing" : own->second.shape().to_string(), value.shape().to_string());
      if (!compare(value, own->second, out))
        fail(Code::failed_precondition, "{}: output '{}' has numbers that are not finite", place, name);
    }
  }
  return out;
}

}  // namespace troupe
