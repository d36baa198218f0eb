// What threads of a task's program wait for while no actor of the task does: answers of nodes of other tasks. Where it
// can be read without asking them.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include <troupe/messages/device_name.hpp>
#include <troupe/scheduler/waits/wait_graph.hpp>

namespace troupe {

// Thread-safe. Outlives what it gives out.
class ClientRecord {
 public:
  // While it lives, the thread that has it waits.
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
  // Waits for `whom` to do `what`: "to build its part of the graph".
  [[nodiscard]] Pending wait(const TaskName& whom, std::string what);

  // All that is waited for now; `task` is this one.
  Waiting waiting(const std::string& task) const;

 private:
  struct Wait {
    std::string whom, what;
    std::int64_t since_ns;  // of the steady clock
  };
  void end(std::uint64_t number);

  mutable std::mutex mutex_;
  std::map<std::uint64_t, Wait> waits_;
  std::uint64_t next_ = 0;
};

}  // namespace troupe
