// The groups of one task, and its view of the other members: which links are up, messages for groups that this task has
// not opened yet, and errors that others have yet to receive. A plain class: events go in, messages and actions come
// out (Outbox).
//
// The loss of a link between two members, unless its other end has left in order, breaks every group that either has
// open: messages in flight are gone. A task in the middle of an operation then fails the group; an idle one fails it
// with the next operation, or when it closes the group. All members are informed, the one behind that link once it is
// up again, even if it has not opened its group yet. A task that returns with another incarnation knows nothing of
// earlier groups, and hears nothing of them.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <set>
#include <span>

#include <troupe/scheduler/collective/group_state.hpp>

namespace troupe {

// Guards that tests disable, to show what they are for.
struct GroupGuards {
  bool fail_what_runs = true;      // when a link is lost, even if nothing is awaited from there
  bool tell_of_lost_links = true;  // once they are up again
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
    std::vector<Failed> failed;  // may be repeated: the group's devices must stop
  };
  // `allocate` provides memory for results, on any thread.
  GroupTable(TaskName self, TensorAllocator allocate, GroupGuards guards = {})
      : self_(std::move(self)), allocate_(std::move(allocate)), guards_(guards) {}

  // Opens this task's place in a group of `members`, by rank; groups with the same name and members are told apart by
  // their order. Returns the group's number. Throws invalid_argument if the task is not a member, or a member is
  // repeated.
  std::uint64_t open(const std::string& name, const std::vector<TaskName>& members, std::chrono::nanoseconds timeout,
                     Outbox& out);
  // Leaves the group; with an error, the group fails on all ranks.
  void close(std::uint64_t group, const Error& error, Outbox& out);
  bool contains(std::uint64_t group) const { return groups_.contains(group); }

  // Begins this rank's part in an operation of an open group (GroupState::begin, begin_on_devices). `now`: steady
  // clock, ns.
  void begin(std::uint64_t group, CollectivePosition position, const CollectiveSpec& spec, Tensor tensor,
             bool on_devices, std::int64_t now, Outbox& out);
  // A launched operation has ended.
  void ended(std::uint64_t group, CollectivePosition position, std::vector<Tensor> result, const Error& error,
             Outbox& out);
  void came(const TaskName& from, CollectivePart part, Outbox& out);
  void up(const TaskName& task, Incarnation incarnation, Outbox& out);
  // `left`: it announced that it leaves, and will read nothing more.
  void down(const TaskName& task, const Error& reason, bool left, Outbox& out);
  void fail(std::uint64_t group, const Error& error, Outbox& out);
  void tick(std::int64_t now, Outbox& out, const GroupState::Explain& explain = nullptr);

  // Forgets everything.
  void clear();

  const GroupState& state(std::uint64_t group) const { return groups_.at(group).state; }
  // The shortest timeout of a group that can still fail by it, ns; 0: none.
  std::int64_t shortest_timeout() const;
  std::uint64_t early_bytes() const { return early_bytes_; }
  troupe::Waiting waits(std::int64_t now) const;
  std::string waits_for() const;  // of the first group that waits; "": none

 private:
  struct Group {
    std::vector<TaskName> members;
    GroupState state;
    std::set<TaskName> cut;  // members whose link was lost since opening, and who may not know
  };
  // A message for a group that this task has not opened yet.
  struct Early {
    TaskName from;
    CollectivePart part;
  };
  struct Link {
    bool up = false;
    Error down;  // why the link is down
    Incarnation incarnation;
    std::vector<CollectivePart> waiting;  // until the link is up for the first time
    // Errors of groups: to send once it is up again; and sent since it is up, which may be lost with it.
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
  std::map<std::uint64_t, std::uint64_t> generations_;  // by name and members: groups opened so far
  std::map<std::uint64_t, std::vector<Early>> early_;   // by group
  std::uint64_t early_bytes_ = 0;
};

}  // namespace troupe
