// Records and replays repeated segments, on devices that support it (devices/recording.hpp). After a few steps with the
// same dtypes and shapes, each sequence of recordable kernels in the segment becomes a recording, which later steps
// launch at the host cost of one kernel. Other nodes (Send, Push, Fetch, If) and kernels that cannot be recorded run in
// between as usual.
//
// A recording uses the memory it was recorded with:
//   * Outputs are in memory reserved for the segment's recordings. The steps of a frame run one after another, and so
//     do the kernels of a stream: a replay overwrites the values of the previous one after their last read.
//   * Inputs from elsewhere are copied into that memory before the launch, outputs for elsewhere are copied out after
//     it: readers may keep the copy indefinitely. Tensors passed from one recording of a segment to the next stay in
//     place.
//   * Variables, and values read from them, are used in place. They must not have moved, and a written variable must
//     have no other reader: otherwise kernels run one by one in this step and copy the variable, as without recordings.
// After the first mismatch in a step, its remaining nodes run one by one. Results are the same with and without
// recordings.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include <troupe/scheduler/run/executor.hpp>

namespace troupe {

struct Surroundings;  // node_context.hpp

// One segment of one frame. Use only on the thread of the device's compute().
class SegmentReplay {
 public:
  SegmentReplay(const Plan& plan, const Segment& segment);
  Error run(PlanFrame& frame, const Surroundings& around);

 private:
  struct Type {
    DType dtype = DType::invalid;
    Shape shape;
    bool operator==(const Type&) const = default;
  };
  // A tensor that a part reads but does not produce.
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
    bool leaves = true;          // copied: also read outside recorded parts
    std::uint32_t variable = 0;  // whose value it views
    std::size_t offset = 0;
  };
  struct UsedVariable {
    std::uint32_t index = 0;
    const std::byte* address = nullptr;
    bool written = false;
    std::uint32_t references = 1;  // to its memory, by the variable and by entries
  };
  // Nodes that run one by one or are recorded together.
  struct Part {
    std::uint32_t first = 0, end = 0;
    bool recorded = false;
    std::vector<std::uint32_t> reads;  // slots it does not produce
    std::vector<std::pair<std::uint32_t, std::uint16_t>>
        releases;  // slots, and number of counted uses; 0: the last use
    std::vector<UsedVariable> variables;
    std::vector<Entry> entries;
    std::vector<Result> results;
    std::shared_ptr<Recording> recording;
  };
  // Readers of a slot after a part.
  struct Readers {
    bool others = false;     // outside recorded parts of this segment
    std::uint32_t last = 0;  // recorded part; 0: none, since nothing precedes the first
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

  static constexpr std::uint32_t kOrdinaryRuns = 2;  // before recording; they also find plans and load kernels
  static constexpr std::uint32_t kFewestNodes = 4;   // that justify a launch
  static constexpr std::uint32_t kMostAttempts = 16;
  static constexpr std::uint32_t kPaidOff = 32;  // launches after which an attempt no longer counts

  bool comes_as(const PlanFrame& frame, const std::vector<Type>& types) const;
  std::vector<Type> types_of(const PlanFrame& frame) const;
  void split();
  Readers readers_after(std::uint32_t slot, std::uint32_t part) const;

  Error record(PlanFrame& frame, const Surroundings& around);
  void give_back_blocks(PlanFrame& frame) const;
  void record_part(PlanFrame& frame, Device& device, std::uint32_t index);
  Error replay(PlanFrame& frame, const Surroundings& around);
  Fit fits(const PlanFrame& frame, const Part& part) const;
  bool replay_part(PlanFrame& frame, Device& device, Part& part);
  Error one_by_one(PlanFrame& frame, const Surroundings& around, std::uint32_t from_part);
  void drop();

  const Plan& plan_;
  const Segment& segment_;
  const std::vector<std::uint32_t> entering_;  // slots the segment reads but does not produce
  std::vector<Type> last_, recorded_;          // of entering_
  std::uint32_t repeats_ = 0, attempts_ = 0, launches_ = 0;
  bool given_up_ = false;
  std::vector<bool> refused_;                        // by node of the segment: cannot be recorded
  std::vector<std::vector<std::uint32_t>> readers_;  // nodes, by slot
  std::vector<std::uint32_t> part_of_;               // by node of the segment
  std::vector<Part> parts_;
  std::vector<Resident> residents_;
  std::unordered_map<std::uint32_t, Tensor> held_;  // of residents_ during recording, by slot
  std::shared_ptr<WorkRecorder> recorder_;          // null: nothing is recorded
};

// Runs a segment on an asynchronous device, replaying recordings where possible and other nodes one after another.
Error run_with_replays(PlanFrame& frame, std::uint32_t segment, const Surroundings& around);

}  // namespace troupe
