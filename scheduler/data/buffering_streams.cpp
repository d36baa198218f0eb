#include "troupe/scheduler/data/buffering_streams.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include <troupe/messages/error.hpp>
#include <troupe/messages/philox.hpp>
#include <troupe/scheduler/data/batch_assembly.hpp>
#include <troupe/scheduler/data/counting_stream.hpp>
#include <troupe/scheduler/data/permutation.hpp>
#include <troupe/scheduler/data/stage_call.hpp>

namespace troupe {
namespace {

using data::Element;

// Makes several elements of one. Its position is that of the one, and how many of them are made.
class ExpandingStream : public CountingStream {
 public:
  using CountingStream::CountingStream;
  void start(std::uint64_t epoch) override {
    CountingStream::start(epoch);
    made_.clear();
    given_ = 0;
    note();
  }
  std::optional<PendingElement> next_pending() override {
    if (!at_next()) return std::nullopt;
    tally_.add();
    return PendingElement(made_[given_++]);
  }
  bool skip() override {
    if (!at_next()) return false;
    ++given_;
    return true;
  }
  void save(StreamPosition& out) const override {
    // With none left it is the position of the next one: nothing has to be made again.
    const bool left = given_ < made_.size();
    out.push_back(left ? given_ : 0);
    if (left) {
      out.insert(out.end(), before_.begin(), before_.end());
    } else {
      CountingStream::save(out);
    }
  }
  void restore(PositionReader& in) override {
    const std::uint64_t given = in.take();
    CountingStream::restore(in);
    made_.clear();
    given_ = 0;
    note();
    if (given == 0) return;
    if (!expand_next() || given >= made_.size()) refuse_position(*stage_);
    given_ = given;
  }

 protected:
  virtual std::vector<Element> expand(const Element& element) = 0;

 private:
  bool at_next() {
    while (given_ == made_.size())
      if (!expand_next()) return false;
    return true;
  }
  void note() {
    before_.clear();
    CountingStream::save(before_);
  }
  bool expand_next() {
    note();
    const auto element = take_made();
    if (!element) return false;
    made_ = timed(tally_.counter(), taken_ - 1, [&] { return expand(*element); });
    given_ = 0;
    return true;
  }

  std::vector<Element> made_;  // of one
  std::size_t given_ = 0;      // of these
  StreamPosition before_;      // the one
};

class FlatMapStream final : public ExpandingStream {
 public:
  using ExpandingStream::ExpandingStream;

 private:
  std::vector<Element> expand(const Element& element) override {
    auto made = call_stage(*stage_, [&] { return kind<data::FlatMapStage>().function(element, {epoch_, taken_ - 1}); });
    for (const Element& one : made) data::check_element(*stage_, one);
    return made;
  }
};

class UnbatchStream final : public ExpandingStream {
 public:
  using ExpandingStream::ExpandingStream;

 private:
  std::vector<Element> expand(const Element& element) override {
    const std::int64_t rows = element[0].shape()[0];
    std::vector<Element> made(static_cast<std::size_t>(rows));
    for (std::size_t i = 0; i < element.size(); ++i) {
      const Shape& shape = element[i].shape();
      if (shape[0] != rows)
        fail(Code::data_loss, "stage '{}': '{}' has {} rows, '{}' has {}", stage_->name, stage_->schema[i].name,
             shape[0], stage_->schema[0].name, rows);
      for (std::int64_t row = 0; row < rows; ++row)
        made[static_cast<std::size_t>(row)].push_back(
            element[i].rows(row, row + 1).reshaped(shape.sub(1, shape.rank())));
    }
    return made;
  }
};

// Shuffles block by block: the position is that of the block, and how many of its elements are given. A window that
// slides would have to keep its elements in the position.
class ShuffleStream final : public CountingStream {
 public:
  using CountingStream::CountingStream;
  ~ShuffleStream() override { forget(); }
  void start(std::uint64_t epoch) override {
    CountingStream::start(epoch);
    forget();
    block_ = 0;
  }
  std::optional<PendingElement> next_pending() override {
    if (given_ == order_.size() && !fill()) return std::nullopt;
    tally_.add();
    return std::move(elements_[order_[given_++]]);
  }
  bool skip() override {
    if (given_ == order_.size() && !fill()) return false;
    ++given_;
    return true;
  }
  void save(StreamPosition& out) const override {
    const bool left = given_ < order_.size();
    out.push_back(left ? block_ - 1 : block_);
    out.push_back(left ? given_ : 0);
    if (left)
      out.insert(out.end(), before_.begin(), before_.end());
    else
      CountingStream::save(out);
  }
  void restore(PositionReader& in) override {
    block_ = in.take();
    const std::uint64_t given = in.take();
    CountingStream::restore(in);
    forget();
    if (given == 0) return;
    if (!fill() || given >= order_.size()) refuse_position(*stage_);
    given_ = given;
  }

