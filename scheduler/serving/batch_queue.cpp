#include "troupe/scheduler/serving/batch_queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace troupe {

BatchQueue::BatchQueue(Options options) : options_(std::move(options)) {
  if (options_.most_rows < 1 || options_.most_waiting < 1 || options_.at_once < 1 || options_.timeout < 0)
    invalid_argument("most_rows, most_waiting and at_once must be at least 1 and timeout 0, not {}, {}, {} and {}",
                     options_.most_rows, options_.most_waiting, options_.at_once, options_.timeout);
  const std::vector<std::int64_t>& sizes = options_.allowed_sizes;
  if (sizes.empty()) return;
  if (sizes.front() < 1 || std::ranges::adjacent_find(sizes, std::greater_equal<>()) != sizes.end())
    invalid_argument("allowed sizes of batches must ascend from at least 1");
  if (sizes.back() != options_.most_rows)
    invalid_argument("the largest allowed size of a batch is {}: it must be that of the largest batch, {}",
                     sizes.back(), options_.most_rows);
}

Error BatchQueue::add(const Request& request, Nanoseconds now, std::int64_t elsewhere) {
  if (request.rows < 1) return {Code::invalid_argument, fmt::format("a request of {} rows", request.rows)};
  if (request.rows > options_.most_waiting)
    return {Code::invalid_argument,
            fmt::format("a request of {} rows: at most {} may wait", request.rows, options_.most_waiting)};
  if (request.deadline <= now) return {Code::deadline_exceeded, "the deadline had passed when the request came"};
  if (elsewhere + rows_ + request.rows > options_.most_waiting)
    return {Code::unavailable, fmt::format("{} rows wait, {} more would be too many: ask again in {} ms",
                                           elsewhere + rows_, request.rows, retry_after_ms())};
  if (!order_.emplace(request.id, arrivals_).second)
    fail(Code::already_exists, "request {} is waiting already", request.id);
  waiting_.emplace(arrivals_, Waiting{.request = request, .since = now});
  if (request.deadline != kNever) deadlines_.emplace(request.deadline, arrivals_);
  ++arrivals_;
  rows_ += request.rows;
  return {};
}

void BatchQueue::take_out(Place place) {
  const Waiting& w = place->second;
  rows_ -= w.request.rows - w.done;
  order_.erase(w.request.id);
  deadlines_.erase({w.request.deadline, place->first});
  waiting_.erase(place);
}

bool BatchQueue::cancel(std::uint64_t request) {
  const auto found = order_.find(request);
  if (found == order_.end()) return false;
  take_out(waiting_.find(found->second));
  return true;
}

std::vector<std::uint64_t> BatchQueue::expired(Nanoseconds now) {
  std::vector<std::uint64_t> arrivals, out;
  for (const auto& [deadline, arrival] : deadlines_) {
    if (deadline > now) break;
    arrivals.push_back(arrival);
  }
  std::ranges::sort(arrivals);
  for (const std::uint64_t arrival : arrivals) {
    const Place place = waiting_.find(arrival);
    out.push_back(place->second.request.id);
    take_out(place);
  }
  return out;
}

std::optional<BatchQueue::Batch> BatchQueue::next(Nanoseconds now) {
  if (waiting_.empty() || running_ >= options_.at_once) return std::nullopt;
  if (rows_ < options_.most_rows && longest_wait(now) < options_.timeout) return std::nullopt;
  Batch out;
  while (!waiting_.empty() && out.rows < options_.most_rows) {
    const Place first = waiting_.begin();
    Waiting& w = first->second;
    const std::int64_t left = w.request.rows - w.done, rows = std::min(left, options_.most_rows - out.rows);
    out.parts.push_back({w.request.id, w.done, rows, rows == left});
    out.rows += rows;
    w.done += rows;
    rows_ -= rows;
    if (rows == left) take_out(first);
  }
  const auto size = std::ranges::lower_bound(options_.allowed_sizes, out.rows);
  out.padded = size == options_.allowed_sizes.end() ? out.rows : *size;
  ++running_;
  return out;
}

void BatchQueue::finished(Nanoseconds took) {
  if (running_ == 0) fail(Code::failed_precondition, "a batch has ended, but none runs");
  --running_;
  usual_time_ = usual_time_ == 0 ? took : (7 * usual_time_ + took) / 8;
}

std::optional<Nanoseconds> BatchQueue::next_time() const {
  std::optional<Nanoseconds> out;
  if (!deadlines_.empty()) out = deadlines_.begin()->first;
  if (waiting_.empty() || running_ >= options_.at_once) return out;
  const Nanoseconds since = waiting_.begin()->second.since;
  const Nanoseconds due = rows_ >= options_.most_rows ? since : since + options_.timeout;
  return std::min(out.value_or(due), due);
}

Nanoseconds BatchQueue::longest_wait(Nanoseconds now) const {
  return waiting_.empty() ? 0 : now - waiting_.begin()->second.since;
}

std::int64_t BatchQueue::retry_after_ms() const {
  const auto batches = (rows_ + options_.most_rows - 1) / options_.most_rows;
  const Nanoseconds time = usual_time_ * batches / static_cast<Nanoseconds>(options_.at_once);
  return std::max<std::int64_t>(1, (time + kMillisecond - 1) / kMillisecond);
}

}  // namespace troupe
