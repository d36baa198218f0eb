// Data sets as descriptions: sources and transformations that chain. A description says what the elements of an epoch
// are and in which order; the same description gives the same elements on every task, whatever runs it
// (scheduler/data/pipeline_source.hpp).
//
//   const auto digits = data::tensors({{"image", images}, {"label", labels}}).shuffle(7).take(50'000);
//
// An element is a list of tensors, the components of the schema. A pipeline is *addressable* if any element can be made
// alone from its number; else it is *forward*: elements are made in order. The schema, the number of elements and the
// order are known when the pipeline is built; functions throw invalid_argument for what cannot be, naming the stage.
//
// Nothing here prefetches or says how many threads work: who reads a pipeline decides that
// (TrainingOptions::read_ahead), and it changes no element.
//
// Pipelines are values: copies share their stages, which never change.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <troupe/graph/data/batch_schema.hpp>
#include <troupe/graph/data/element_cache.hpp>
#include <troupe/graph/data/element_source.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe::data {

using Element = std::vector<Tensor>;

// Which element a function is called for. Random numbers drawn from these are the same on every task.
struct ElementContext {
  std::uint64_t epoch = 0;   // of the function's input: repetitions have their own
  std::uint64_t number = 0;  // of the function's input, from 0 in each epoch
};

// Functions of elements: pure, and called by several threads at a time.
using MapFunction = std::function<Element(const Element&, const ElementContext&)>;
// What a MapFunction makes, written to row `row` of tensors with a leading dimension.
using MapToRow = std::function<void(const Element&, const ElementContext&, std::int64_t row, std::span<Tensor> out)>;
using FilterFunction = std::function<bool(const Element&)>;
using FlatMapFunction = std::function<std::vector<Element>(const Element&, const ElementContext&)>;

// A function with a name, that knows what it makes of elements of a schema: kernels/images/transformations.hpp has
// some.
struct Transformation {
  struct Prepared {
    BatchSchema schema{};  // of the results
    MapFunction function{};
    MapToRow to_row{};  // none: the function's results are copied
  };
  std::string name{};
  // Throws invalid_argument for elements that it cannot work on.
  std::function<Prepared(const BatchSchema& elements)> prepare{};
};

struct Stage;
using StageRef = std::shared_ptr<const Stage>;

// ---- Sources
struct TensorsStage {
  std::vector<Tensor> tensors{};  // [elements, example...]
};
struct RangeStage {
  std::int64_t begin = 0, step = 1;
};
struct IndexedStage {
  std::shared_ptr<const IndexedSource> source{};
};
// The elements of `cycle` splits at a time, in turn: one of each, the splits in their order. Where a split ends the
// next that has not begun takes its place.
struct SplitsStage {
  std::shared_ptr<const ElementSource> source{};
  std::uint64_t cycle = 1;
  bool shuffle = false;  // the order of splits is drawn from (seed, epoch)
  std::uint64_t seed = 0;
};
// ---- Transformations
struct MapStage {
  MapFunction function{};
  MapToRow to_row{};  // none: the function's results are copied
};
struct FilterStage {
  FilterFunction keep{};  // none: elements that can be made
};
struct FlatMapStage {
  FlatMapFunction function{};
};
struct TakeStage {
  std::uint64_t first = 0, count = 0;  // elements [first, first + count) of the input, or fewer
};
struct ShardStage {
  std::uint64_t shards = 1, index = 0;
};
struct RepeatStage {
  std::uint64_t times = 1;
};
// A permutation of the whole input where that is addressable; else of each block of `buffer` elements.
struct ShuffleStage {
  std::uint64_t seed = 0;
  std::uint64_t buffer = 0;
  bool each_epoch = true;  // another order in each epoch
};
// What becomes of components whose shapes differ from element to element.
enum class Uneven : std::uint8_t {
  refuse,
  pad,     // to the largest of the batch
  sparse,  // Pipeline::sparse_batch()
  ragged,  // Pipeline::ragged_batch()
};
struct BatchStage {
  std::int64_t size = 1;
  bool drop_rest = false;
  Uneven uneven = Uneven::refuse;
  std::vector<Tensor> padding{};
};
// Elements of like length together. An element waits in its bucket until that is full; what is left at the end of an
// epoch comes in the order of the buckets.
struct BucketStage {
  std::function<std::int64_t(const Element&)> length{};
  std::vector<std::int64_t> boundaries{};  // bucket i: lengths from boundaries[i - 1] on, below boundaries[i]
  std::vector<std::int64_t> sizes{};       // of each bucket's batches: one more than boundaries
  BatchStage batch{};                      // how batches are made; its size does not count
};
struct UnbatchStage {};
struct WindowStage {
  std::int64_t size = 1, shift = 1;
};
// Of `cycle` sub-pipelines at a time, `block` elements each in turn. Where one ends, that of the next element of the
// input takes its place.
struct InterleaveStage {
  std::function<StageRef(const Element&, const ElementContext&)> function{};
  std::uint64_t cycle = 1, block = 1;
};
// The elements of the first epoch, in each epoch; kept in memory.
struct CacheStage {
  std::shared_ptr<ElementCache> cache{};
};
struct ZipStage {};
struct ConcatenateStage {};
// Which of its inputs the next element comes from, drawn with these weights. Ends with the first input that does.
struct SampleStage {
  std::vector<double> weights{};
  std::uint64_t seed = 0;
};