 private:
  void forget() {
    elements_.clear();
    order_.clear();
    given_ = 0;
    if (tally_.counter()) tally_.counter()->hold(-std::exchange(held_, 0));
  }
  bool fill() {
    const auto& how = kind<data::ShuffleStage>();
    before_.clear();
    CountingStream::save(before_);
    forget();
    while (elements_.size() < how.buffer) {
      auto element = take();
      if (!element) break;
      if (tally_.counter()) held_ += static_cast<std::int64_t>(element->num_bytes());
      elements_.push_back(std::move(*element));
    }
    if (tally_.counter()) tally_.counter()->hold(held_);
    const std::uint64_t epoch = how.each_epoch ? epoch_ : 0;
    order_ = permutation(mix64(how.seed ^ mix64(block_++)), epoch, elements_.size());
    return !elements_.empty();
  }

  std::vector<PendingElement> elements_;  // of the block
  std::vector<std::uint32_t> order_;
  std::size_t given_ = 0;
  std::uint64_t block_ = 0;  // the next to fill
  std::int64_t held_ = 0;    // bytes of the block
  StreamPosition before_;    // the block
};

class WindowStream final : public CountingStream {
 public:
  using CountingStream::CountingStream;
  void start(std::uint64_t epoch) override {
    CountingStream::start(epoch);
    kept_.clear();
    to_drop_ = 0;
  }
  std::optional<PendingElement> next_pending() override {
    const auto& how = kind<data::WindowStage>();
    // Those before the window that the last one left.
    while (to_drop_ > 0 && !kept_.empty()) {
      kept_.pop_front();
      --to_drop_;
    }
    for (; to_drop_ > 0; --to_drop_)
      if (!pass_over()) return std::nullopt;
    while (std::ssize(kept_) < how.size) {
      StreamPosition before;
      CountingStream::save(before);
      auto element = take_made();
      if (!element) return std::nullopt;
      kept_.push_back({std::move(*element), std::move(before)});
    }
    std::vector<Element> elements;
    for (const Kept& kept : kept_) elements.push_back(kept.element);
    to_drop_ = static_cast<std::uint64_t>(how.shift);
    tally_.add();
    return PendingElement(timed(tally_.counter(), tally_.count(), [&] {
      return assemble_batch({.size = how.size}, stage_->name, stage_->inputs[0]->schema, elements);
    }));
  }
  void save(StreamPosition& out) const override {
    const std::uint64_t drop = std::min<std::uint64_t>(to_drop_, kept_.size());
    out.push_back(to_drop_ - drop);
    if (drop < kept_.size()) {
      const StreamPosition& first = kept_[drop].before;
      out.insert(out.end(), first.begin(), first.end());
    } else {
      CountingStream::save(out);
    }
  }
  void restore(PositionReader& in) override {
    to_drop_ = in.take();
    kept_.clear();
    CountingStream::restore(in);
  }

 private:
  struct Kept {
    Element element;
    StreamPosition before;
  };
  std::deque<Kept> kept_;
  std::uint64_t to_drop_ = 0;
};

}  // namespace

std::unique_ptr<ElementStream> flat_map_stream(const data::StageRef& stage, std::unique_ptr<ElementStream> input,
                                               StageCounter* counter) {
  return std::make_unique<FlatMapStream>(stage, std::move(input), counter);
}
std::unique_ptr<ElementStream> unbatch_stream(const data::StageRef& stage, std::unique_ptr<ElementStream> input,
                                              StageCounter* counter) {
  return std::make_unique<UnbatchStream>(stage, std::move(input), counter);
}
std::unique_ptr<ElementStream> shuffle_stream(const data::StageRef& stage, std::unique_ptr<ElementStream> input,
                                              StageCounter* counter) {
  return std::make_unique<ShuffleStream>(stage, std::move(input), counter);
}
std::unique_ptr<ElementStream> window_stream(const data::StageRef& stage, std::unique_ptr<ElementStream> input,
                                             StageCounter* counter) {
  return std::make_unique<WindowStream>(stage, std::move(input), counter);
}

}  // namespace troupe
