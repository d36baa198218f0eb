#include "troupe/scheduler/training/commit_log.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

bool ascending(const std::vector<std::uint32_t>& slots) {
  return !slots.empty() && std::ranges::adjacent_find(slots, std::greater_equal<>()) == slots.end();
}

// Parses a number off the front of `text`. Returns false if there is none.
template <class T>
bool take_number(std::string_view& text, T& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take_text(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

}  // namespace

void CommitLog::add(std::uint64_t step, std::vector<std::uint32_t> slots) {
  if (!runs_.empty() && step != end_)
    fail(Code::invalid_argument, "commit log: step {} does not follow the last one, {}", step, end_ - 1);
  if (!ascending(slots))
    fail(Code::invalid_argument, "commit log: the slots of step {} are not in ascending order", step);
  if (runs_.empty() || std::prev(runs_.end())->second != slots) runs_.emplace(step, std::move(slots));
  end_ = step + 1;
}

const std::vector<std::uint32_t>* CommitLog::find(std::uint64_t step) const {
  if (runs_.empty() || step < begin() || step >= end_) return nullptr;
  return &std::prev(runs_.upper_bound(step))->second;
}

void CommitLog::truncate(std::uint64_t step) {
  runs_.erase(runs_.lower_bound(step), runs_.end());
  end_ = runs_.empty() ? 0 : std::min(end_, step);
}

bool CommitLog::fits(std::uint32_t needed, std::uint32_t slots) const {
  return std::ranges::all_of(runs_,
                             [&](const auto& run) { return run.second.size() == needed && run.second.back() < slots; });
}

std::string CommitLog::to_string() const {
  std::string text;
  for (auto run = runs_.begin(); run != runs_.end(); ++run) {
    const auto next = std::next(run);
    text += fmt::format("{}-{}:", run->first, (next == runs_.end() ? end_ : next->first) - 1);
    for (const std::uint32_t slot : run->second) text += fmt::format(" {}", slot);
    text += '\n';
  }
  return text;
}

CommitLog CommitLog::parse(std::string_view text) {
  CommitLog log;
  for (int line = 1; !text.empty(); ++line) {
    std::uint64_t first = 0, last = 0;
    std::vector<std::uint32_t> slots;
    bool good = take_number(text, first) && take_text(text, "-") && take_number(text, last) && take_text(text, ":");
    while (good && take_text(text, " ")) good = take_number(text, slots.emplace_back());
    good = good && take_text(text, "\n") && first <= last && last + 1 != 0 && ascending(slots) &&
           (log.empty() || (first == log.end_ && std::prev(log.runs_.end())->second != slots));
    if (!good)
      fail(Code::data_loss, "commit log, line {}: expected 'FIRST-LAST: SLOTS' in ascending order, without gaps", line);
    log.runs_.emplace(first, std::move(slots));
    log.end_ = last + 1;
  }
  return log;
}

}  // namespace troupe
