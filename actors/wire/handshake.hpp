// Decides which tasks may connect: checks a Hello, and which process of a task is current. A plain class.
#pragma once

#include <deque>
#include <map>
#include <string>

#include <troupe/messages/frames.hpp>

namespace troupe::wire {

class Handshake {
 public:
  Handshake(TaskName self, std::string cluster, Incarnation incarnation)
      : self_(std::move(self)), cluster_(std::move(cluster)), incarnation_(incarnation) {}

  Hello hello_to(const TaskName& peer) const;

  // Returns ok, or failed_precondition (protocol, cluster, names, an earlier incarnation). `expected`: the dialled
  // task; null if the peer dialled.
  Error check(const Hello& hello, const TaskName* expected) const;

  // Records that a connection with this checked Hello is open: earlier incarnations of its task are rejected from now
  // on. Remembers the last 4096 tasks that have joined.
  void joined(const Hello& hello);
  std::size_t remembered() const { return known_.size(); }

 private:
  struct Known {
    Incarnation current;
    std::deque<Incarnation> earlier;
  };

  TaskName self_;
  std::string cluster_;
  Incarnation incarnation_;
  std::map<TaskName, Known> known_;
  std::deque<TaskName> names_;  // of known_, ordered by first arrival
};

}  // namespace troupe::wire
