#include "troupe/graph/data/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <troupe/graph/data/composite.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::data {
namespace {

bool fits(const Shape& shape, const Shape& wanted) {
  if (shape.rank() != wanted.rank()) return false;
  for (int d = 0; d < wanted.rank(); ++d)
    if (wanted.dim(d) >= 0 && shape.dim(d) != wanted.dim(d)) return false;
  return true;
}

std::string named(std::string_view kind, const std::string& name) {
  return name.empty() ? std::string(kind) : fmt::format("{} {}", kind, name);
}

BatchSchema checked(const std::string& stage, BatchSchema schema) {
  try {
    check_schema(schema);
  } catch (const Error& error) {
    throw error.within(fmt::format("stage '{}'", stage));
  }
  return schema;
}

// Throws invalid_argument for sparse and ragged components, whose parts have no rows that belong together.
void refuse_composites(const BatchSchema& schema) {
  for (const Composite& composite : composites_of(schema))
    if (composite.kind != Composite::Kind::tensor) refuse_composite(composite);
}

// The schema of several elements together.
BatchSchema together(const BatchSchema& of_one, std::int64_t count) {
  refuse_composites(of_one);
  BatchSchema out = of_one;
  for (BatchComponent& component : out) component.shape = component.batch_shape(count);
  return out;
}

template <class F>
std::optional<std::uint64_t> if_known(std::optional<std::uint64_t> size, F&& f) {
  return size ? std::optional<std::uint64_t>(f(*size)) : std::nullopt;
}

// Tells what elements and their order depend on beside the stage's name.
struct OptionsText {
  template <class Kind>
  std::string operator()(const Kind&) const {
    return {};
  }
  std::string operator()(const RangeStage& range) const {
    return range.begin == 0 && range.step == 1 ? "" : fmt::format("from {} by {}", range.begin, range.step);
  }
  std::string operator()(const SplitsStage& splits) const {
    if (splits.source->splits() < 2) return "";
    return fmt::format("{} files in turn{}", splits.cycle,
                       splits.shuffle ? fmt::format(", shuffled by {}", splits.seed) : "");
  }
  std::string operator()(const ShuffleStage& shuffle) const {
    return fmt::format("seed {}, buffer {}{}", shuffle.seed, shuffle.buffer,
                       shuffle.each_epoch ? "" : ", all epochs alike");
  }
  std::string operator()(const BatchStage& batch) const { return batch.drop_rest ? "without the rest" : ""; }
  std::string operator()(const BucketStage& buckets) const {
    return fmt::format("lengths below {}; sizes {}{}", fmt::join(buckets.boundaries, ", "),
                       fmt::join(buckets.sizes, ", "), buckets.batch.drop_rest ? "; without the rest" : "");
  }
  std::string operator()(const InterleaveStage& interleave) const {
    return fmt::format("{} in turn, {} elements of each", interleave.cycle, interleave.block);
  }
  std::string operator()(const SampleStage& sample) const {
    return fmt::format("weights {}, seed {}", fmt::join(sample.weights, ", "), sample.seed);
  }
};

std::string first_reason(const std::vector<StageRef>& inputs) {
  for (const StageRef& input : inputs)
    if (!input->forward_because.empty()) return input->forward_because;
  return {};
}

}  // namespace

Pipeline make_pipeline(Stage stage) {
  stage.schema = checked(stage.name, std::move(stage.schema));
  if (stage.forward_because.empty()) stage.forward_because = first_reason(stage.inputs);
  Pipeline out;
  out.stage_ = std::make_shared<const Stage>(std::move(stage));
  return out;
}

Pipeline Pipeline::then(std::string name, StageKind kind, BatchSchema schema, std::optional<std::uint64_t> size,
                        std::string forward_because) const {
  return make_pipeline({.name = std::move(name),
                        .kind = std::move(kind),
                        .inputs = {stage_},
                        .schema = std::move(schema),
                        .size = size,
                        .forward_because = std::move(forward_because)});
}

std::string describe(const StageRef& stage, bool places) {
  std::string out;
  const std::function<void(const Stage&, int)> add = [&](const Stage& one, int depth) {
    for (const StageRef& input : one.inputs) add(*input, one.inputs.size() == 1 ? depth : depth + 1);
    const bool whole = places || !one.inputs.empty();
    const std::string options = std::visit(OptionsText{}, one.kind);
    out += fmt::format("{}{}{}: {}; {}\n", std::string(static_cast<std::size_t>(2 * depth), ' '),
                       whole ? one.name : one.name.substr(0, one.name.find(' ')),
                       options.empty() ? "" : fmt::format(" ({})", options), to_string(one.schema),
                       one.size ? fmt::format("{} elements", *one.size) : "an unknown number of elements");
  };
  add(*stage, 0);
  return out;
}

