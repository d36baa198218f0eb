#include "troupe/scheduler/data/pending_element.hpp"

#include <iterator>

#include <troupe/scheduler/data/batch_assembly.hpp>
#include <troupe/scheduler/data/stage_call.hpp>

namespace troupe {
namespace {

using data::Element;
using data::UnmadeElement;

class MappedElement final : public UnmadeElement {
 public:
  MappedElement(const data::Stage& map, const data::ElementContext& context, PendingElement given,
                StageCounter* counter)
      : map_(map), context_(context), given_(std::move(given)), counter_(counter) {}
  Element make() const override { return mapped(map_, given_.make(), context_, counter_); }
  void make_row(std::int64_t row, std::span<Tensor> out) const override {
    mapped_to_row(map_, given_.make(), context_, row, out, counter_);
  }
  std::size_t num_bytes() const override { return given_.num_bytes(); }

 private:
  const data::Stage& map_;
  const data::ElementContext context_;
  const PendingElement given_;
  StageCounter* const counter_;
};

std::size_t bytes_of(std::span<const PendingElement> elements) {
  std::size_t bytes = 0;
  for (const PendingElement& element : elements) bytes += element.num_bytes();
  return bytes;
}

class ZippedElement final : public UnmadeElement {
 public:
  ZippedElement(const data::Stage& zip, std::vector<PendingElement> elements)
      : zip_(zip), elements_(std::move(elements)) {}
  Element make() const override {
    Element out;
    for (const PendingElement& element : elements_) {
      Element part = element.make();
      std::move(part.begin(), part.end(), std::back_inserter(out));
    }
    return out;
  }
  void make_row(std::int64_t row, std::span<Tensor> out) const override {
    for (std::size_t i = 0; i < elements_.size(); ++i) {
      const std::size_t width = zip_.inputs[i]->schema.size();
      elements_[i].make_row(row, out.first(width));
      out = out.subspan(width);
    }
  }
  std::size_t num_bytes() const override { return bytes_of(elements_); }

 private:
  const data::Stage& zip_;
  const std::vector<PendingElement> elements_;
};

class GroupedElement final : public UnmadeElement {
 public:
  GroupedElement(const data::Stage& batch, const data::BatchStage& how, std::vector<PendingElement> elements,
                 StageCounter* counter)
      : batch_(batch), how_(how), elements_(std::move(elements)), counter_(counter) {}
  Element make() const override {
    const std::vector<Element> made = made_of(elements_);
    if (counter_) counter_->add(1);
    return timed(counter_, 0, [&] { return assemble_batch(how_, batch_.name, batch_.inputs[0]->schema, made); });
  }
  std::size_t num_bytes() const override { return bytes_of(elements_); }

 private:
  const data::Stage& batch_;
  const data::BatchStage& how_;
  const std::vector<PendingElement> elements_;
  StageCounter* const counter_;
};

class TableElement final : public UnmadeElement {
 public:
  TableElement(std::shared_ptr<const ElementTable> table, std::uint64_t epoch, std::uint64_t index)
      : table_(std::move(table)), epoch_(epoch), index_(index) {}
  Element make() const override {
    table_->count(1);
    return table_->read(epoch_, index_);
  }
  void make_row(std::int64_t row, std::span<Tensor> out) const override {
    table_->count(1);
    table_->read_row(epoch_, index_, row, out);
  }

 private:
  const std::shared_ptr<const ElementTable> table_;
  const std::uint64_t epoch_, index_;
};

class CachedElement final : public UnmadeElement {
 public:
  CachedElement(const data::Stage& cache, std::uint64_t number, PendingElement given)
      : cache_(cache), number_(number), given_(std::move(given)) {}
  Element make() const override {
    data::ElementCache& cache = *std::get<data::CacheStage>(cache_.kind).cache;
    if (auto kept = cache.find(number_)) return std::move(*kept);
    Element element = given_.make();
    call_stage(cache_, [&] { cache.put(number_, element); });
    return element;
  }
  std::size_t num_bytes() const override { return given_.num_bytes(); }

 private:
  const data::Stage& cache_;
  const std::uint64_t number_;
  const PendingElement given_;
};

class KeptElement final : public UnmadeElement {
 public:
  KeptElement(data::StageRef stage, PendingElement element, std::uint64_t number, StageCounter* counter)
      : stage_(std::move(stage)), element_(std::move(element)), number_(number), counter_(counter) {}
  Element make() const override {
    return timed(counter_, number_, [&] { return element_.make(); });
  }
  void make_row(std::int64_t row, std::span<Tensor> out) const override {
    timed(counter_, number_, [&] { element_.make_row(row, out); });
  }
  std::size_t num_bytes() const override { return element_.num_bytes(); }

 private:
  const data::StageRef stage_;
  const PendingElement element_;
  const std::uint64_t number_;
  StageCounter* const counter_;
};

}  // namespace

Element PendingElement::make() const {
  if (!unmade_) return made_;
  if (!source_) return unmade_->make();
  Element element = call_stage(*source_, [&] { return timed(counter_, number_, [&] { return unmade_->make(); }); });
  data::check_element(*source_, element);
  return element;
}

void PendingElement::make_row(std::int64_t row, std::span<Tensor> out) const {
  if (!unmade_) return data::copy_to_row(made_, row, out);
  if (!source_) return unmade_->make_row(row, out);
  call_stage(*source_, [&] { timed(counter_, number_, [&] { unmade_->make_row(row, out); }); });
}

std::size_t PendingElement::num_bytes() const { return unmade_ ? unmade_->num_bytes() : data::num_bytes(made_); }

PendingElement PendingElement::mapped(const data::Stage& map, const data::ElementContext& context, PendingElement given,
                                      StageCounter* counter) {
  return PendingElement(std::make_unique<const MappedElement>(map, context, std::move(given), counter));
}
PendingElement PendingElement::zipped(const data::Stage& zip, std::vector<PendingElement> elements) {
  return PendingElement(std::make_unique<const ZippedElement>(zip, std::move(elements)));
}
PendingElement PendingElement::grouped(const data::Stage& batch, const data::BatchStage& how,
                                       std::vector<PendingElement> elements, StageCounter* counter) {
  return PendingElement(std::make_unique<const GroupedElement>(batch, how, std::move(elements), counter));
}
PendingElement PendingElement::of_table(std::shared_ptr<const ElementTable> table, std::uint64_t epoch,
                                        std::uint64_t index) {
  return PendingElement(std::make_unique<const TableElement>(std::move(table), epoch, index));
}
PendingElement PendingElement::cached(const data::Stage& cache, std::uint64_t number, PendingElement given) {
  return PendingElement(std::make_unique<const CachedElement>(cache, number, std::move(given)));
}
PendingElement PendingElement::kept(data::StageRef stage, PendingElement element, std::uint64_t number,
                                    StageCounter* counter) {
  return PendingElement(std::make_unique<const KeptElement>(std::move(stage), std::move(element), number, counter));
}

std::vector<Element> made_of(std::span<const PendingElement> elements) {
  std::vector<Element> out;
  out.reserve(elements.size());
  for (const PendingElement& element : elements) out.push_back(element.make());
  return out;
}

}  // namespace troupe
