// The groups of one task, and what it knows of the others that are in them: which links are up, what has come for
// groups that this task has not opened yet, and what others have still to hear. A plain class: what happens goes in,
// what is to be sent and done comes out (Outbox).
//
// A link between two members that is lost, but for one whose end has left in order, breaks every group that either of
// them has open: what was on its way is gone. A task in the midst of an operation then fails the group, one that is not
// fails it with the next, or when it closes the group; and all members are told, the one behind that link when it is up
// again, also if it has not opened its group yet. A task that comes again with another incarnation knows nothing of
// earlier groups, and is told nothing of them.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <set>
#include <span>

#include <troupe/scheduler/collective/group_state.hpp>

namespace troupe {

// Guards that tests leave out, to see what they are for.
struct GroupGuards {
  bool fail_what_runs = true;      // when a link is lost, though nothing is awaited from there
  bool tell_of_lost_links = true;  // when they are up again
};

class GroupTable {
 public:
  struct Outbox {
    struct Sent {
      TaskName to;  // whose link is up
      CollectivePart part;
    };
    struct Launch {
      std::uint64_t group;
      GroupOutbox::Launch launch;
    };
    struct Ended {
      std::uint64_t group;
      GroupOutbox::Ended ended;
    };
    std::vector<Sent> sent;
    std::vector<Launch> launches;
    std::vector<Ended> ended;
    struct Failed {
      std::uint64_t group;
      Error error;
    };
    std::vector<Failed> failed;  // may be told more than once: the group's devices must stop
  };
  // `allocate` gives memory for results, on any thread.
  GroupTable(TaskName self, TensorAllocator allocate, GroupGuards guards = {})
      : self_(std::move(self)), allocate_(std::move(allocate)), guards_(guards) {}

  // Opens this task's place in a group of `members`, by rank; several groups of the same name and members are told
  // apart by their order. Returns the group's number. Throws invalid_argument if the task is not among them, or one is
  // twice.
  std::uint64_t open(const std::string& name, const std::vector<TaskName>& members, std::chrono::nanoseconds timeout,
                     Outbox& out);
  // Leaves; with an error, the group fails on all ranks.
  void close(std::uint64_t group, const Error& error, Outbox& out);
  bool contains(std::uint64_t group) const { return groups_.contains(group); }

  // This rank's part in an operation of a group that is open (GroupState::begin, begin_on_devices). `now`, of a steady
  // clock, ns.
  void begin(std::uint64_t group, CollectivePosition position, const CollectiveSpec& spec, Tensor tensor,
             bool on_devices, std::int64_t now, Outbox& out);
  // What was launched has ended.
  void ended(std::uint64_t group, CollectivePosition position, std::vector<Tensor> result, const Error& error,
             Outbox& out);
  void came(const TaskName& from, CollectivePart part, Outbox& out);
  void up(const TaskName& task, Incarnation incarnation, Outbox& out);
  // `left`: it has said that it leaves, and will read nothing more.
  void down(const TaskName& task, const Error& reason, bool left, Outbox& out);
  void fail(std::uint64_t group, const Error& error, Outbox& out);
  void tick(std::int64_t now, Outbox& out, const GroupState::Explain& explain = nullptr);

  // Forgets all.
  void clear();

  const GroupState& state(std::uint64_t group) const { return groups_.at(group).state; }
  // The shortest timeout of a group that may still fail by it, ns; 0: there is none.
  std::int64_t shortest_timeout() const;
  std::uint64_t early_bytes() const { return early_bytes_; }
  troupe::Waiting waits(std::int64_t now) const;
  std::string waits_for() const;  // of the first group that waits; "": none does

 private:
  struct Group {
    std::vector<TaskName> members;
    GroupState state;
    std::set<TaskName> cut;  // members whose link was lost since it was opened, and may not know
  };
  // What comes for a group that this task has not opened yet.
  struct Early {
    TaskName from;
    CollectivePart part;
  };
  struct Link {
    bool up = false;
    Error down;  // why it is not
    Incarnation incarnation;
    std::vector<CollectivePart> waiting;  // before it has been up for the first time
    // Errors of groups: to be told when it is up again, and told since it is up, which may be lost with it.
    std::deque<CollectivePart> farewells, told;
  };

  static std::uint32_t rank_of(const Group& group, const TaskName& member);
  void deliver(std::uint64_t id, Group& group, GroupOutbox& from, Outbox& out);
  void send(const TaskName& to, CollectivePart part, Outbox& out);
  void keep(const TaskName& from, CollectivePart part, Outbox& out);
  void refuse(const TaskName& to, std::uint64_t group, const Error& error, Outbox& out);
  void forget_early(const TaskName& lost);

  const TaskName self_;
  const TensorAllocator allocate_;
  const GroupGuards guards_;
  std::map<TaskName, Link> links_;
  std::map<std::uint64_t, Group> groups_;
  std::set<std::uint64_t> closed_;
  std::map<std::uint64_t, std::uint64_t> generations_;  // by name and members: how many groups of them there were
  std::map<std::uint64_t, std::vector<Early>> early_;   // by group
  std::uint64_t early_bytes_ = 0;
};

}  // namespace troupe
