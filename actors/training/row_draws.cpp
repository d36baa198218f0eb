#include "troupe/actors/training/row_draws.hpp"

#include <cstring>
#include <vector>

#include <troupe/graph/op_table.hpp>
#include <troupe/kernels/cpu/random.hpp>
#include <troupe/messages/element_types.hpp>
#include <troupe/scheduler/plan/plan.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kRowsTogether = 256;  // drawn by one thread

enum class DrawnBy : std::uint8_t { none, fill, uniform, normal, truncated };
constexpr auto kDrawnBy = op_table<DrawnBy>({
    {"Fill", DrawnBy::fill},
    {"RandomUniform", DrawnBy::uniform},
    {"RandomNormal", DrawnBy::normal},
    {"TruncatedNormal", DrawnBy::truncated},
});

// Runs all parts on the calling thread.
class OneThread final : public Parallelism {
 public:
  int threads() const override { return 1; }
  void parallel_for(std::int64_t total, std::int64_t, FunctionRef<void(std::int64_t, std::int64_t)> fn) override {
    if (total > 0) fn(0, total);
  }
  void run(DynamicWork&) override { fail(Code::internal, "a row is drawn by one thread"); }
  void wake() override {}
};

template <class T>
using RowFill = void (*)(Parallelism&, const PhiloxStream&, std::span<T>, Compute<T>, Compute<T>);

template <class T>
RowFill<T> fill_of(DrawnBy by) {
  return by == DrawnBy::uniform ? fill_uniform<T> : by == DrawnBy::normal ? fill_normal<T> : fill_truncated_normal<T>;
}

// A row begins in the middle of a block if the width is no multiple of the block's values: then those before it are
// drawn too.
template <class T>
std::function<void(std::int64_t, std::byte*)> random_rows(const Node& node, DrawnBy by, PhiloxStream stream,
                                                          std::int64_t width) {
  const auto rounded = [&](std::string_view attribute) {
    return static_cast<Compute<T>>(static_cast<T>(static_cast<Compute<T>>(node.attributes.real(attribute))));
  };
  const bool uniform = by == DrawnBy::uniform;
  return [fill = fill_of<T>(by), stream, width, a = rounded(uniform ? "minval" : "mean"),
          b = rounded(uniform ? "maxval" : "stddev")](std::int64_t row, std::byte* out) {
    constexpr std::int64_t kBlock = 16 / sizeof(Compute<T>);
    OneThread thread;
    PhiloxStream from = stream;
    from.first = static_cast<std::uint64_t>(row * width / kBlock);
    const std::int64_t before = row * width % kBlock;
    if (before == 0) return fill(thread, from, {reinterpret_cast<T*>(out), static_cast<std::size_t>(width)}, a, b);
    std::vector<T> room(static_cast<std::size_t>(before + width));
    fill(thread, from, room, a, b);
    std::memcpy(out, room.data() + before, static_cast<std::size_t>(width) * sizeof(T));
  };
}

std::function<void(std::int64_t, std::byte*)> equal_rows(const Tensor& value, std::int64_t width) {
  const std::size_t bytes = size_of(value.dtype());
  std::vector<std::byte> row(static_cast<std::size_t>(width) * bytes);
  for (std::size_t at = 0; at < row.size(); at += bytes) std::memcpy(row.data() + at, value.raw(), bytes);
  return [row = std::move(row)](std::int64_t, std::byte* out) { std::memcpy(out, row.data(), row.size()); };
}

const Node& source_of(const Graph& graph, Endpoint value) {
  const Node* node = &graph.node(value.node);
  while (node->op->forwards) node = &graph.node(node->inputs[0].node);
  return *node;
}

// The constant that fills the output of this Fill; null if it is none.
const Node* constant_filling(const Graph& graph, const Node& node) {
  const Node& filled = source_of(graph, node.inputs[1]);
  return filled.op->role == OpRole::constant ? &filled : nullptr;
}

}  // namespace

bool RowDraws::can_draw(const Graph& graph, Endpoint value) {
  const Node& node = source_of(graph, value);
  const DrawnBy by = kDrawnBy.of(node);
  const Shape& shape = graph.shape(value);
  return by != DrawnBy::none && (by != DrawnBy::fill || constant_filling(graph, node)) && shape.fully_known() &&
         shape.rank() > 0;
}

RowDraws::RowDraws(const Graph& graph, Endpoint value, std::uint64_t seed)
    : dtype_(graph.dtype(value)), shape_(graph.shape(value)), row_bytes_(0) {
  const Node& node = source_of(graph, value);
  const DrawnBy by = kDrawnBy.of(node);
  if (!can_draw(graph, value))
    invalid_argument(
        "the rows of {} '{}' cannot be drawn one by one: the initial value must be constant, uniform or "
        "normal, of known shape",
        node.op->name, node.name);
  const std::int64_t width = shape_.without(0).num_elements();
  row_bytes_ = static_cast<std::size_t>(width) * size_of(dtype_);
  if (by == DrawnBy::fill) {
    draw_ = equal_rows(constant_filling(graph, node)->attributes.tensor("value"), width);
    return;
  }
  const PhiloxStream stream =
      random_stream({.seed = seed}, random_node(original_name_hash(node), node.attributes.integer("seed")));
  dispatch(FloatTypes{}, dtype_, [&]<class T>() { draw_ = random_rows<T>(node, by, stream, width); });
}

Tensor RowDraws::rows(Parallelism& parallelism, std::int64_t first, std::int64_t stride, std::int64_t count) const {
  Shape shape = shape_;
  shape.set_dim(0, count);
  Tensor out(dtype_, shape);
  std::byte* to = out.mutable_raw();
  parallelism.parallel_for(count, kRowsTogether, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) draw(first + i * stride, to + static_cast<std::size_t>(i) * row_bytes_);
  });
  return out;
}

}  // namespace troupe
