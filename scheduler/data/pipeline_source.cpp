#include "troupe/scheduler/data/pipeline_source.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include <troupe/graph/data/composite.hpp>
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

bool has_parts(const data::BatchStage& how) {
  return how.uneven == data::Uneven::sparse || how.uneven == data::Uneven::ragged;
}

// Whether examples are rows of one size.
bool fixed_rows(const BatchSchema& schema, const data::BatchStage& how) {
  return !has_parts(how) && std::ranges::all_of(schema, [](const BatchComponent& c) { return c.shape.fully_known(); });
}

// Of the last stage, and of what it makes batches of.
BatchSchema schema_of_batches(const data::Stage& last, const data::Stage& examples) {
  const auto* how = std::get_if<data::BatchStage>(&last.kind);
  if (!how || !has_parts(*how)) return examples.schema;
  BatchSchema out = last.schema;
  for (const data::Composite& composite : data::composites_of(last.schema)) {
    BatchComponent& first = out[composite.first];
    if (composite.kind == data::Composite::Kind::tensor)
      first.shape = first.shape.sub(1, first.shape.rank());
    else
      for (std::size_t i = 0; i < composite.parts(); ++i) out[composite.first + i].whole = true;
  }
  return out;
}

class TableReader final : public BatchReader {
 public:
  TableReader(StageRef stage, data::BatchStage how, const BatchPlan& plan, std::optional<std::uint64_t> steps,
              std::shared_ptr<const PipelineStatistics> statistics, StageCounter* batches)
      : stage_(std::move(stage)),
        how_(std::move(how)),
        plan_(plan),
        steps_(*steps),
        statistics_(std::move(statistics)),
        table_(open_table(stage_, statistics_.get())),
        batches_(batches),
        fixed_(fixed_rows(stage_->schema, how_)),
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
    table_->count(end - first);
    if (batches_) batches_->add(1);
    if (fixed_) {
      Batch batch = ring_.take(stage_->schema, unmade.examples);
      std::vector<std::uint64_t> indices;
      for (std::uint64_t i = first; i < end; ++i) indices.push_back(i % all);
      table_->read_rows(unmade.epoch, indices, 0, batch.components);
      return batch;
    }
    std::vector<Element> elements;
    for (std::uint64_t i = first; i < end; ++i) elements.push_back(table_->read(unmade.epoch, i % all));
    return timed(batches_, 0, [&]() -> Batch {
      return {assemble_batch(how_, stage_->name, stage_->schema, elements, plan_.memory), unmade.examples};
    });
  }

 private:
  const StageRef stage_;
  const data::BatchStage how_;
  const BatchPlan plan_;
  const std::uint64_t steps_;
  const std::shared_ptr<const PipelineStatistics> statistics_;
  const std::shared_ptr<const ElementTable> table_;
  StageCounter* const batches_;  // null: the pipeline makes none
  const bool fixed_;
  mutable BatchRing ring_;
};

// The examples of a step, of all slots: not made.
using StepElements = std::vector<PendingElement>;

// Of a stage whose elements are batches already: each is an example here.
BatchPlan of_single_elements(BatchPlan plan) {
  plan.batch = 1;
  return plan;
}

BatchPlan with_one_more(BatchPlan plan) {
  ++plan.in_use;
  return plan;
}

class StreamReader final : public BatchReader {
 public:
  StreamReader(StageRef stage, data::BatchStage how, const BatchPlan& plan,
               std::shared_ptr<const PipelineStatistics> statistics, StageCounter* batches)
      : stage_(std::move(stage)),
        how_(std::move(how)),
        plan_(plan),
        statistics_(std::move(statistics)),
        batches_(batches),
        stream_(open_stream(stage_, statistics_.get())),
        whole_(std::holds_alternative<data::BucketStage>(stage_->kind)),
        fixed_(!whole_ && fixed_rows(stage_->schema, how_)),
        ring_(with_one_more(plan)) {}

