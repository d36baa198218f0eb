#include "troupe/scheduler/data/batch_desk.hpp"

#include <algorithm>

namespace troupe {
namespace {

constexpr std::size_t kMostAhead = 256;

const std::shared_ptr<const MadeBatch>& over() {
  static const auto made = std::make_shared<const MadeBatch>(MadeBatch{.over = true});
  return made;
}

}  // namespace

std::uint64_t MadeBatch::bytes() const {
  std::uint64_t sum = 0;
  for (const Tensor& tensor : batch.components) sum += tensor.valid() ? tensor.num_bytes() : 0;
  return sum;
}

std::uint32_t BatchDesk::share_of(const BatchName& batch, std::uint32_t slots, std::uint32_t shares) {
  return static_cast<std::uint32_t>((batch.step * slots + batch.slot) % shares);
}

void BatchDesk::want(Consumer consumer, const BatchName& batch, const BatchName& complete, Replies& out) {
  if (complete > complete_) {
    complete_ = complete;
    drop_complete();
  }
  if (is_over(batch)) return out.push_back({consumer, batch, over()});
  const auto entry = entries_.try_emplace(batch).first;
  Entry& e = entry->second;
  if (e.begun && e.waiting.empty() && !e.sent) --unsent_;
  e.waiting.insert(consumer);
  if (e.made) return answer(entry, out);
  somebody_waits();
  if (!e.begun) to_begin_.insert(batch);
}

void BatchDesk::forget(Consumer consumer) {
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    Entry& e = entry->second;
    if (e.waiting.erase(consumer) == 0 || !e.waiting.empty()) {
      ++entry;
    } else if (e.begun) {
      ++unsent_;
      ++entry;
    } else {
      to_begin_.erase(entry->first);
      entry = entries_.erase(entry);
    }
  }
}

std::optional<BatchName> BatchDesk::begin() {
  if (making_ >= makers_) return std::nullopt;
  std::optional<BatchName> next;
  if (!to_begin_.empty()) {
    auto wanted = to_begin_.begin();
    if (options_.ordered && last_)
      if (const auto later = to_begin_.lower_bound(*last_); later != to_begin_.end() && !later->evaluation)
        wanted = later;
    next = *wanted;
    to_begin_.erase(wanted);
  } else {
    next = ahead();
    if (!next) return std::nullopt;
    ++unsent_;
  }
  entries_[*next].begun = true;
  if (!next->evaluation) last_ = next;
  ++making_;
  return next;
}

void BatchDesk::made(const BatchName& batch, std::shared_ptr<const MadeBatch> made, Replies& out) {
  const auto entry = entries_.find(batch);
  --making_;
  ++made_;
  largest_ = std::max(largest_, made->bytes());
  kept_bytes_ += made->bytes();
  entry->second.made = made;
  const bool ends = made->over, fails = static_cast<bool>(made->error);
  if (!entry->second.waiting.empty()) answer(entry, out);
  if (const auto kept = entries_.find(batch); kept != entries_.end() && (ends || fails)) drop(kept);
  if (ends) end_part(batch, out);
  drop_complete();
  drop_beyond_memory();
}

BatchDesk::Figures BatchDesk::figures() const {
  Figures out{.wanted = to_begin_.size(),
              .making = making_,
              .kept_bytes = kept_bytes_,
              .makers = makers_,
              .ahead = ahead_,
              .made = made_,
              .waited = waited_};
  out.kept = static_cast<std::size_t>(
      std::ranges::count_if(entries_, [](const auto& entry) { return entry.second.made != nullptr; }));
  return out;
}

bool BatchDesk::is_over(const BatchName& batch) const {
  const auto part = over_.find(part_of(batch));
  return part != over_.end() && batch.step >= part->second;
}

// Answers those who want more of it.
void BatchDesk::end_part(const BatchName& first_over, Replies& out) {
  std::uint64_t& end = over_.try_emplace(part_of(first_over), first_over.step).first->second;
  end = std::min(end, first_over.step);
  for (auto wanted = to_begin_.begin(); wanted != to_begin_.end();) {
    if (!is_over(*wanted)) {
      ++wanted;
      continue;
    }
    const auto entry = entries_.find(*wanted);
    for (const Consumer consumer : entry->second.waiting) out.push_back({consumer, *wanted, over()});
    entries_.erase(entry);
    wanted = to_begin_.erase(wanted);
  }
}

void BatchDesk::answer(Entries::iterator entry, Replies& out) {
  Entry& e = entry->second;
  for (const Consumer consumer : e.waiting) out.push_back({consumer, entry->first, e.made});
  e.waiting.clear();
  e.sent = true;
  if (entry->first.evaluation) drop(entry);  // no other slot wants it
}

BatchDesk::Entries::iterator BatchDesk::drop(Entries::iterator entry) {
  if (!entry->second.sent) --unsent_;
  kept_bytes_ -= entry->second.made->bytes();
  return entries_.erase(entry);
}

void BatchDesk::drop_complete() {
  for (auto entry = entries_.begin(); entry != entries_.end() && entry->first < complete_;)
    entry = entry->second.made && entry->second.waiting.empty() ? drop(entry) : std::next(entry);
}

void BatchDesk::drop_beyond_memory() {
  for (const bool sent : {true, false})
    for (auto entry = entries_.begin(); entry != entries_.end() && kept_bytes_ > limit();) {
      const bool may = entry->second.made && entry->second.sent == sent;
      entry = may ? drop(entry) : std::next(entry);
    }
}

void BatchDesk::somebody_waits() {
  ++waited_;
  if (making_ >= makers_) makers_ = std::min(makers_ + 1, std::max<std::size_t>(1, options_.makers));
  ahead_ = std::min(2 * ahead_, kMostAhead);
}

// The next batch to make for nobody yet.
std::optional<BatchName> BatchDesk::ahead() {
  if (unsent_ >= ahead_) fills_ = false;
  if (unsent_ <= ahead_ / 2) fills_ = true;
  const bool has_room = kept_bytes_ + (making_ + 1) * largest_ <= limit() || (unsent_ + 1) * largest_ <= limit() / 2;
  if (!last_ || !fills_ || unsent_ >= ahead_ || !has_room) return std::nullopt;
  for (auto next = after(*last_); next; next = after(*next))
    if (!entries_.contains(*next) && *next >= complete_) return next;
  return std::nullopt;
}

// The next batch of this task's share.
std::optional<BatchName> BatchDesk::after(BatchName batch) const {
  do {
    if (++batch.slot >= options_.slots) {
      batch.slot = 0;
      ++batch.step;
    }
    if (is_over(batch)) {
      batch.slot = 0;
      batch.step = 0;
      if (++batch.epoch >= options_.epochs) return std::nullopt;
      if (is_over(batch)) return std::nullopt;
    }
  } while (share_of(batch, options_.slots, options_.shares) != options_.share);
  return batch;
}

}  // namespace troupe
