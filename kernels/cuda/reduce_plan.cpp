#include "troupe/kernels/cuda/reduce_plan.hpp"

#include <algorithm>
#include <bit>

namespace troupe {
namespace {

constexpr std::int64_t kWantedBlocks = 2048;  // several per multiprocessor of the largest GPUs
constexpr std::int64_t kLeastSteps = 8;       // minimum loads per thread for a chunk
constexpr std::int64_t kUndividedSteps = 32;  // maximum loads per thread without a second kernel

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t power_of_two(std::int64_t at_least) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(at_least)));
}

// Cuts the `terms` of each result into chunks; a block handles `per_step` at a time.
void cut(ReduceGrid& grid, std::int64_t terms, std::int64_t per_step, std::int64_t blocks) {
  const std::int64_t most = terms <= kUndividedSteps * per_step ? 1 : divide_up(terms, kLeastSteps * per_step);
  const std::int64_t chunks = std::clamp<std::int64_t>(kWantedBlocks / blocks, 1, most);
  grid.chunk_terms = divide_up(divide_up(terms, chunks), per_step) * per_step;
  grid.chunks = divide_up(terms, grid.chunk_terms);
}

}  // namespace

ReduceLayout reduce_layout(const CudaReduceDim* dims, int count) {
  CudaReduceDim merged[kMaxCudaReduceDims];
  int n = 0;
  for (const CudaReduceDim* d = dims; d != dims + count; ++d) {
    if (d->size == 1) continue;
    if (n > 0 && merged[n - 1].reduced == d->reduced)
      merged[n - 1].size *= d->size;
    else
      merged[n++] = *d;
  }
  ReduceLayout layout;
  if (n == 0) return layout;
  layout.inner = merged[--n].size;
  layout.inner_reduced = merged[n].reduced;
  std::int64_t stride = layout.inner;
  while (n-- > 0) {
    ReduceLoops& loops = merged[n].reduced ? layout.reduced : layout.kept;
    loops.all[loops.count++] = {merged[n].size, stride};
    loops.combinations *= merged[n].size;
    stride *= merged[n].size;
  }
  for (ReduceLoops* loops : {&layout.kept, &layout.reduced}) std::reverse(loops->all, loops->all + loops->count);
  return layout;
}

ReduceLayout reduce_layout_of_nothing(std::int64_t results) {
  ReduceLayout layout;
  layout.kept = {.all = {{results, 1}}, .count = 1, .combinations = results};
  layout.inner = 0;
  return layout;
}

ReduceGrid reduce_grid(const ReduceLayout& layout, DType dtype) {
  ReduceGrid grid;
  if (const auto full = static_cast<int>(16 / size_of(dtype)); is_floating(dtype) && layout.inner % full == 0)
    grid.vector = full;
  if (layout.inner_reduced) {
    const std::int64_t loads = layout.terms() / grid.vector;
    const bool short_rows = loads <= 64 || (loads <= 256 && layout.kept.combinations >= 1024);
    grid.across = short_rows ? static_cast<int>(std::min<std::int64_t>(power_of_two(loads), 32)) : kReduceThreads;
    if (short_rows)
      grid.chunk_terms = layout.terms();
    else
      cut(grid, layout.terms(), std::int64_t{kReduceThreads} * grid.vector, layout.kept.combinations);
  } else {
    grid.across = static_cast<int>(std::min<std::int64_t>(power_of_two(layout.inner / grid.vector), 32));
    grid.tiles = divide_up(layout.inner, std::int64_t{grid.across} * grid.vector);
    cut(grid, layout.terms(), kReduceThreads / grid.across, layout.kept.combinations * grid.tiles);
  }
  grid.units = layout.kept.combinations * grid.tiles * grid.chunks;
  return grid;
}

std::int64_t reduce_partials(const ReduceLayout& layout, const ReduceGrid& grid) {
  return layout.results() * grid.chunks;
}

}  // namespace troupe