  std::optional<UnmadeBatch> begin(std::uint32_t epoch, std::uint64_t step, std::uint32_t slot) override {
    if (slot >= plan_.slots) invalid_argument("slot {} of {}", slot, plan_.slots);
    come_to(epoch);
    if (!begun_ || begun_step_ != step) {
      auto elements = std::make_shared<StepElements>();
      const std::uint64_t have = fill(step, [&](ElementStream& stream) {
        auto element = stream.next_pending();
        if (element) elements->push_back(std::move(*element));
        return element.has_value();
      });
      if (have == 0) return std::nullopt;
      begun_ = std::move(elements);
      begun_step_ = step;
    }
    const auto [first, end] = rows_of_slot(plan_, begun_->size(), 0, slot);
    return UnmadeBatch{
        epoch, step, slot, whole_ ? 0 : static_cast<std::int64_t>(end - first), begun_, position_of(step, slot)};
  }

  void go_on_from(const DataPlace& place) override {
    if (place.position.empty()) return;
    if (place.epoch == epoch_)
      positions_.emplace(place.step, place.position);
    else
      place_ = place;
  }

  Batch make(UnmadeBatch&& unmade) const override {
    const std::span<const PendingElement> all = *static_cast<const StepElements*>(unmade.noted.get());
    const auto [first, end] = rows_of_slot(plan_, all.size(), 0, unmade.slot);
    const auto examples = all.subspan(first, end - first);
    if (whole_) {
      Batch batch{.components = examples.front().make(), .position = std::move(unmade.position)};
      batch.examples = batch.components.at(0).shape()[0];
      return batch;
    }
    if (batches_) batches_->add(1);
    if (!fixed_) {
      const std::vector<Element> made = made_of(examples);
      return timed(batches_, 0, [&]() -> Batch {
        return {assemble_batch(how_, stage_->name, stage_->schema, made, plan_.memory), unmade.examples,
                std::move(unmade.position)};
      });
    }
    Batch batch = ring_.take(stage_->schema, unmade.examples);
    for (std::size_t i = 0; i < examples.size(); ++i)
      examples[i].make_row(static_cast<std::int64_t>(i), batch.components);
    batch.position = std::move(unmade.position);
    return batch;
  }

  // With one slot elements go straight to their rows.
  std::optional<Batch> read(std::uint32_t epoch, std::uint64_t step, std::uint32_t slot) override {
    if (!fixed_ || plan_.slots > 1) return BatchReader::read(epoch, step, slot);
    if (slot >= plan_.slots) invalid_argument("slot {} of {}", slot, plan_.slots);
    come_to(epoch);
    if (read_ && read_step_ == step) return read_;
    read_.reset();
    Batch batch = ring_.take(stage_->schema, plan_.batch);
    std::int64_t row = 0;
    const std::uint64_t have =
        fill(step, [&](ElementStream& stream) { return stream.next_row(row, batch.components) && ++row > 0; });
    if (have == 0) return std::nullopt;
    if (batches_) batches_->add(1);
    batch.examples = static_cast<std::int64_t>(have);
    if (batch.examples < plan_.batch)
      for (Tensor& tensor : batch.components) tensor = tensor.rows(0, batch.examples);
    batch.position = position_of(step, slot);
    read_ = std::move(batch);
    read_step_ = step;
    return read_;
  }

 private:
  static constexpr std::uint64_t kEvery = 64;  // steps between positions that are kept
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  std::uint64_t examples_of_step() const { return static_cast<std::uint64_t>(plan_.batch) * plan_.slots; }

  void come_to(std::uint32_t epoch) {
    if (epoch_ == epoch) return;
    epoch_ = epoch;
    positions_.clear();
    begun_.reset();
    read_.reset();
    next_ = end_ = kNone;
    if (place_.epoch == epoch && !place_.position.empty()) positions_.emplace(place_.step, place_.position);
  }

  // Of a step that has been read. The first slot's batch tells it.
  StreamPosition position_of(std::uint64_t step, std::uint32_t slot) const {
    const auto kept = positions_.find(step);
    return slot == 0 && kept != positions_.end() ? kept->second : StreamPosition();
  }

