// Stages of pipelines that group elements by length, keep them, or have pipelines of their own.
#include <algorithm>
#include <memory>
#include <utility>

#include <troupe/graph/data/pipeline.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::data {
namespace {

std::string stage_named(const std::string& kind, const std::string& name) {
  return name.empty() ? kind : fmt::format("{} {}", kind, name);
}

// A generator's elements. Positions are numbers of elements.
class GeneratedElements final : public ElementSource {
 public:
  GeneratedElements(std::function<Generator(std::uint64_t)> begin, std::uint64_t splits)
      : begin_(std::move(begin)), splits_(splits) {}
  std::uint64_t splits() const override { return splits_; }
  std::unique_ptr<ElementCursor> open(std::uint64_t split) const override {
    return std::make_unique<Cursor>(begin_, split);
  }

 private:
  class Cursor final : public ElementCursor {
   public:
    Cursor(const std::function<Generator(std::uint64_t)>& begin, std::uint64_t split)
        : begin_(begin), split_(split), generator_(begin(split)) {}
    bool next(Element& element) override {
      auto made = ended_ ? std::nullopt : generator_();
      ended_ = !made;  // a generator is not asked again
      if (ended_) return false;
      element = std::move(*made);
      ++at_;
      return true;
    }
    std::uint64_t position() const override { return at_; }
    void seek(std::uint64_t position) override {
      if (position < at_ || ended_) {
        generator_ = begin_(split_);
        at_ = 0;
        ended_ = false;
      }
      Element passed;
      while (at_ < position)
        if (!next(passed))
          fail(Code::data_loss, "the generator of split {} has made {} elements, but at least {} before", split_, at_,
               position);
    }

   private:
    const std::function<Generator(std::uint64_t)>& begin_;
    const std::uint64_t split_;
    Generator generator_;
    std::uint64_t at_ = 0;
    bool ended_ = false;
  };

  const std::function<Generator(std::uint64_t)> begin_;
  const std::uint64_t splits_;
};

}  // namespace

Pipeline generate(const std::string& name, BatchSchema schema, std::function<Generator(std::uint64_t split)> begin,
                  std::uint64_t splits, SplitsOptions options) {
  if (!begin) invalid_argument("stage '{}': there is no function that makes generators", name);
  return from_source(name, std::move(schema), std::make_shared<const GeneratedElements>(std::move(begin), splits),
                     options);
}

Pipeline Pipeline::enumerate(const std::string& component) const {
  BatchSchema numbered = schema();
  numbered.push_back({component, DType::i64, Shape{}});
  const auto number = [](const Element& element, const ElementContext& context) {
    Element out = element;
    out.push_back(Tensor::scalar(static_cast<std::int64_t>(context.number)));
    return out;
  };
  return then("enumerate", MapStage{.function = number}, std::move(numbered), size(), {});
}

Pipeline Pipeline::cache(std::uint64_t limit) const {
  return then("cache", CacheStage{std::make_shared<ElementCache>(limit)}, schema(), size(), {});
}

Pipeline Pipeline::interleave(const std::string& name, BatchSchema schema,
                              std::function<Pipeline(const Element&, const ElementContext&)> function,
                              InterleaveOptions options) const {
  const std::string stage = stage_named("interleave", name);
  if (options.cycle == 0 || options.block == 0)
    invalid_argument("stage '{}': cycle {} and block {} must be at least 1", stage, options.cycle, options.block);
  return then(
      stage,
      InterleaveStage{.function = [function = std::move(function)](
                                      const Element& element,
                                      const ElementContext& context) { return function(element, context).stage(); },
                      .cycle = options.cycle,
                      .block = options.block},
      std::move(schema), std::nullopt, fmt::format("stage '{}' makes any number of elements of one", stage));
}

Pipeline Pipeline::bucketed_batch(std::function<std::int64_t(const Element&)> length, BucketOptions options) const {
  const std::string name = "bucketed_batch";
  if (options.sizes.size() != options.boundaries.size() + 1)
    invalid_argument("stage '{}': {} batch sizes for {} boundaries, expected {}", name, options.sizes.size(),
                     options.boundaries.size(), options.boundaries.size() + 1);
  if (std::ranges::adjacent_find(options.boundaries, std::greater_equal<>()) != options.boundaries.end())
    invalid_argument("stage '{}': the boundaries must ascend", name);
  if (std::ranges::any_of(options.sizes, [](std::int64_t size) { return size < 1; }))
    invalid_argument("stage '{}': a batch has at least 1 element", name);
  const Stage padded = *padded_batch(1, std::move(options.padding)).stage();  // checks the padding
  BatchSchema batches = schema();
  for (BatchComponent& component : batches) component.shape = component.batch_shape(kUnknown);
  return then(name,
              BucketStage{.length = std::move(length),
                          .boundaries = std::move(options.boundaries),
                          .sizes = std::move(options.sizes),
                          .batch = {.drop_rest = options.drop_rest,
                                    .uneven = Uneven::pad,
                                    .padding = std::get<BatchStage>(padded.kind).padding}},
              std::move(batches), std::nullopt, fmt::format("stage '{}' sorts elements by their length", name));
}

Pipeline Pipeline::bucketed_batch(const std::string& component, BucketOptions options) const {
  const auto found = std::ranges::find(schema(), component, &BatchComponent::name);
  if (found == schema().end() || found->shape.rank() == 0)
    invalid_argument("stage 'bucketed_batch': {} '{}' in {}",
                     found == schema().end() ? "there is no component" : "a scalar has no length: component", component,
                     to_string(schema()));
  const auto at = static_cast<std::size_t>(found - schema().begin());
  return bucketed_batch([at](const Element& element) { return element[at].shape()[0]; }, std::move(options));
}

}  // namespace troupe::data
