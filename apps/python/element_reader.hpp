// The elements of one epoch of a pipeline, in order, for a loop that takes one after the other. Elements are made in
// place, on the caller's thread, as long as that is quick; else threads make them ahead, up to a number and 24 MiB.
// Which does changes no element.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <troupe/graph/data/pipeline.hpp>
#include <troupe/messages/error.hpp>
#include <troupe/scheduler/data/element_stream.hpp>

namespace troupe::python {

class ElementReader {
 public:
  // `threads`: that make elements ahead, once making them is slow. 0: none.
  ElementReader(data::StageRef stage, std::uint64_t epoch, int threads);
  ~ElementReader();  // waits for what is being made
  ElementReader(const ElementReader&) = delete;
  ElementReader& operator=(const ElementReader&) = delete;

  // nullopt: the epoch is over. `check` is called now and then while it waits, and may throw. Throws what making the
  // element throws; the epoch is over then. Not thread-safe.
  std::optional<data::Element> next(const std::function<void()>& check);
  // The epoch is over; threads have ended. Any thread.
  void close();

 private:
  struct Slot {
    bool ready = false;
    data::Element element{};
    Error error{};
  };
  std::optional<data::Element> make_in_place();
  void make_ahead();
  bool may_begin() const;  // with `mutex_`

  const data::StageRef stage_;
  const int threads_;
  std::unique_ptr<ElementStream> stream_;
  int slow_ = 0;      // elements in a row that took long in place
  std::mutex order_;  // the stream's, while threads make elements; taken before `mutex_`
  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Slot>> slots_;  // that are begun, in order
  std::size_t bytes_ = 0;                    // of those that are made
  bool over_ = false;                        // none is begun any more
  std::vector<std::thread> makers_;
};

}  // namespace troupe::python