  // Calls `take` with a stream for each example of the step, while it finds one. Returns how many it has found; 0: the
  // epoch is over before the step.
  template <class Take>
  std::uint64_t fill(std::uint64_t step, Take&& take) {
    if (!go_to(step)) return 0;
    const std::uint64_t all = examples_of_step();
    std::uint64_t have = pass(step, take);
    if (have == all) return have;
    if (plan_.last == LastStep::drop || (plan_.last == LastStep::keep && have < plan_.slots)) have = 0;
    end_ = have == 0 ? step : step + 1;
    if (plan_.last != LastStep::pad || have == 0) return have;
    const auto again = open_stream(stage_, statistics_.get());
    for (again->start(*epoch_); have < all; ++have)
      while (!take(*again)) again->start(*epoch_);
    return have;
  }

  // Brings the stream to a step; false if the epoch is over before.
  bool go_to(std::uint64_t step) {
    if (step >= end_) return false;
    const auto later = positions_.upper_bound(step);
    const auto kept = later == positions_.begin() ? positions_.end() : std::prev(later);
    if (step < next_ || (kept != positions_.end() && kept->first > next_)) {
      next_ = kNone;
      stream_->start(*epoch_);
      if (kept != positions_.end()) {
        PositionReader in(kept->second);
        stream_->restore(in);
      }
      next_ = kept == positions_.end() ? 0 : kept->first;
    }
    while (next_ < step) {
      const std::uint64_t passed = next_;
      if (pass(passed, [](ElementStream& stream) { return stream.skip(); }) == examples_of_step()) continue;
      end_ = passed + 1;  // at most: it has not all of its examples
      return false;
    }
    return true;
  }

  // Takes the examples of the step that the stream is at. Until it is at the next, and if that fails, it is nowhere.
  template <class Take>
  std::uint64_t pass(std::uint64_t step, Take&& take) {
    next_ = kNone;
    if (step % kEvery == 0 && !positions_.contains(step)) {
      StreamPosition position;
      stream_->save(position);
      positions_.emplace(step, std::move(position));
    }
    std::uint64_t have = 0;
    while (have < examples_of_step() && take(*stream_)) ++have;
    if (have == examples_of_step()) next_ = step + 1;
    return have;
  }

  const StageRef stage_;
  const data::BatchStage how_;
  const BatchPlan plan_;
  const std::shared_ptr<const PipelineStatistics> statistics_;
  StageCounter* const batches_;  // null: the pipeline makes none
  const std::unique_ptr<ElementStream> stream_;
  const bool whole_;  // elements are batches
  const bool fixed_;
  mutable BatchRing ring_;
  std::optional<std::uint32_t> epoch_;
  std::uint64_t next_ = kNone;                 // the step that the stream is at; none: it is nowhere
  std::uint64_t end_ = kNone;                  // the epoch is over before this step; none: not known
  std::shared_ptr<const StepElements> begun_;  // of the step begun last
  std::uint64_t begun_step_ = 0;
  std::optional<Batch> read_;  // with one slot
  std::uint64_t read_step_ = 0;
  std::map<std::uint64_t, StreamPosition> positions_;  // by step
  DataPlace place_;                                    // of an epoch that is still to come
};

}  // namespace

PipelineSource::PipelineSource(const data::Pipeline& pipeline)
    : statistics_(std::make_shared<PipelineStatistics>(pipeline.stage())),
      whole_(pipeline.stage()),
      examples_(whole_),
      how_{.size = 0} {
  if (const auto* batch = std::get_if<data::BatchStage>(&examples_->kind)) {
    how_ = *batch;
    batches_ = statistics_->of(*examples_);
    examples_ = examples_->inputs[0];
  }
  schema_ = bucketed() ? examples_->inputs[0]->schema : schema_of_batches(*whole_, *examples_);
}

std::unique_ptr<BatchReader> PipelineSource::open(const BatchPlan& plan) const {
  check_plan(plan);
  if (examples_->forward_because.empty())
    return std::make_unique<TableReader>(examples_, how_, plan, steps_per_epoch(*this, plan), statistics_, batches_);
  return std::make_unique<StreamReader>(examples_, how_, bucketed() ? of_single_elements(plan) : plan, statistics_,
                                        batches_);
}

}  // namespace troupe
