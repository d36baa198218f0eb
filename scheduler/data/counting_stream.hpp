// A stream of one input: what ElementStream's implementations have in common.
#pragma once

#include <memory>
#include <utility>

#include <troupe/scheduler/data/element_stream.hpp>
#include <troupe/scheduler/data/pipeline_statistics.hpp>

namespace troupe {

// Counts the elements of its input.
class CountingStream : public ElementStream {
 public:
  // `counter`: of the stage, or null.
  CountingStream(data::StageRef stage, std::unique_ptr<ElementStream> input, StageCounter* counter)
      : stage_(std::move(stage)), input_(std::move(input)), tally_(counter) {}
  void start(std::uint64_t epoch) override {
    epoch_ = epoch;
    taken_ = 0;
    input_->start(epoch);
  }
  void save(StreamPosition& out) const override {
    out.push_back(taken_);
    input_->save(out);
  }
  void restore(PositionReader& in) override {
    taken_ = in.take();
    input_->restore(in);
  }

 protected:
  // The next element of the input, whose number is then taken_ - 1.
  std::optional<PendingElement> take() {
    auto element = input_->next_pending();
    if (element) ++taken_;
    return element;
  }
  std::optional<data::Element> take_made() {
    auto element = input_->next();
    if (element) ++taken_;
    return element;
  }
  bool pass_over() {
    const bool passed = input_->skip();
    if (passed) ++taken_;
    return passed;
  }
  template <class Kind>
  const Kind& kind() const {
    return std::get<Kind>(stage_->kind);
  }

  data::StageRef stage_;
  std::unique_ptr<ElementStream> input_;
  std::uint64_t epoch_ = 0, taken_ = 0;
  StageTally tally_;  // elements passed on
};

// Throws data_loss: the position is none of the stage's.
[[noreturn]] void refuse_position(const data::Stage& stage);

}  // namespace troupe
