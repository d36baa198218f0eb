// Batches of a pipeline (graph/data/pipeline.hpp), for training.
//
//   model.fit(PipelineSource(data::tensors({{"image", images}, {"label", labels}}).shuffle(7)));
//
// The order is the pipeline's: BatchPlan::shuffle and seed do not count. The examples of an epoch are its elements in
// order; step t has the next batch * slots of them, slot after slot. If its last stage is batch or padded_batch, the
// examples are the elements before that, and the batches are made as it says: its size is batch(), which training must
// have, while evaluation may take batches of any size.
//
// With sparse_batch or ragged_batch as its last stage the parts of sparse and ragged tensors are components of the
// batch as a whole (BatchComponent::whole): x.values [n] for any n. Programs take them as they are; a graph does not
// cut them into micro-batches.
//
// With bucketed_batch as its last stage the pipeline itself makes batches, of the buckets' sizes: slot after slot has
// the next of them, and BatchPlan::batch does not count. A step that they do not fill is left out, or with
// LastStep::pad filled from the start.
//
// Addressable pipelines: a reader makes just the examples of the batches that it is asked for. Forward ones: each
// reader goes through all elements up to there, and goes back to a position it has kept when it is asked for an earlier
// step. What does not decide the order is left to make(): records are parsed, and functions of map called, for the
// examples of batches that are made, unless a later stage looks at elements (filter, flat_map, unbatch, window,
// bucketed_batch, the input of interleave).
#pragma once

#include <troupe/graph/data/pipeline.hpp>
#include <troupe/scheduler/data/batch_source.hpp>
#include <troupe/scheduler/data/pipeline_statistics.hpp>

namespace troupe {

class PipelineSource final : public BatchSource {
 public:
  explicit PipelineSource(const data::Pipeline& pipeline);

  const BatchSchema& schema() const override { return schema_; }
  std::optional<std::uint64_t> examples() const override { return bucketed() ? std::nullopt : examples_->size; }
  std::optional<std::int64_t> batch() const override {
    return how_.size == 0 ? std::nullopt : std::optional(how_.size);
  }
  std::string description() const override { return data::describe(whole_, false); }
  std::vector<StageFigures> stages() const override { return statistics_->snapshot(); }
  bool addressable() const override { return examples_->forward_because.empty(); }
  // Throws invalid_argument for a batch or slots below 1.
  std::unique_ptr<BatchReader> open(const BatchPlan& plan) const override;
  // What the stages have done for all readers so far.
  const PipelineStatistics& statistics() const { return *statistics_; }

 private:
  bool bucketed() const { return std::holds_alternative<data::BucketStage>(examples_->kind); }

  std::shared_ptr<PipelineStatistics> statistics_;
  StageCounter* batches_ = nullptr;  // of the last stage, if it makes batches
  data::StageRef whole_, examples_;
  data::BatchStage how_;  // size 0: any
  BatchSchema schema_;    // of batches
};

}  // namespace troupe