using StageKind = std::variant<TensorsStage, RangeStage, IndexedStage, SplitsStage, MapStage, FilterStage, FlatMapStage,
                               TakeStage, ShardStage, RepeatStage, ShuffleStage, BatchStage, BucketStage, UnbatchStage,
                               WindowStage, InterleaveStage, CacheStage, ZipStage, ConcatenateStage, SampleStage>;

struct Stage {
  std::string name{};  // "map decode": what errors and figures call it
  StageKind kind{};
  std::vector<StageRef> inputs{};
  BatchSchema schema{};  // of an element
  std::optional<std::uint64_t> size{};
  std::string forward_because{};  // empty: addressable
};

// As Pipeline::describe(). Without `places` sources are called by their kind alone, wherever their files are.
std::string describe(const StageRef& stage, bool places = true);

struct ShuffleOptions {
  std::uint64_t buffer = 1 << 16;  // elements, of a forward pipeline
  bool each_epoch = true;
};

struct BatchOptions {
  bool drop_rest = false;  // of fewer elements than a batch
};

struct InterleaveOptions {
  std::uint64_t cycle = 16;  // sub-pipelines read in turn
  std::uint64_t block = 1;   // elements of each before the next has its turn
};

struct BucketOptions {
  std::vector<std::int64_t> boundaries{};  // ascending: lengths below the first, from it to below the second, ...
  std::vector<std::int64_t> sizes{};       // batch sizes of the buckets: one more than boundaries
  std::vector<Tensor> padding{};           // as padded_batch() takes it
  bool drop_rest = false;                  // of fewer elements than a bucket's batch
};

class Pipeline {
 public:
  const BatchSchema& schema() const { return stage_->schema; }
  // Elements of an epoch; nullopt: unknown.
  std::optional<std::uint64_t> size() const { return stage_->size; }
  bool addressable() const { return stage_->forward_because.empty(); }
  // Why not: "stage 'filter long' leaves out elements". Empty: it is addressable.
  const std::string& forward_because() const { return stage_->forward_because; }
  const StageRef& stage() const { return stage_; }
  // One line per stage, the source first: name, options, schema, number of elements.
  std::string describe() const { return data::describe(stage_); }

