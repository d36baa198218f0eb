// Waits of the task's program threads outside the task's actors: for answers from nodes of other tasks. Readable
// without asking those threads.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include <troupe/messages/device_name.hpp>
#include <troupe/scheduler/waits/wait_graph.hpp>

namespace troupe {

// Thread-safe. Must outlive the Pending objects it returns.
class ClientRecord {
 public:
  // Records a wait of the calling thread while it lives.
  class Pending {
   public:
    Pending(ClientRecord& record, std::uint64_t number) : record_(record), number_(number) {}
    ~Pending() { record_.end(number_); }
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;

   private:
    ClientRecord& record_;
    const std::uint64_t number_;
  };
  // Records a wait for `whom` to do `what`, for example "to build its part of the graph".
  [[nodiscard]] Pending wait(const TaskName& whom, std::string what);

  // All current waits; `task` is the name of this task.
  Waiting waiting(const std::string& task) const;

 private:
  struct Wait {
    std::string whom, what;
    std::int64_t since_ns;  // steady clock
  };
  void end(std::uint64_t number);

  mutable std::mutex mutex_;
  std::map<std::uint64_t, Wait> waits_;
  std::uint64_t next_ = 0;
};

}  // namespace troupe
