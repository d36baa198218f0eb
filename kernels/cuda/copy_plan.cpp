#include "troupe/kernels/cuda/copy_plan.hpp"

#include <troupe/kernels/common/movement.hpp>

namespace troupe {
namespace {

static_assert(kMaxCopyPlanDims == kMaxCopyDims);
// Minimum rows and columns for tiles to pay off.
constexpr std::int64_t kTiled = 8;

// Adds all dimensions except `but` and `and_but`.
void add_dims(CopyPlan& made, const CopyLoops& loops, std::size_t but = kMaxCopyDims,
              std::size_t and_but = kMaxCopyDims) {
  auto& plan = made.plan;
  plan.rank = 0;
  for (std::size_t l = loops.rank; l-- > 0;) {
    if (l == but || l == and_but) continue;
    plan.sizes[plan.rank] = loops.dims[l].size;
    plan.strides[0][plan.rank] = loops.dims[l].source_stride;
    plan.strides[1][plan.rank] = loops.dims[l].target_stride;
    ++plan.rank;
  }
  if (plan.rank == 0) plan.sizes[plan.rank++] = 1;
  plan.moves[0] = plan.strides[0][0] != 0;
  plan.moves[1] = true;
  count_items(plan);
}

bool all_multiples(const CopyLoops& loops, std::int64_t count) {
  for (std::size_t l = 0; l + 1 < loops.rank; ++l)
    if (loops.dims[l].source_stride % count != 0 || loops.dims[l].target_stride % count != 0) return false;
  return true;
}

// Doubles the element size while all pairs of neighbours are contiguous and aligned.
void pair_neighbours(CopyLoops& loops, std::size_t& bytes, const void* source, const void* target) {
  CopyDim& inner = loops.dims[loops.rank - 1];
  while (bytes < 16 && inner.size % 2 == 0 && is_multiple(source, 2 * bytes) && is_multiple(target, 2 * bytes) &&
         all_multiples(loops, 2)) {
    bytes *= 2;
    inner.size /= 2;
    for (std::size_t l = 0; l + 1 < loops.rank; ++l) {
      loops.dims[l].source_stride /= 2;
      loops.dims[l].target_stride /= 2;
    }
  }
}

// Widens items to 16 bytes if each can be stored at once.
void widen_same(CopyPlan& made, const CopyLoops& loops, const void* target) {
  auto& plan = made.plan;
  const std::int64_t width = 16 / made.element_bytes;
  if (plan.sizes[0] < width || (loops.rank > 1 && plan.sizes[0] % width != 0) || !is_multiple(target, 16)) return;
  for (std::size_t l = 0; l + 1 < loops.rank; ++l)
    if (loops.dims[l].target_stride % width != 0) return;
  plan.rest = static_cast<int>(plan.sizes[0] % width);
  plan.sizes[0] /= width;
  plan.strides[1][0] *= width;
  plan.width = static_cast<int>(width);
  count_items(plan);
}

}  // namespace

CopyPlan plan_copy(const CopyLoops& given, std::size_t bytes, const void* source, const void* target) {
  CopyLoops loops = given;
  CopyPlan made;
  const CopyDim& inner = loops.dims[loops.rank - 1];
  if (inner.source_stride == 1 && inner.target_stride == 1) {
    if (loops.rank == 1) made.kind = CopyKind::whole;
    pair_neighbours(loops, bytes, source, target);
    made.element_bytes = static_cast<int>(bytes);
    add_dims(made, loops);
    return made;
  }
  made.element_bytes = static_cast<int>(bytes);
  if (inner.source_stride == 0 && inner.target_stride == 1) {
    made.kind = CopyKind::same;
    add_dims(made, loops);
    widen_same(made, loops, target);
    return made;
  }
  if (inner.target_stride == 1 && inner.size >= kTiled)
    for (std::size_t l = 0; l + 1 < loops.rank; ++l) {
      const CopyDim& row = loops.dims[l];
      if (row.source_stride != 1 || row.size < kTiled) continue;
      made.kind = CopyKind::tiles;
      made.rows = row.size;
      made.columns = inner.size;
      made.source_column = inner.source_stride;
      made.target_row = row.target_stride;
      add_dims(made, loops, l, loops.rank - 1);
      return made;
    }
  add_dims(made, loops);
  return made;
}

}  // namespace troupe
