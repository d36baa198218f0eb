// Where the batches of a training come from.
//
// A source is a description that all tasks of a job have alike. Each task opens it and reads those batches that it
// computes, in any order and possibly more than once: batch (epoch, step, slot) is the same wherever and whenever it is
// read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <troupe/devices/allocator.hpp>
#include <troupe/graph/data/batch_schema.hpp>
#include <troupe/messages/data_place.hpp>
#include <troupe/messages/tensor.hpp>
#include <troupe/scheduler/data/stage_figures.hpp>

namespace troupe {

struct Batch {
  std::vector<Tensor> components{};  // in the schema's order, each [examples, example...]
  std::int64_t examples = 0;
  // DataPlace::position of its step, from which it can be read again; only some batches have one.
  std::vector<std::uint64_t> position{};
};

// A batch whose examples are found, but not made.
struct UnmadeBatch {
  std::uint32_t epoch = 0;
  std::uint64_t step = 0;
  std::uint32_t slot = 0;
  std::int64_t examples = 0;              // 0: known when it is made
  std::shared_ptr<const void> noted{};    // what its reader needs to make it
  std::vector<std::uint64_t> position{};  // Batch::position
};

// What becomes of examples that do not fill all slots of the last step of an epoch.
enum class LastStep : std::uint8_t {
  drop,  // they are left out
  // The slots share them as evenly as possible, the first ones have one more; fewer than slots are left out. The
  // gradients of slots are averaged as ever, so an example of a smaller slot counts a little more.
  keep,
  pad,  // the slots are filled with examples from the start of the epoch's order, which so count twice
};

std::string_view name(LastStep last);  // "drop", "keep", "pad"

// How a source is cut into batches.
struct BatchPlan {
  std::int64_t batch = 32;  // examples of a slot
  std::uint32_t slots = 1;  // of a step, with backups
  std::uint64_t seed = 0;
  bool shuffle = true;  // another order in each epoch, which follows from the seed; else that of the source
  LastStep last = LastStep::drop;
  // Batches that a reader's caller uses at a time, with those being made: that many batches later their memory may be
  // used again, once nobody else holds it.
  std::size_t in_use = 1;
  Allocator* memory = nullptr;  // for batches, on the host; null: anywhere
};

// One task's view of a source. A batch is read in two parts: begin() finds its examples, one call at a time; make()
// does the rest, on any threads:
//
//   if (auto unmade = reader.begin(epoch, step, slot)) later = [&, unmade] { return reader.make(std::move(*unmade)); };
class BatchReader {
 public:
  virtual ~BatchReader() = default;
  // What must go in order. nullopt: the epoch is over before this step, for every slot. Not thread-safe. Steps in
  // ascending order cost least, unless the source is addressable().
  virtual std::optional<UnmadeBatch> begin(std::uint32_t epoch, std::uint64_t step, std::uint32_t slot) = 0;
  // Makes a batch that this reader has begun: any number of threads at a time, also while another calls begin(). Throws
  // what functions of the source throw; begin() may be called again for the same batch.
  virtual Batch make(UnmadeBatch&& unmade) const = 0;
  // Steps from there on can be reached without all that comes before. Not thread-safe; a place of other data makes
  // begin() throw data_loss.
  virtual void go_on_from(const DataPlace&) {}
  // Both, at once. Not thread-safe.
  virtual std::optional<Batch> read(std::uint32_t epoch, std::uint64_t step, std::uint32_t slot);
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual const BatchSchema& schema() const = 0;
  // Of an epoch; nullopt: unknown.
  virtual std::optional<std::uint64_t> examples() const = 0;
  // The examples of a batch that it says training must have; nullopt: any number.
  virtual std::optional<std::int64_t> batch() const { return std::nullopt; }
  // Whether steps in any order cost the same. Else a reader goes through all that comes before a step.
  virtual bool addressable() const { return true; }
  // What decides its examples and their order, one line each, as far as a program says it: tasks whose sources differ
  // in it do not train together.
  virtual std::string description() const { return {}; }
  // What its stages have done for all readers so far, the source first. Any thread.
  virtual std::vector<StageFigures> stages() const { return {}; }
  // The source must outlive the reader.
  virtual std::unique_ptr<BatchReader> open(const BatchPlan& plan) const = 0;
};

// The number of steps of an epoch; nullopt: unknown.
std::optional<std::uint64_t> steps_per_epoch(const BatchSource& source, const BatchPlan& plan);

}  // namespace troupe
