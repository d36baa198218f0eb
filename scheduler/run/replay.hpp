// Segments that repeat, on devices that record (devices/recording.hpp). After some steps with tensors of the same
// dtypes and shapes, each row of kernels of the segment that may be recorded becomes a recording, and later steps
// launch that: the host does the work of one kernel for all. What is no kernel (Send, Push, Fetch, If) and kernels that
// cannot be recorded run between them as ever.
//
// A recording works on the memory that it was recorded with:
//  * What it makes lies in memory of the recordings of its segment, which nobody else is given. Steps of a frame come
//    one after the other, and so do kernels of one stream: a replay overwrites what the last one left when nobody reads
//    that any more.
//  * What comes to it from elsewhere is copied into that memory before, what leaves it for elsewhere is copied out
//    after: whoever holds the copy may do so for ever. Tensors that go from one recording of a segment to the next stay
//    where they are.
//  * Variables, and what is read of them, are used where they are. They must be where they were, and one that is
//    written must have no other reader: else kernels run one by one in this step, and copy it, as they would without
//    any recording.
// Whatever does not fit in a step, from there on its nodes run one by one. So results are the same with recordings and
// without.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include <troupe/scheduler/run/executor.hpp>

namespace troupe {

// One segment of one frame. On the thread of the device's compute().
class SegmentReplay {
 public:
  SegmentReplay(const Plan& plan, const Segment& segment);
  Error run(PlanFrame& frame, Device& device, Outbox& outbox);

 private:
  struct Type {
    DType dtype = DType::invalid;
    Shape shape;
    bool operator==(const Type&) const = default;
  };
  // A tensor that a part reads and does not make.
  struct Entry {
    enum class Kind {
      absent,
      copied,    // into `target`
      in_place,  // memory of a variable or a constant, at `address`
      left,      // by a part before, in memory of the recordings
    };
    std::uint32_t slot = 0;
    Kind kind = Kind::absent;
    Type type;
    Tensor target;
    const std::byte* address = nullptr;
  };
  // A tensor that a part makes and others read.
  struct Result {
    enum class Kind { copied, variable, constant };
    std::uint32_t slot = 0;
    Kind kind = Kind::copied;
    Tensor source;               // as it lies in memory of the recordings, or the constant
    bool leaves = true;          // copied: not for parts that are recorded only
    std::uint32_t variable = 0;  // whose value is seen
    std::size_t offset = 0;
  };
  struct UsedVariable {
    std::uint32_t index = 0;
    const std::byte* address = nullptr;
    bool written = false;
    std::uint32_t references = 1;  // to its memory, of the variable and of entries
  };
  // Nodes that run one by one, or are recorded together.
  struct Part {
    std::uint32_t first = 0, end = 0;
    bool recorded = false;
    std::vector<std::uint32_t> reads;                               // slots that it does not make
    std::vector<std::pair<std::uint32_t, std::uint16_t>> releases;  // slots, and how many counted uses; 0: the last use
    std::vector<UsedVariable> variables;
    std::vector<Entry> entries;
    std::vector<Result> results;
    std::shared_ptr<Recording> recording;
  };
  // Who reads a slot after a part.
  struct Readers {
    bool others = false;     // than recorded parts of this segment
    std::uint32_t last = 0;  // of those parts; 0: none, as the first has none before it
  };
  // In memory of the recordings, from the end of part `since` until `until` has run.
  struct Resident {
    std::uint32_t slot = 0, since = 0, until = 0;
    Tensor tensor;
  };
  struct Refused {
    std::string why;
  };
  enum class Fit { yes, not_now, moved };
  class Recorded;

  static constexpr std::uint32_t kOrdinaryRuns = 2;  // before a recording: they also find plans and load kernels
  static constexpr std::uint32_t kFewestNodes = 4;   // that are worth a launch of their own
  static constexpr std::uint32_t kMostAttempts = 16;
  static constexpr std::uint32_t kPaidOff = 32;  // launches after which an attempt counts no more

  bool comes_as(const PlanFrame& frame, const std::vector<Type>& types) const;
  std::vector<Type> types_of(const PlanFrame& frame) const;
  void split();
  Readers readers_after(std::uint32_t slot, std::uint32_t part) const;

  Error record(PlanFrame& frame, Device& device, Outbox& outbox);
  void give_back_blocks(PlanFrame& frame) const;
  void record_part(PlanFrame& frame, Device& device, std::uint32_t index);
  Error replay(PlanFrame& frame, Device& device, Outbox& outbox);
  Fit fits(const PlanFrame& frame, const Part& part) const;
  bool replay_part(PlanFrame& frame, Device& device, Part& part);
  Error one_by_one(PlanFrame& frame, Device& device, Outbox& outbox, std::uint32_t from_part);
  void drop();

  const Plan& plan_;
  const Segment& segment_;
  const std::vector<std::uint32_t> entering_;  // slots that the segment reads and does not make
  std::vector<Type> last_, recorded_;          // of entering_
  std::uint32_t repeats_ = 0, attempts_ = 0, launches_ = 0;
  bool given_up_ = false;
  std::vector<bool> refused_;                        // by node of the segment: could not be recorded
  std::vector<std::vector<std::uint32_t>> readers_;  // nodes, by slot
  std::vector<std::uint32_t> part_of_;               // by node of the segment
  std::vector<Part> parts_;
  std::vector<Resident> residents_;
  std::unordered_map<std::uint32_t, Tensor> held_;  // of residents_, while they are recorded: by slot
  std::shared_ptr<WorkRecorder> recorder_;          // null: nothing is recorded
};

// Runs a segment of a device that is not synchronous; its nodes one after the other.
Error run_with_replays(PlanFrame& frame, std::uint32_t segment, Device& device, Outbox& outbox);

}  // namespace troupe
