#include "troupe/scheduler/data/pipeline_source.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <troupe/messages/error.hpp>
#include <troupe/scheduler/data/batch_assembly.hpp>
#include <troupe/scheduler/data/batch_ring.hpp>
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

Tensor tensor_of(const BatchComponent& component, std::int64_t examples, const BatchPlan& plan) {
  const Shape shape = component.batch_shape(examples);
  return plan.memory && component.dtype != DType::string ? plan.memory->tensor(component.dtype, shape)
                                                         : Tensor(component.dtype, shape);
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
        ring_(plan) {}

  std::optional<UnmadeBatch> begin(std::uint32_t epoch, std::uint64_t step, std::uint32_t slot) override {
    if (slot >= plan_.slots) invalid_argument("slot {} of {}", slot, plan_.slots);
    if (step >= steps_) return std::nullopt;
    const auto [first, end] = rows_of_slot(plan_, *stage_->size, step, slot);
    return UnmadeBatch{.epoch = epoch, .step = step, .slot = slot, .examples = static_cast<std::int64_t>(end - first)};
  }

  Batch make(UnmadeBatch&& unmade) const override {
    const std::uint64_t all = *stage_->size;
    const auto [first, end] = rows_of_slot(plan_, all, unmade.step, unmade.slot);
    if (fixed_) {
      Batch batch = ring_.take(stage_->schema, unmade.examples);
      for (std::uint64_t i = first; i < end; ++i)
        table_->read_row(unmade.epoch, i % all, static_cast<std::int64_t>(i - first), batch.components);
      return batch;
    }
    std::vector<Element> elements;
    for (std::uint64_t i = first; i < end; ++i) elements.push_back(table_->read(unmade.epoch, i % all));
    return {assemble_batch(how_, stage_->name, stage_->schema, elements, plan_.memory), unmade.examples};
  }

 private:
  const StageRef stage_;
  const data::BatchStage how_;
  const BatchPlan plan_;
  const std::uint64_t steps_;
  const std::shared_ptr<const ElementTable> table_;
  const bool fixed_;
  mutable BatchRing ring_;
};

class StreamReader final : public BatchReader {
 public:
  StreamReader(StageRef stage, data::BatchStage how, const BatchPlan& plan)
      : stage_(std::move(stage)),
        how_(std::move(how)),
        plan_(plan),
        stream_(open_stream(stage_)),
        fixed_(fixed_shapes(stage_->schema)) {}

  std::optional<UnmadeBatch> begin(std::uint32_t epoch, std::uint64_t step, std::uint32_t slot) override {
    if (slot >= plan_.slots) invalid_argument("slot {} of {}", slot, plan_.slots);
    if (!begun_ || epoch != epoch_) begin_epoch(epoch);
    if (loaded_ != step || have_ == 0) go_to(step);
    if (have_ == 0) return std::nullopt;
    const auto [first, end] = rows_of_slot(plan_, have_, 0, slot);
    auto made = std::make_shared<Batch>(Batch{.examples = static_cast<std::int64_t>(end - first)});
    Batch& batch = *made;
    UnmadeBatch unmade{epoch, step, slot, batch.examples, std::move(made)};
    if (!fixed_) {
      const auto examples = std::span(elements_).subspan(first, end - first);
      batch.components = assemble_batch(how_, stage_->name, stage_->schema, examples, plan_.memory);
      return unmade;
    }
    for (const Tensor& rows : rows_) {
      const Tensor part = rows.rows(static_cast<std::int64_t>(first), static_cast<std::int64_t>(end));
      batch.components.push_back(part.aligned() ? part : part.clone());  // bits must not depend on where a slot lies
    }
    return unmade;
  }

  Batch make(UnmadeBatch&& unmade) const override { return *static_cast<const Batch*>(unmade.noted.get()); }

 private:
  static constexpr std::uint64_t kEvery = 64;  // steps between positions that are kept
  std::uint64_t examples_of_step() const { return static_cast<std::uint64_t>(plan_.batch) * plan_.slots; }

  void begin_epoch(std::uint32_t epoch) {
    positions_.clear();
    start(epoch);
    begun_ = true;
    epoch_ = epoch;
  }
  void start(std::uint32_t epoch) {
    stream_->start(epoch);
    next_ = have_ = 0;
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
    do {
      if (!load()) return;
    } while (loaded_ != step);
  }

  // The examples of the next step; false if the epoch is over.
  bool load() {
    if (next_ % kEvery == 0 && !positions_.contains(next_)) stream_->save(positions_[next_]);
    have_ = 0;
    elements_.clear();
    rows_.clear();
    if (fixed_)
      for (const BatchComponent& component : stage_->schema)
        rows_.push_back(tensor_of(component, static_cast<std::int64_t>(examples_of_step()), plan_));
    while (have_ < examples_of_step())
      if (!take(*stream_)) break;
    if (have_ < examples_of_step()) end_of_epoch();
    if (have_ == 0) return false;
    loaded_ = next_++;
    return true;
  }

  bool take(ElementStream& stream) {
    if (fixed_) {
      if (!stream.next_row(static_cast<std::int64_t>(have_), rows_)) return false;
    } else {
      auto element = stream.next();
      if (!element) return false;
      elements_.push_back(std::move(*element));
    }
    ++have_;
    return true;
  }

  // Of the step that the epoch does not fill.
  void end_of_epoch() {
    if (plan_.last == LastStep::drop || (plan_.last == LastStep::keep && have_ < plan_.slots)) have_ = 0;
    if (plan_.last != LastStep::pad || have_ == 0) return;
    const auto again = open_stream(stage_);
    again->start(epoch_);
    while (have_ < examples_of_step())
      if (!take(*again)) again->start(epoch_);
  }

  const StageRef stage_;
  const data::BatchStage how_;
  const BatchPlan plan_;
  const std::unique_ptr<ElementStream> stream_;
  const bool fixed_;
  bool begun_ = false;
  std::uint32_t epoch_ = 0;
  std::uint64_t next_ = 0;    // step
  std::uint64_t loaded_ = 0;  // the step of those below
  // Its examples, of all slots: rows, or of unknown shapes elements.
  std::uint64_t have_ = 0;
  std::vector<Tensor> rows_;
  std::vector<Element> elements_;
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
  if (examples_->forward_because.empty())
    return std::make_unique<TableReader>(examples_, how_, plan, steps_per_epoch(*this, plan));
  return std::make_unique<StreamReader>(examples_, how_, plan);
}

}  // namespace troupe
