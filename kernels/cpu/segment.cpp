// Reductions of segments: rows with the same id.
#include <algorithm>
#include <limits>
#include <vector>

#include <troupe/kernels/common/movement.hpp>
#include <troupe/kernels/common/segment_kind.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/index_moves.hpp>
#include <troupe/kernels/cpu/low_precision.hpp>
#include <troupe/kernels/cpu/scatter.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

struct Segments {
  std::vector<std::int64_t> ids;     // of each row; negative: in none
  std::vector<std::int64_t> counts;  // rows of each segment
};

Segments segments_of(const Tensor& ids, std::int64_t count, bool sorted) {
  Segments out{.ids = {}, .counts = std::vector<std::int64_t>(static_cast<std::size_t>(count))};
  dispatch(IndexTypes{}, ids.dtype(),
           [&]<class I>() { out.ids.assign(ids.values<I>().begin(), ids.values<I>().end()); });
  std::int64_t before = 0;
  for (std::size_t i = 0; i < out.ids.size(); ++i) {
    const std::int64_t id = out.ids[i];
    if (id >= count || (sorted && id < 0))
      throw_bad_index("SegmentReduce", id, static_cast<std::int64_t>(i), count, false);
    if (sorted && id < before)
      invalid_argument(
          "SegmentReduce: id {} (element {}) follows {}: ids of segment_{{sum,...}} must ascend; use "
          "unsorted_segment_{{sum,...}}",
          id, i, before);
    before = id;
    if (id >= 0) ++out.counts[static_cast<std::size_t>(id)];
  }
  return out;
}

template <class T>
void start_segments(SegmentKind kind, T* out, const Segments& segments, std::int64_t width) {
  std::fill_n(out, std::ssize(segments.counts) * width, start_of<T>(kind));
}

template <class T>
void finish_segments(SegmentKind kind, bool sorted, T* out, const Segments& segments, std::int64_t width) {
  for (std::size_t s = 0; s < segments.counts.size(); ++s) {
    T* row = out + static_cast<std::int64_t>(s) * width;
    const std::int64_t count = segments.counts[s];
    if (kind == SegmentKind::mean && count > 1)
      for (std::int64_t j = 0; j < width; ++j)
        row[j] = static_cast<T>(static_cast<Compute<T>>(row[j]) / static_cast<Compute<T>>(count));
    if (sorted && count == 0 && (kind == SegmentKind::max || kind == SegmentKind::min)) std::fill_n(row, width, T());
  }
}

// Parts own columns of wide rows; rows count in their order.
void reduce_segments(Parallelism& parallelism, const Tensor& x, Tensor& out, const Segments& segments,
                     std::int64_t width, ScatterCombine combine) {
  const CombineFn function = combine_function(x.dtype(), combine);
  const std::int64_t bytes = width * static_cast<std::int64_t>(size_of(x.dtype()));
  const std::byte* from = x.raw();
  std::byte* to = out.mutable_raw();
  constexpr std::int64_t kColumns = 2048;
  parallelism.parallel_for(width, kColumns, [&](std::int64_t begin, std::int64_t end) {
    for (std::size_t i = 0; i < segments.ids.size(); ++i) {
      if (segments.ids[i] < 0) continue;
      const std::int64_t offset = segments.ids[i] * width;
      function(to, &offset, 1, from + static_cast<std::int64_t>(i) * bytes, {begin, end, width});
    }
  });
}

void segment_reduce(KernelContext& c, SegmentKind kind, bool sorted) {
  const Tensor &x = c.input(0), &ids = c.input(1);
  const std::int64_t count = checked_segments(x.shape(), ids.shape(), c.input(2), sorted);
  const Shape rest = x.shape().sub(ids.shape().rank(), x.shape().rank());
  Tensor out = c.allocate(x.dtype(), Shape{count}.concatenated(rest));  // before the counts: checks the size
  const Segments segments = segments_of(ids, count, sorted);
  const std::int64_t width = product(rest, 0, rest.rank());
  const auto run = [&](const Tensor& from, Tensor& to) {
    dispatch(RealTypes{}, from.dtype(),
             [&]<class T>() { start_segments(kind, to.mutable_data<T>(), segments, width); });
    reduce_segments(c.parallelism(), from, to, segments, width, combine_of(kind));
    dispatch(RealTypes{}, from.dtype(),
             [&]<class T>() { finish_segments(kind, sorted, to.mutable_data<T>(), segments, width); });
  };
  const bool adds = kind == SegmentKind::sum || kind == SegmentKind::mean || kind == SegmentKind::prod;
  if (adds && (x.dtype() == DType::f16 || x.dtype() == DType::bf16)) {  // rounded once
    Tensor wide(DType::f32, x.shape()), result(DType::f32, out.shape());
    dispatch(Types<Half, BFloat16>{}, x.dtype(), [&]<class T>() {
      convert_elements(c.parallelism(), x.data<T>(), wide.mutable_data<float>(), x.num_elements());
      run(wide, result);
      convert_elements(c.parallelism(), result.data<float>(), out.mutable_data<T>(), out.num_elements());
    });
  } else {
    run(x, out);
  }
  c.set_output(0, std::move(out));
}

}  // namespace

void register_segment_kernels(KernelRegistry& registry) {
  add_untyped(registry, "SegmentReduce", [](const KernelInit& init) -> Kernel {
    return [kind = segment_kind(init.attributes.string("reduction")),
            sorted = init.attributes.boolean("sorted")](KernelContext& c) { segment_reduce(c, kind, sorted); };
  });
}

}  // namespace troupe
