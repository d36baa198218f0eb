// Repeated segments, on devices that record (devices/recording.hpp). After some steps with tensors of the same dtypes
// and shapes, each sequence of recordable kernels in the segment becomes a recording, which later steps launch: the
// host does the work of one kernel for all. Other nodes (Send, Push, Fetch, If) and kernels that cannot be recorded run
// in between as usual.
//
// A recording uses the memory that it was recorded with:
//   * Its outputs are in memory of the segment's recordings, which nothing else is given. Steps of a frame run one
//     after the other, and so do kernels of one stream: a replay overwrites the values of the last one when nothing
//     reads them any more.
//   * Inputs from elsewhere are copied into that memory before, outputs for elsewhere are copied out after: holders may
//     keep the copy indefinitely. Tensors passed from one recording of a segment to the next stay where they are.
//   * Variables, and values read from them, are used in place. They must not have moved, and one that is written must
//     have no other reader: otherwise kernels run one by one in this step, and copy it, as they would without any
//     recording.
// From the first mismatch in a step on, its nodes run one by one. So results are the same with and without recordings.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include <troupe/scheduler/run/executor.hpp>

namespace troupe {

// One segment of one frame. Used on the thread of the device's compute().
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
  // A tensor that a part reads and does not produce.
  struct Entry {
    enum class Kind {
      absent,
      copied,    // into `target`
      in_place,  // memory of a variable or a constant, at `address`
      left,      // by an earlier part, in memory of the recordings
    };
    std::uint32_t slot = 0;
    Kind kind = Kind::absent;
    Type type;
    Tensor target;
    const std::byte* address = nullptr;
  };
  // A tensor that a part produces and others read.
  struct Result {
    enum class Kind { copied, variable, constant };
    std::uint32_t slot = 0;
    Kind kind = Kind::copied;
    Tensor source;               // in memory of the recordings, or the constant
    bool leaves = true;          // copied: read by more than recorded parts
    std::uint32_t variable = 0;  // the one whose value it shows
    std::size_t offset = 0;
  };
  struct UsedVariable {
    std::uint32_t index = 0;
    const std::byte* address = nullptr;
    bool written = false;
    std::uint32_t references = 1;  // to its memory, by the variable and by entries
  };
  // Nodes that run one by one, or are recorded together.
  struct Part {
    std::uint32_t first = 0, end = 0;
    bool recorded = false;
    std::vector<std::uint32_t> reads;  // slots that it does not produce
    std::vector<std::pair<std::uint32_t, std::uint16_t>>
        releases;  // slots, and number of counted uses; 0: the last use
    std::vector<UsedVariable> variables;
    std::vector<Entry> entries;
    std::vector<Result> results;
    std::shared_ptr<Recording> recording;
  };
  // Readers of a slot after a part.
  struct Readers {
    bool others = false;     // other than recorded parts of this segment
    std::uint32_t last = 0;  // of those parts; 0: none, since nothing precedes the first
  };
  // Held in memory of the recordings, from the end of part `since` until `until` has run.
  struct Resident {
    std::uint32_t slot = 0, since = 0, until = 0;
    Tensor tensor;
  };
  struct Refused {
    std::string why;
  };
  enum class Fit { yes, not_now, moved };
  class Recorded;

  static constexpr std::uint32_t kOrdinaryRuns = 2;  // before recording: these also find plans and load kernels
  static constexpr std::uint32_t kFewestNodes = 4;   // worth a launch of their own
  static constexpr std::uint32_t kMostAttempts = 16;
  static constexpr std::uint32_t kPaidOff = 32;  // launches after which an attempt no longer counts

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
  const std::vector<std::uint32_t> entering_;  // slots that the segment reads and does not produce
  std::vector<Type> last_, recorded_;          // of entering_
  std::uint32_t repeats_ = 0, attempts_ = 0, launches_ = 0;
  bool given_up_ = false;
  std::vector<bool> refused_;                        // by node of the segment: cannot be recorded
  std::vector<std::vector<std::uint32_t>> readers_;  // nodes, by slot
  std::vector<std::uint32_t> part_of_;               // by node of the segment
  std::vector<Part> parts_;
  std::vector<Resident> residents_;
  std::unordered_map<std::uint32_t, Tensor> held_;  // of residents_, while they are recorded: by slot
  std::shared_ptr<WorkRecorder> recorder_;          // null: nothing is recorded
};

// Runs a segment on a device that is not synchronous; its nodes one after the other.
Error run_with_replays(PlanFrame& frame, std::uint32_t segment, Device& device, Outbox& outbox);

}  // namespace troupe
