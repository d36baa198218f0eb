// Elements of a pipeline that is read in order, with the pure work that is left: parsing, functions of map, batches in
// the middle. Streams pass them on without doing it; a thread that needs an element makes it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <troupe/graph/data/pipeline.hpp>
#include <troupe/scheduler/data/element_table.hpp>
#include <troupe/scheduler/data/pipeline_statistics.hpp>

namespace troupe {

// Making is thread-safe and always gives the same. The stages of the pipeline must outlive it.
class PendingElement {
 public:
  explicit PendingElement(data::Element made) : made_(std::move(made)) {}
  // Element `number` that a stage's source has read: errors name the stage, and what it makes is checked. `counter`: of
  // the stage, or null; here and below it must outlive the element.
  PendingElement(const data::Stage& source, std::unique_ptr<const data::UnmadeElement> unmade, std::uint64_t number,
                 StageCounter* counter)
      : source_(&source), unmade_(std::move(unmade)), number_(number), counter_(counter) {}

  // Throws what functions throw, and data_loss for what does not fit the schema, both naming the stage.
  data::Element make() const;
  // Likewise, to row `row` of tensors with a leading dimension. Only for schemas without unknown dimensions.
  void make_row(std::int64_t row, std::span<Tensor> out) const;

  // That it holds in memory.
  std::size_t num_bytes() const;

  // The result of a map stage's function.
  static PendingElement mapped(const data::Stage& map, const data::ElementContext& context, PendingElement given,
                               StageCounter* counter);
  // The components of all elements, one of each input.
  static PendingElement zipped(const data::Stage& zip, std::vector<PendingElement> elements);
  // A batch, made as `how` says.
  static PendingElement grouped(const data::Stage& batch, const data::BatchStage& how,
                                std::vector<PendingElement> elements, StageCounter* counter);
  static PendingElement of_table(std::shared_ptr<const ElementTable> table, std::uint64_t epoch, std::uint64_t index);
  // Element `number` of a cache stage: kept there once it is made.
  static PendingElement cached(const data::Stage& cache, std::uint64_t number, PendingElement given);
  // One that keeps its stages alive. Making it, element `number`, counts as work of `counter`, or of none.
  static PendingElement kept(data::StageRef stage, PendingElement element, std::uint64_t number, StageCounter* counter);

 private:
  explicit PendingElement(std::unique_ptr<const data::UnmadeElement> unmade) : unmade_(std::move(unmade)) {}

  const data::Stage* source_ = nullptr;
  std::unique_ptr<const data::UnmadeElement> unmade_;  // null: made
  data::Element made_;
  std::uint64_t number_ = 0;
  StageCounter* counter_ = nullptr;
};

std::vector<data::Element> made_of(std::span<const PendingElement> elements);

}  // namespace troupe
