// Values that are slow to make, each made once: the first caller makes it, later callers for the same key wait for it,
// and callers for other keys do not wait.
#pragma once

#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include <troupe/messages/error.hpp>

namespace troupe {

// Thread-safe. Values are cheap to copy.
template <class Key, class Value>
class MadeOnce {
 public:
  // The value of `key`: cached, or made by make() on this thread. If make() throws, so does each waiting call; the next
  // one retries. Throws the reason of close().
  template <class Make>
  Value get(const Key& key, Make&& make) {
    std::unique_lock lock(mutex_);
    if (closed_) throw closed_;
    const auto [it, first] = places_.try_emplace(key);
    Place& place = it->second;
    if (place.value) return *place.value;
    if (!first) {
      const std::shared_future<Value> made = place.made;
      lock.unlock();
      return made.get();
    }
    std::promise<Value> promise;
    place.made = promise.get_future().share();
    ++making_;
    lock.unlock();
    try {
      Value value = make();
      lock.lock();
      if (!closed_) places_.at(key).value = value;
      end_one();
      promise.set_value(value);
      return value;
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      places_.erase(key);
      end_one();
      promise.set_exception(std::current_exception());
      throw;
    }
  }

  // The value of `key` if it has been made.
  std::optional<Value> find(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto at = places_.find(key);
    return at == places_.end() ? std::nullopt : at->second.value;
  }

  // Discards all values and waits for running make() calls, which must be ended separately. Later calls throw `why`.
  void close(Error why) {
    std::unique_lock lock(mutex_);
    closed_ = std::move(why);
    places_.clear();
    idle_.wait(lock, [this] { return making_ == 0; });
  }

 private:
  struct Place {
    std::optional<Value> value;
    std::shared_future<Value> made;
  };
  void end_one() {
    if (--making_ == 0) idle_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable idle_;
  std::map<Key, Place> places_;
  std::size_t making_ = 0;
  Error closed_;
};

}  // namespace troupe
