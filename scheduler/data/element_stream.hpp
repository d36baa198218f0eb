// The elements of a pipeline in order (graph/data/pipeline.hpp), with positions to go on from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <troupe/graph/data/pipeline.hpp>
#include <troupe/scheduler/data/pending_element.hpp>

namespace troupe {

// Where a stream is in an epoch: a few numbers, whatever the sizes of elements and buffers. Only the stream of an equal
// pipeline understands them.
using StreamPosition = std::vector<std::uint64_t>;

// The numbers of a position, one after the other.
class PositionReader {
 public:
  explicit PositionReader(std::span<const std::uint64_t> left) : left_(left) {}
  // Throws data_loss if there are no more.
  std::uint64_t take();
  bool at_end() const { return left_.empty(); }

 private:
  std::span<const std::uint64_t> left_;
};

// Not thread-safe.
class ElementStream {
 public:
  virtual ~ElementStream() = default;
  // Goes to the beginning of an epoch. Comes before anything else.
  virtual void start(std::uint64_t epoch) = 0;
  // nullopt: the epoch is over. What is left to do for the element may fail later; this throws what reading it throws,
  // and what functions throw that the order needs, naming the stage.
  virtual std::optional<PendingElement> next_pending() = 0;
  // The next element, made. Throws what functions throw, and data_loss for what does not fit the schema, both naming
  // the stage.
  std::optional<data::Element> next();
  // Likewise, to row `row` of tensors with a leading dimension; false: the epoch is over. Only for schemas without
  // unknown dimensions.
  virtual bool next_row(std::int64_t row, std::span<Tensor> out);
  // Passes over the next element; false: the epoch is over.
  virtual bool skip();
  // Appends the position of the next element.
  virtual void save(StreamPosition& out) const = 0;
  // Goes to a position that was saved in the epoch that began last. Throws data_loss for one that cannot be.
  virtual void restore(PositionReader& in) = 0;
};

// `statistics`: counts what its stages do and outlives the stream and its elements, or null.
std::unique_ptr<ElementStream> open_stream(const data::StageRef& stage, const PipelineStatistics* statistics = nullptr);

}  // namespace troupe
