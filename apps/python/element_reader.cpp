#include "apps/python/element_reader.hpp"

#include <chrono>
#include <utility>

#include <troupe/graph/data/element_source.hpp>

namespace troupe::python {
namespace {

constexpr std::size_t kMostBytes = std::size_t{24} << 20;
constexpr auto kSlow = std::chrono::microseconds(200);  // to make an element
constexpr int kSlowInARow = 4;

}  // namespace

ElementReader::ElementReader(data::StageRef stage, std::uint64_t epoch, int threads)
    : stage_(std::move(stage)), threads_(threads), stream_(open_stream(stage_)) {
  stream_->start(epoch);
}

ElementReader::~ElementReader() { close(); }

void ElementReader::close() {
  std::vector<std::thread> ended;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    slots_.clear();
    ended.swap(makers_);
  }
  changed_.notify_all();
  for (std::thread& maker : ended) maker.join();
}

std::optional<data::Element> ElementReader::next(const std::function<void()>& check) {
  std::unique_lock lock(mutex_);
  if (makers_.empty()) {
    if (over_) return std::nullopt;
    lock.unlock();
    if (slow_ < kSlowInARow || threads_ == 0) return make_in_place();
    lock.lock();
    for (int i = 0; i < threads_ && !over_; ++i) makers_.emplace_back([this] { make_ahead(); });
  }
  const auto ready = [&] { return slots_.empty() ? over_ : slots_.front()->ready; };
  while (!changed_.wait_for(lock, std::chrono::milliseconds(100), ready)) {
    lock.unlock();
    check();
    lock.lock();
  }
  if (slots_.empty()) return std::nullopt;
  const std::shared_ptr<Slot> slot = std::move(slots_.front());
  slots_.pop_front();
  bytes_ -= data::num_bytes(slot->element);
  if (slot->error) {
    over_ = true;
    slots_.clear();
  }
  lock.unlock();
  changed_.notify_all();
  if (slot->error) throw slot->error;
  return std::move(slot->element);
}

std::optional<data::Element> ElementReader::make_in_place() {
  const auto begin = std::chrono::steady_clock::now();
  std::optional<data::Element> out;
  try {
    out = stream_->next();
  } catch (...) {
    close();
    throw;
  }
  slow_ = std::chrono::steady_clock::now() - begin > kSlow ? slow_ + 1 : 0;
  if (!out) close();
  return out;
}

bool ElementReader::may_begin() const {
  return over_ || slots_.size() < 2 || (slots_.size() < 2 * static_cast<std::size_t>(threads_) && bytes_ < kMostBytes);
}

// The order is the stream's: a thread begins the next element and gives it a slot before another may begin one.
void ElementReader::make_ahead() {
  while (true) {
    const auto slot = std::make_shared<Slot>();
    std::optional<PendingElement> pending;
    {
      const std::lock_guard order(order_);
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return may_begin(); });
        if (over_) return;
      }
      try {
        pending = stream_->next_pending();
      } catch (...) {
        slot->error = current_error();
      }
      const std::lock_guard lock(mutex_);
      if (over_) return;
      if (!pending) over_ = true;
      if (pending || slot->error) slots_.push_back(slot);
    }
    if (pending) {
      try {
        slot->element = pending->make();
      } catch (...) {
        slot->error = current_error();
      }
    }
    {
      const std::lock_guard lock(mutex_);
      bytes_ += data::num_bytes(slot->element);
      slot->ready = true;
    }
    changed_.notify_all();
    if (!pending) return;
  }
}

}  // namespace troupe::python
