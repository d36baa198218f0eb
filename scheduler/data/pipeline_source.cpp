#include "troupe/scheduler/data/pipeline_source.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <troupe/messages/error.hpp>
#include <troupe/scheduler/data/batch_assembly.hpp>
#include <troupe/scheduler/data/element_stream.hpp>
#include <troupe/scheduler/data/element_table.hpp>
#include <troupe/scheduler/data/slot_rows.hpp>

namespace troupe {
namespace {

using data::Element;
using data::StageRef;

bool fixed_shapes(const BatchSchema& schema) {
  return std::ranges::all_of(schema, [](const BatchComponent& c) { return c.shape.fully_known(); });
}

class TableReader final : public BatchReader {
 public:
  TableReader(StageRef stage, data::BatchStage how, const BatchPlan& plan, std::optional<std::uint64_t> steps)
      : stage_(std::move(stage)),
        how_(std::move(how)),
        plan_(plan),
        steps_(*steps),
        table_(open_table(stage_)),
        fixed_(fixed_shapes(stage_->schema)),
        ring_(std::max<std::size_t>(1, plan.in_use)) {}

  std::optional<Batch> read(std::uint32_t epoch, std::uint64_t step, std::uint32_t slot) override {
    if (slot >= plan_.slots) invalid_argument("slot {} of {}", slot, plan_.slots);
    if (step >= steps_) return std::nullopt;
    const std::uint64_t all = *stage_->size;
    const auto [first, end] = rows_of_slot(plan_, all, step, slot);
    Batch& batch = ring_[next_];
    next_ = (next_ + 1) % ring_.size();
    batch.examples = static_cast<std::int64_t>(end - first);
    if (fixed_) {
      make_room(batch);
      for (std::uint64_t i = first; i < end; ++i)
        table_->read_row(epoch, i % all, static_cast<std::int64_t>(i - first), batch.components);
    } else {
      std::vector<Element> elements;
      for (std::uint64_t i = first; i < end; ++i) elements.push_back(table_->read(epoch, i % all));
      batch.components = assemble_batch(how_, stage_->name, stage_->schema, elements, plan_.memory);
    }
    return batch;
  }

 private:
  void make_room(Batch& batch) const {
    batch.components.resize(stage_->schema.size());
    for (std::size_t i = 0; i < stage_->schema.size(); ++i) {
      const BatchComponent& component = stage_->schema[i];
      Tensor& tensor = batch.components[i];
      const Shape shape = component.batch_shape(batch.examples);
      if (tensor.valid() && tensor.shape() == shape && tensor.unique()) continue;
      tensor = plan_.memory && component.dtype != DType::string ? plan_.memory->tensor(component.dtype, shape)
                                                                : Tensor(component.dtype, shape);
    }
  }

  const StageRef stage_;
  const data::BatchStage how_;
  const BatchPlan plan_;
  const std::uint64_t steps_;
  const std::shared_ptr<const ElementTable> table_;
  const bool fixed_;
  std::vector<Batch> ring_;
  std::size_t next_ = 0;
};

class StreamReader final : public BatchReader {
 public:
  StreamReader(StageRef stage, data::BatchStage how, const BatchPlan& plan)
      : stage_(std::move(stage)), how_(std::move(how)), plan_(plan), stream_(open_stream(stage_)) {}

  std::optional<Batch> read(std::uint32_t epoch, std::uint64_t step, std::uint32_t slot) override {
    if (slot >= plan_.slots) invalid_argument("slot {} of {}", slot, plan_.slots);
    if (!begun_ || epoch != epoch_) begin(epoch);
    if (loaded_ != step || step_.empty()) go_to(step);
    if (step_.empty()) return std::nullopt;
    const auto [first, end] = rows_of_slot(plan_, step_.size(), 0, slot);
    return Batch{
        assemble_batch(how_, stage_->name, stage_->schema, std::span(step_).subspan(first, end - first), plan_.memory),
        static_cast<std::int64_t>(end - first)};
  }

 private:
  static constexpr std::uint64_t kEvery = 64;  // steps between positions that are kept
  std::uint64_t examples_of_step() const { return static_cast<std::uint64_t>(plan_.batch) * plan_.slots; }

  void begin(std::uint32_t epoch) {
    positions_.clear();
    start(epoch);
    begun_ = true;
    epoch_ = epoch;
  }
  void start(std::uint32_t epoch) {
    stream_->start(epoch);
    next_ = 0;
    step_.clear();
  }

  void go_to(std::uint64_t step) {
    if (step < next_) {
      start(epoch_);
      const auto kept = positions_.upper_bound(step);
      if (kept != positions_.begin()) {
        const auto& [at, position] = *std::prev(kept);
        PositionReader in(position);
        stream_->restore(in);
        next_ = at;
      }
    }
    step_.clear();
    while (next_ <= step)
      if (!load()) return;
  }

  // The examples of the next step; false if the epoch is over.
  bool load() {
    if (next_ % kEvery == 0 && !positions_.contains(next_)) stream_->save(positions_[next_]);
    step_.clear();
    while (step_.size() < examples_of_step()) {
      auto element = stream_->next();
      if (!element) break;
      step_.push_back(std::move(*element));
    }
    if (step_.size() < examples_of_step()) end_of_epoch();
    if (step_.empty()) return false;
    loaded_ = next_++;
    return true;
  }

  void end_of_epoch() {
    const bool keep = plan_.last == LastStep::keep && step_.size() >= plan_.slots;
    const bool pad = plan_.last == LastStep::pad && !step_.empty();
    if (!keep && !pad) return step_.clear();
    if (!pad) return;
    const auto again = open_stream(stage_);
    again->start(epoch_);
    while (step_.size() < examples_of_step()) {
      auto element = again->next();
      if (element)
        step_.push_back(std::move(*element));
      else
        again->start(epoch_);
    }
  }

  const StageRef stage_;
  const data::BatchStage how_;
  const BatchPlan plan_;
  const std::unique_ptr<ElementStream> stream_;
  bool begun_ = false;
  std::uint32_t epoch_ = 0;
  std::uint64_t next_ = 0;                             // step
  std::uint64_t loaded_ = 0;                           // the step of step_
  std::vector<Element> step_;                          // its examples, of all slots
  std::map<std::uint64_t, StreamPosition> positions_;  // by step
};

}  // namespace

PipelineSource::PipelineSource(const data::Pipeline& pipeline) : examples_(pipeline.stage()), how_{.size = 0} {
  if (const auto* batch = std::get_if<data::BatchStage>(&examples_->kind)) {
    how_ = *batch;
    examples_ = examples_->inputs[0];
  }
}

std::unique_ptr<BatchReader> PipelineSource::open(const BatchPlan& plan) const {
  check_plan(plan);
  if (how_.size != 0 && how_.size != plan.batch)
    invalid_argument("the pipeline makes batches of {}, but batches of {} are wanted: make them equal", how_.size,
                     plan.batch);
  if (examples_->forward_because.empty())
    return std::make_unique<TableReader>(examples_, how_, plan, steps_per_epoch(*this, plan));
  return std::make_unique<StreamReader>(examples_, how_, plan);
}

}  // namespace troupe
