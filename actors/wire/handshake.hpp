// Who may connect: what a Hello must say, and which process of a task is the living one. A plain class.
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

  // ok, or failed_precondition (protocol, cluster, names, an earlier incarnation).
  // `expected` is the task that was dialed; null if the peer dialed.
  Error check(const Hello& hello, const TaskName* expected) const;

  // A connection with this checked Hello is open: other incarnations of its task that were seen before are
  // refused from now on. Of the last 4096 tasks that have joined, that is.
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
  std::deque<TaskName> names_;  // of known_, in the order in which they first came
};

}  // namespace troupe::wire