Pipeline Pipeline::map(const std::string& name, BatchSchema schema, MapFunction function) const {
  return then(named("map", name), MapStage{.function = std::move(function)}, std::move(schema), size(), {});
}

Pipeline Pipeline::map(const Transformation& transformation) const {
  const std::string stage = named("map", transformation.name);
  try {
    auto [schema, function, to_row] = transformation.prepare(this->schema());
    return then(stage, MapStage{std::move(function), std::move(to_row)}, std::move(schema), size(), {});
  } catch (const Error& error) {
    throw error.within(fmt::format("stage '{}'", stage));
  }
}

Pipeline Pipeline::filter(const std::string& name, FilterFunction keep) const {
  if (!keep) invalid_argument("stage '{}': there is no function", named("filter", name));
  return then(named("filter", name), FilterStage{std::move(keep)}, schema(), std::nullopt,
              fmt::format("stage '{}' leaves out elements", named("filter", name)));
}

Pipeline Pipeline::skip_damaged() const {
  return then("skip_damaged", FilterStage{}, schema(), std::nullopt, "stage 'skip_damaged' leaves out elements");
}

Pipeline Pipeline::flat_map(const std::string& name, BatchSchema schema, FlatMapFunction function) const {
  return then(named("flat_map", name), FlatMapStage{std::move(function)}, std::move(schema), std::nullopt,
              fmt::format("stage '{}' makes any number of elements of one", named("flat_map", name)));
}

Pipeline Pipeline::take(std::uint64_t count) const {
  return then(fmt::format("take {}", count), TakeStage{0, count}, schema(),
              if_known(size(), [&](std::uint64_t all) { return std::min(all, count); }), {});
}

Pipeline Pipeline::skip(std::uint64_t count) const {
  return then(fmt::format("skip {}", count), TakeStage{count, std::numeric_limits<std::uint64_t>::max()}, schema(),
              if_known(size(), [&](std::uint64_t all) { return all - std::min(all, count); }), {});
}

Pipeline Pipeline::shard(std::uint64_t shards, std::uint64_t index) const {
  if (shards == 0 || index >= shards) invalid_argument("shard {} of {}: there is none", index, shards);
  return then(fmt::format("shard {} of {}", index, shards), ShardStage{shards, index}, schema(),
              if_known(size(), [&](std::uint64_t all) { return all / shards + (index < all % shards ? 1 : 0); }), {});
}

Pipeline Pipeline::repeat(std::uint64_t times) const {
  if (size() && times != 0 && *size() > std::numeric_limits<std::uint64_t>::max() / times)
    invalid_argument("repeat {}: {} elements are too many", times, *size());
  return then(fmt::format("repeat {}", times), RepeatStage{times}, schema(),
              if_known(size(), [&](std::uint64_t all) { return all * times; }), {});
}

Pipeline Pipeline::shuffle(std::uint64_t seed, ShuffleOptions options) const {
  if (options.buffer == 0) invalid_argument("shuffle: the buffer must have at least 1 element");
  if (addressable() && size() && *size() > std::numeric_limits<std::uint32_t>::max())
    invalid_argument("shuffle: {} elements are more than the 2^32 - 1 that can be put in an order", *size());
  return then("shuffle", ShuffleStage{seed, options.buffer, options.each_epoch}, schema(), size(), {});
}

Pipeline Pipeline::batch(std::int64_t size, BatchOptions options) const {
  return batch(fmt::format("batch {}", size), {.size = size, .drop_rest = options.drop_rest});
}

Pipeline Pipeline::batch(std::string name, BatchStage how) const {
  if (how.size < 1) invalid_argument("stage '{}': a batch has at least 1 element", name);
  const auto each = static_cast<std::uint64_t>(how.size);
  const auto batches =
      if_known(size(), [&](std::uint64_t all) { return how.drop_rest ? all / each : (all + each - 1) / each; });
  const std::int64_t rows = how.drop_rest || (size() && *size() % each == 0) ? how.size : kUnknown;
  BatchSchema all;
  try {
    all = how.uneven == Uneven::sparse || how.uneven == Uneven::ragged ? uneven_schema(schema(), how.uneven, rows)
                                                                       : together(schema(), rows);
  } catch (const Error& error) {
    throw error.within(fmt::format("stage '{}'", name));
  }
  return then(std::move(name), std::move(how), std::move(all), batches, {});
}

