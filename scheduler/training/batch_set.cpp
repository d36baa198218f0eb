#include "troupe/scheduler/training/batch_set.hpp"

#include <charconv>
#include <iterator>

#include <troupe/messages/error.hpp>

namespace troupe {

bool BatchSet::contains(std::uint64_t batch) const {
  const auto after = ends_.upper_bound(batch);
  return after != ends_.begin() && batch < std::prev(after)->second;
}

bool BatchSet::touches(std::uint64_t batch) const {
  return ends_.contains(batch + 1) || (batch > 0 && contains(batch - 1));
}

std::uint64_t BatchSet::count(std::uint64_t rest, std::uint64_t divisor) const {
  const auto below = [&](std::uint64_t end) { return (end + divisor - 1 - rest) / divisor; };
  std::uint64_t count = 0;
  for (const auto& [begin, end] : ends_) count += below(end) - below(begin);
  return count;
}

std::string BatchSet::to_string() const {
  std::string text;
  for (const auto& [begin, end] : ends_) text += fmt::format("{}{}-{}", text.empty() ? "" : " ", begin, end - 1);
  return text;
}

BatchSet BatchSet::parse(std::string_view text) {
  BatchSet set;
  const char* at = text.data();
  const char* const stop = text.data() + text.size();
  while (at != stop) {
    std::uint64_t begin = 0, last = 0;
    auto read = std::from_chars(at, stop, begin);
    bool good = read.ec == std::errc() && read.ptr != stop && *read.ptr == '-';
    if (good) read = std::from_chars(read.ptr + 1, stop, last);
    good = good && read.ec == std::errc() && begin <= last && last + 1 != 0 &&
           (set.ends_.empty() || std::prev(set.ends_.end())->second < begin);
    at = read.ptr;
    if (good && at != stop) good = *at++ == ' ' && at != stop;
    if (!good)
      fail(Code::data_loss, "batch set: expected 'FIRST-LAST ...' in ascending order, found '{}'", text.substr(0, 80));
    set.ends_.emplace(begin, last + 1);
  }
  return set;
}

bool BatchSet::insert(std::uint64_t batch) {
  if (contains(batch)) return false;
  const auto after = ends_.upper_bound(batch);
  const bool joins_next = after != ends_.end() && after->first == batch + 1;
  const std::uint64_t end = joins_next ? after->second : batch + 1;
  if (after != ends_.begin() && std::prev(after)->second == batch) {
    std::prev(after)->second = end;
  } else {
    ends_.emplace_hint(after, batch, end);
  }
  if (joins_next) ends_.erase(after);
  return true;
}

}  // namespace troupe