  // The function's results have `schema`; their dtypes and shapes are checked.
  Pipeline map(const std::string& name, BatchSchema schema, MapFunction function) const;
  // The schema follows from that of the elements.
  Pipeline map(const Transformation& transformation) const;
  Pipeline filter(const std::string& name, FilterFunction keep) const;
  // Leaves out elements that the stages before find damaged when they make them, data_loss: images, records that do not
  // parse, files that are read by number. They are counted (StageFigures::skipped_records). Damage that hides where the
  // next record begins is no element: RecordOptions::skip_damaged.
  Pipeline skip_damaged() const;
  // The elements that the function makes of each, one after the other.
  Pipeline flat_map(const std::string& name, BatchSchema schema, FlatMapFunction function) const;
  Pipeline take(std::uint64_t count) const;
  Pipeline skip(std::uint64_t count) const;
  // Elements index, index + shards, and so on.
  Pipeline shard(std::uint64_t shards, std::uint64_t index) const;
  Pipeline repeat(std::uint64_t times) const;
  // The whole order of an addressable pipeline is drawn from (seed, epoch). Of a forward pipeline, that of each block
  // of ShuffleOptions::buffer elements.
  Pipeline shuffle(std::uint64_t seed, ShuffleOptions options = {}) const;
  // Elements together: each component gets a first dimension. Their shapes must be alike.
  Pipeline batch(std::int64_t size, BatchOptions options = {}) const;
  // Likewise; unknown dimensions are filled up to the largest of the batch with `padding`, a scalar per component
  // (invalid: 0, "").
  Pipeline padded_batch(std::int64_t size, std::vector<Tensor> padding = {}, BatchOptions options = {}) const;
  // Likewise; a component x that is a vector of unknown length becomes a sparse tensor, three components: x.indices i64
  // [n, 2], the row and the place in it, in order; x.values [n]; x.dense_shape i64 [2], the rows and the largest
  // length. So do sparse components (ExampleSparseFeature) of rank r, with indices [n, r + 1]. Memory follows n.
  Pipeline sparse_batch(std::int64_t size, BatchOptions options = {}) const;
  // Likewise; a component x with an unknown leading dimension becomes two: x.values, the rows of all elements, and
  // x.row_splits i64 [elements + 1]: element i has those from row_splits[i] to row_splits[i + 1].
  Pipeline ragged_batch(std::int64_t size, BatchOptions options = {}) const;
  // Batches of elements of like length, padded to the largest of the batch. The length is what the function says, or
  // the first dimension of a component. As a pipeline's last stage it makes the batches of training
  // (scheduler/data/pipeline_source.hpp).
  Pipeline bucketed_batch(std::function<std::int64_t(const Element&)> length, BucketOptions options) const;
  Pipeline bucketed_batch(const std::string& component, BucketOptions options) const;
  // The rows of all components as elements.
  Pipeline unbatch() const;
  // `size` consecutive elements together, of which each begins `shift` after the one before; whole ones only.
  Pipeline window(std::int64_t size, std::int64_t shift = 1) const;
  Pipeline concatenate(const Pipeline& after) const;
  // The elements, of `schema`, of the pipelines that the function makes of elements, several pipelines in turn. Their
  // epochs are those of this one.
  Pipeline interleave(const std::string& name, BatchSchema schema,
                      std::function<Pipeline(const Element&, const ElementContext&)> function,
                      InterleaveOptions options = {}) const;
  // The elements of the first epoch, in each epoch. Once made they are kept in memory, for all readers of this pipeline
  // in the process; beyond `limit` bytes reading fails, resource_exhausted. scheduler/data/cache_file.hpp keeps them in
  // a file.
  Pipeline cache(std::uint64_t limit = std::uint64_t{1} << 30) const;
  // Each element with its number, from 0 in each epoch, as one more component, i64.
  Pipeline enumerate(const std::string& component = "index") const;

 private:
  friend Pipeline make_pipeline(Stage stage);
  Pipeline() = default;
  Pipeline then(std::string name, StageKind kind, BatchSchema schema, std::optional<std::uint64_t> size,
                std::string forward_because) const;
  Pipeline batch(std::string name, BatchStage how) const;
  StageRef stage_;
};

// The rows of tensors with equal first dimensions, by component.
Pipeline tensors(std::vector<std::pair<std::string, Tensor>> components);
// i64 scalars begin, begin + step, ... below end (above it, of a negative step), as one component.
Pipeline range(std::int64_t begin, std::int64_t end, std::int64_t step = 1, const std::string& component = "number");
struct SplitsOptions {
  std::uint64_t cycle = 16;  // splits read in turn
  bool shuffle = false;      // splits come in another order in each epoch,
  std::uint64_t seed = 0;    // drawn from it
};
// The elements of a source. `name`: of the stage.
Pipeline from_source(const std::string& name, BatchSchema schema, std::shared_ptr<const ElementSource> source,
                     SplitsOptions options = {});
// Likewise, addressable.
Pipeline from_source(const std::string& name, BatchSchema schema, std::shared_ptr<const IndexedSource> source);
// Makes the next element; nullopt: there are no more.
using Generator = std::function<std::optional<Element>()>;
// What generators make: split `i` is that of begin(i), which makes the same elements each time it is called. Elements
// that have passed are made again to go back to a position: for much work per element, from_source() takes cursors.
// `splits`: how many there are.
Pipeline generate(const std::string& name, BatchSchema schema, std::function<Generator(std::uint64_t split)> begin,
                  std::uint64_t splits = 1, SplitsOptions options = {});
// An element of each, with the components of all; as many as the shortest has. Names must differ.
Pipeline zip(const std::vector<Pipeline>& pipelines);
// Elements of pipelines with one schema, each drawn with its weight from (seed, epoch, number).
Pipeline sample(const std::vector<Pipeline>& pipelines, std::vector<double> weights, std::uint64_t seed);

// Throws data_loss that names the stage unless the element fits the stage's schema.
void check_element(const Stage& stage, const Element& element);

}  // namespace troupe::data
