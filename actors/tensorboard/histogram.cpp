#include "troupe/actors/tensorboard/histogram.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <troupe/messages/element_types.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

using proto::tensorboard::Histogram;

std::vector<double> make_limits() {
  std::vector<double> positive;
  for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
  positive.push_back(std::numeric_limits<double>::max());
  std::vector<double> all;
  for (auto limit = positive.rbegin(); limit != positive.rend(); ++limit) all.push_back(-*limit);
  all.push_back(0);
  all.insert(all.end(), positive.begin(), positive.end());
  return all;
}

double as_double(Half value) { return static_cast<float>(value); }
double as_double(BFloat16 value) { return static_cast<float>(value); }
template <class T>
double as_double(T value) {
  return static_cast<double>(value);
}

// Counts values by bucket; writes the summary figures to `out`.
template <class T>
std::vector<std::uint64_t> count(const Tensor& tensor, Histogram& out) {
  const std::vector<double>& limits = histogram_limits();
  std::vector<std::uint64_t> counts(limits.size());
  double least = std::numeric_limits<double>::infinity(), greatest = -least, sum = 0, sum_squares = 0;
  std::int64_t finite = 0;
  for (const T& element : std::span(tensor.data<T>(), static_cast<std::size_t>(tensor.num_elements()))) {
    const double value = as_double(element);
    if (!std::isfinite(value)) continue;
    ++finite;
    least = std::min(least, value);
    greatest = std::max(greatest, value);
    sum += value;
    sum_squares += value * value;
    const auto bucket = std::ranges::upper_bound(limits, value) - limits.begin();
    ++counts[std::min(static_cast<std::size_t>(bucket),
                      limits.size() - 1)];  // the last bucket has no limit: it takes the greatest double
  }
  if (finite > 0) {
    out.set_min(least);
    out.set_max(greatest);
  }
  out.set_num(static_cast<double>(finite));
  out.set_sum(sum);
  out.set_sum_squares(sum_squares);
  return counts;
}

std::vector<std::uint64_t> count_any(const Tensor& tensor, Histogram& out) {
  if (!is_floating(tensor.dtype()) && !is_integer(tensor.dtype()))
    invalid_argument("a histogram needs numbers, not {}", name(tensor.dtype()));
  return dispatch(RealTypes{}, tensor.dtype(), [&]<class T>() { return count<T>(tensor, out); });
}

}  // namespace

const std::vector<double>& histogram_limits() {
  static const std::vector<double> limits = make_limits();
  return limits;
}

Histogram histogram_of(const Tensor& values) {
  Histogram out;
  const std::vector<std::uint64_t> counts = count_any(values, out);
  const std::vector<double>& limits = histogram_limits();
  for (std::size_t i = 0, written = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    if (written > 0 && i > written) {  // an empty one between
      out.add_bucket_limit(limits[i - 1]);
      out.add_bucket(0);
    }
    out.add_bucket_limit(limits[i]);
    out.add_bucket(static_cast<double>(counts[i]));
    written = i + 1;
  }
  return out;
}

}  // namespace troupe