Pipeline Pipeline::padded_batch(std::int64_t size, std::vector<Tensor> padding, BatchOptions options) const {
  const std::string name = fmt::format("padded_batch {}", size);
  if (!padding.empty() && padding.size() != schema().size())
    invalid_argument("stage '{}': {} paddings for {} components", name, padding.size(), schema().size());
  for (std::size_t i = 0; i < padding.size(); ++i)
    if (padding[i].valid() && (padding[i].dtype() != schema()[i].dtype || padding[i].num_elements() != 1))
      invalid_argument("stage '{}': the padding of '{}' is {}{}, expected one {}", name, schema()[i].name,
                       troupe::name(padding[i].dtype()), padding[i].shape().to_string(),
                       troupe::name(schema()[i].dtype));
  return batch(name,
               {.size = size, .drop_rest = options.drop_rest, .uneven = Uneven::pad, .padding = std::move(padding)});
}

Pipeline Pipeline::sparse_batch(std::int64_t size, BatchOptions options) const {
  return batch(fmt::format("sparse_batch {}", size),
               {.size = size, .drop_rest = options.drop_rest, .uneven = Uneven::sparse});
}

Pipeline Pipeline::ragged_batch(std::int64_t size, BatchOptions options) const {
  return batch(fmt::format("ragged_batch {}", size),
               {.size = size, .drop_rest = options.drop_rest, .uneven = Uneven::ragged});
}

Pipeline Pipeline::unbatch() const {
  refuse_composites(schema());
  BatchSchema rows = schema();
  std::int64_t count = kUnknown;
  for (BatchComponent& component : rows) {
    if (component.shape.rank() == 0)
      invalid_argument("unbatch: component '{}' is a scalar: it has no rows", component.name);
    if (count == kUnknown) count = component.shape.dim(0);
    component.shape = component.shape.sub(1, component.shape.rank());
  }
  if (count == kUnknown)
    return then("unbatch", UnbatchStage{}, std::move(rows), std::nullopt,
                "stage 'unbatch' has elements of several sizes");
  return then("unbatch", UnbatchStage{}, std::move(rows),
              if_known(size(), [&](std::uint64_t all) { return all * static_cast<std::uint64_t>(count); }), {});
}

Pipeline Pipeline::window(std::int64_t size, std::int64_t shift) const {
  if (size < 1 || shift < 1) invalid_argument("window {} shift {}: both must be at least 1", size, shift);
  return then(fmt::format("window {} shift {}", size, shift), WindowStage{size, shift}, together(schema(), size),
              if_known(this->size(),
                       [&](std::uint64_t all) {
                         const auto wide = static_cast<std::uint64_t>(size), by = static_cast<std::uint64_t>(shift);
                         return all < wide ? 0 : (all - wide) / by + 1;
                       }),
              {});
}

Pipeline Pipeline::concatenate(const Pipeline& after) const {
  if (schema() != after.schema())
    invalid_argument("concatenate: the elements are {}, those after them {}", to_string(schema()),
                     to_string(after.schema()));
  std::optional<std::uint64_t> all;
  if (size() && after.size()) all = *size() + *after.size();
  std::string reason;
  if (!size() && addressable()) reason = "stage 'concatenate' begins with an unknown number of elements";
  return make_pipeline({.name = "concatenate",
                        .kind = ConcatenateStage{},
                        .inputs = {stage_, after.stage_},
                        .schema = schema(),
                        .size = all,
                        .forward_because = std::move(reason)});
}

Pipeline tensors(std::vector<std::pair<std::string, Tensor>> components) {
  BatchSchema schema;
  TensorsStage stage;
  for (auto& [name, tensor] : components) {
    if (!tensor.valid() || tensor.shape().is_scalar() || !tensor.space().on_host())
      invalid_argument("tensors: component '{}' must be a tensor in host memory with one row per element", name);
    if (!stage.tensors.empty() && tensor.shape()[0] != stage.tensors[0].shape()[0])
      invalid_argument("tensors: component '{}' has {} elements, but '{}' has {}", name, tensor.shape()[0],
                       schema[0].name, stage.tensors[0].shape()[0]);
    schema.push_back({name, tensor.dtype(), tensor.shape().sub(1, tensor.shape().rank())});
    stage.tensors.push_back(std::move(tensor));
  }
  const std::uint64_t rows = stage.tensors.empty() ? 0 : static_cast<std::uint64_t>(stage.tensors[0].shape()[0]);
  return make_pipeline({.name = "tensors", .kind = std::move(stage), .schema = std::move(schema), .size = rows});
}

