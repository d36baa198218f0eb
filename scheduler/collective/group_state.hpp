// One rank's place in a group of tasks that run collectives: operations in flight, messages for operations that this
// rank has not reached yet, and whether all ranks agree. A plain class: (message) -> messages and results.
//
// Every rank begins the operations of a channel in the same order, numbered from 0. Each message states which operation
// its sender takes it for: a mismatch ends the group, on every rank, with an error that shows both. So does the loss of
// a rank that an operation waits for.
//
// Tensors travel with these messages, unless they are on devices that the ranks have joined (DeviceOperation): the
// owner starts the work of those (GroupOutbox::launches), and reports how it ended.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <troupe/messages/frames.hpp>
#include <troupe/messages/function_ref.hpp>
#include <troupe/scheduler/collective/device_operation.hpp>
#include <troupe/scheduler/collective/rank_operation.hpp>
#include <troupe/scheduler/waits/wait_graph.hpp>

namespace troupe {

struct GroupOptions {
  std::uint64_t id = 0;              // the same on all ranks
  std::vector<std::string> members;  // by rank, for display
  std::uint32_t rank = 0;
  std::uint64_t max_early_bytes = std::uint64_t{1} << 30;  // of messages for operations that this rank has not begun
  std::int64_t timeout_ns = 0;  // maximum time without progress while an operation waits; 0: unlimited
};

// Actions that the group's state requests of its owner.
struct GroupOutbox {
  struct Sent {
    std::uint32_t to = 0;  // rank
    CollectivePart part;
  };
  struct Ended {
    CollectivePosition position;
    Error error;
    std::vector<Tensor> result;  // RankOperation::take_result
  };
  // For the devices: all ranks have begun it, and launch in the same order. Answer with GroupState::ended.
  struct Launch {
    CollectivePosition position;
    CollectiveSpec spec;
    Tensor local;
  };
  std::vector<Sent> sent;
  std::vector<Launch> launches;
  std::vector<Ended> ended;
};

class GroupState {
 public:
  // Throws invalid_argument for a rank that is not a member.
  GroupState(GroupOptions options, TensorAllocator allocate);

  // Begins this rank's part in the next operation of a channel. Ends, now or later, in an Ended with that position.
  // `now`: steady clock, ns; for waits().
  void begin(CollectivePosition position, const CollectiveSpec& spec, Tensor local, GroupOutbox& out,
             std::int64_t now = 0);
  // The same between devices: `local` as for DeviceCommunicator::run. A barrier is device work that yields no tensor:
  // joining.
  void begin_on_devices(CollectivePosition position, const CollectiveSpec& spec, Tensor local, GroupOutbox& out,
                        std::int64_t now = 0);
  void take(std::uint32_t from, CollectivePart part, GroupOutbox& out);
  // A launched operation has ended. Ignored if it is no longer in flight.
  void ended(CollectivePosition position, std::vector<Tensor> result, const Error& error, GroupOutbox& out);
  // A rank is gone, or messages to and from it are lost. Later operations fail, and so do those in flight: even one
  // that has everything from that rank may have sent it messages that are lost. Not so if the rank has `left`: it needs
  // nothing more.
  void lost(std::uint32_t rank, const Error& reason, bool left, GroupOutbox& out);
  // Call often, relative to the timeout: if nothing begins or arrives for that long while an operation waits, the group
  // fails with an error that names the missing ranks. A rank that only sees others waiting too allows half as long
  // again, so that ranks that know more report first. Times are of a steady clock, in ns. `explain`: text to add to the
  // error; none yet: the group does not fail in this call. Null: nothing to add.
  using Explain = std::function<std::optional<std::string>()>;
  void tick(std::int64_t now, GroupOutbox& out, const Explain& explain = nullptr);
  // Ends the group on all ranks. Only the first error counts.
  void fail(const Error& error, GroupOutbox& out);

  const Error& failure() const { return failure_; }
  const GroupOptions& options() const { return options_; }
  std::size_t in_flight() const { return running_.size(); }
  std::uint64_t early_bytes() const { return early_bytes_; }

  struct Wait {
    CollectivePosition position;
    std::uint64_t have = 0, need = 0;
    std::uint32_t from = 0;  // a rank whose messages are missing
  };
  // The operation that has waited longest; need is 0 if none is in flight.
  Wait waiting() const;
  // In words, for errors and display.
  std::string waits_for() const;
  // The same as things and waits (wait_graph.hpp), plus operations that others have begun and this rank has not.
  troupe::Waiting waits(std::int64_t now = 0) const;

 private:
  struct Early {
    std::uint32_t from;
    CollectivePart part;
  };
  std::string rank_name(std::uint32_t rank) const;
  std::string list(const std::function<bool(std::uint32_t)>& which) const;  // ranks, by name
  using Make = FunctionRef<std::unique_ptr<CollectiveOperation>()>;
  void begin(CollectivePosition position, const CollectiveSpec& spec, std::string text, Make make, GroupOutbox& out,
             std::int64_t now);
  void send(CollectivePosition position, std::vector<CollectiveMessage> messages, GroupOutbox& out);
  void launch(CollectivePosition position, GroupOutbox& out);
  void run(CollectivePosition position, std::uint32_t from, CollectivePart part, GroupOutbox& out);
  void settle(CollectivePosition position, GroupOutbox& out);
  void keep(std::uint32_t from, CollectivePart part, GroupOutbox& out);

  GroupOptions options_;
  TensorAllocator allocate_;
  std::map<CollectivePosition, std::unique_ptr<CollectiveOperation>> running_;
  std::map<CollectivePosition, DeviceOperation*> on_devices_;  // of running_
  std::map<std::uint32_t, CollectivePosition> numbered_;       // of running_: numbered, not launched
  std::uint32_t next_number_ = 0;                              // of operations on devices: the next number, on rank 0
  std::uint32_t next_launch_ = 0;
  std::map<CollectivePosition, std::string> texts_;   // describe() of running_
  std::map<CollectivePosition, std::int64_t> began_;  // start times of running_
  std::map<CollectivePosition, std::vector<Early>> early_;
  std::uint64_t early_bytes_ = 0;
  std::map<std::uint32_t, std::uint64_t> next_;  // by channel: the next operation that this rank begins
  std::map<std::uint32_t, Error> lost_;          // by rank
  Error failure_;
  std::uint64_t messages_ = 0;  // received, and operations begun
  std::uint64_t ticked_ = 0;    // messages_ at the last tick
  std::int64_t last_tick_ = 0;
  std::int64_t quiet_since_ = 0;
};

}  // namespace troupe