Pipeline range(std::int64_t begin, std::int64_t end, std::int64_t step, const std::string& component) {
  if (step == 0) invalid_argument("range: the step must not be 0");
  const auto distance = [](std::int64_t from, std::int64_t to) {
    return from < to ? static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from) : 0;
  };
  const std::uint64_t length = step > 0 ? distance(begin, end) : distance(end, begin);
  const std::uint64_t each = step > 0 ? static_cast<std::uint64_t>(step) : -static_cast<std::uint64_t>(step);
  return make_pipeline({.name = "range",
                        .kind = RangeStage{begin, step},
                        .schema = {{component, DType::i64, Shape{}}},
                        .size = length / each + (length % each != 0 ? 1 : 0)});
}

Pipeline from_source(const std::string& name, BatchSchema schema, std::shared_ptr<const ElementSource> source,
                     SplitsOptions options) {
  if (options.cycle == 0) invalid_argument("stage '{}': at least one split is read at a time", name);
  if (source->splits() == 0) invalid_argument("stage '{}': the source has no splits", name);
  const std::string because = source->in_order_because();
  const std::optional<std::uint64_t> size = source->size();
  return make_pipeline({.name = name,
                        .kind = SplitsStage{std::move(source), options.cycle, options.shuffle, options.seed},
                        .schema = std::move(schema),
                        .size = size,
                        .forward_because = fmt::format("stage '{}' reads its files in order{}{}", name,
                                                       because.empty() ? "" : ": ", because)});
}

Pipeline from_source(const std::string& name, BatchSchema schema, std::shared_ptr<const IndexedSource> source) {
  const std::uint64_t size = source->size();
  return make_pipeline(
      {.name = name, .kind = IndexedStage{std::move(source)}, .schema = std::move(schema), .size = size});
}

Pipeline zip(const std::vector<Pipeline>& pipelines) {
  if (pipelines.empty()) invalid_argument("zip: there must be at least one pipeline");
  Stage stage{.name = "zip", .kind = ZipStage{}};
  bool known = true;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const Pipeline& pipeline : pipelines) {
    stage.inputs.push_back(pipeline.stage());
    stage.schema.insert(stage.schema.end(), pipeline.schema().begin(), pipeline.schema().end());
    known = known && pipeline.size().has_value();
    least = std::min(least, pipeline.size().value_or(least));
  }
  if (known) stage.size = least;
  return make_pipeline(std::move(stage));
}

Pipeline sample(const std::vector<Pipeline>& pipelines, std::vector<double> weights, std::uint64_t seed) {
  if (pipelines.empty() || pipelines.size() != weights.size())
    invalid_argument("sample: {} weights for {} pipelines", weights.size(), pipelines.size());
  double sum = 0;
  for (const double weight : weights) {
    if (!(weight >= 0) || !std::isfinite(weight))
      invalid_argument("sample: a weight is {}, it must not be negative", weight);
    sum += weight;
  }
  if (sum == 0) invalid_argument("sample: all weights are 0");
  Stage stage{.name = "sample", .kind = SampleStage{std::move(weights), seed}, .schema = pipelines[0].schema()};
  stage.forward_because = "stage 'sample' draws where each element comes from";
  for (const Pipeline& pipeline : pipelines) {
    if (pipeline.schema() != stage.schema)
      invalid_argument("sample: the elements of one pipeline are {}, those of another {}", to_string(stage.schema),
                       to_string(pipeline.schema()));
    stage.inputs.push_back(pipeline.stage());
  }
  return make_pipeline(std::move(stage));
}

void check_element(const Stage& stage, const Element& element) {
  if (element.size() != stage.schema.size())
    fail(Code::data_loss, "stage '{}' made an element of {} components, expected {}", stage.name, element.size(),
         stage.schema.size());
  for (std::size_t i = 0; i < element.size(); ++i) {
    const BatchComponent& component = stage.schema[i];
    const Tensor& tensor = element[i];
    if (!tensor.valid() || tensor.dtype() != component.dtype || !fits(tensor.shape(), component.shape))
      fail(Code::data_loss, "stage '{}' made '{}' as {}{}, expected {}{}", stage.name, component.name,
           name(tensor.dtype()), tensor.valid() ? tensor.shape().to_string() : "", name(component.dtype),
           component.shape.to_string());
  }
}

}  // namespace troupe::data
