// Memory layout and thread grid of a reduction: functions of dtype and shape only, and so is the order of additions.
// For host and device code.
#pragma once

#include <cstdint>

#include <troupe/messages/dtype.hpp>

namespace troupe {

// A dimension of the input, outermost first.
struct CudaReduceDim {
  std::int64_t size = 1;
  bool reduced = false;
};

inline constexpr int kMaxCudaReduceDims = 16;  // two per dimension of a tensor
inline constexpr int kReduceThreads = 256;

struct ReduceLoop {
  std::int64_t size = 1;
  std::int64_t stride = 0;
};
// Outermost first.
struct ReduceLoops {
  ReduceLoop all[kMaxCudaReduceDims / 2];
  int count = 0;
  std::int64_t combinations = 1;
};

// Dimensions merged until kept and reduced ones alternate, split by kind, with their strides in the input.
struct ReduceLayout {
  ReduceLoops kept;        // except the innermost dimension
  ReduceLoops reduced;     // except the innermost dimension
  std::int64_t inner = 1;  // size of the innermost dimension
  bool inner_reduced = true;

  std::int64_t results() const { return kept.combinations * (inner_reduced ? 1 : inner); }
  std::int64_t terms() const { return reduced.combinations * (inner_reduced ? inner : 1); }  // per result
};
// Requires at most kMaxCudaReduceDims dimensions, each at least 1.
ReduceLayout reduce_layout(const CudaReduceDim* dims, int count);
// Layout of `results` results without terms.
ReduceLayout reduce_layout_of_nothing(std::int64_t results);

// The terms of each result are cut into chunks; a second kernel merges them if there are several.
//
// Inner dimension reduced: `across` threads (up to 32, or the whole block) share a chunk of terms; a block handles as
// many chunks as it has groups of `across` threads. Inner dimension kept: a block handles a tile of `across` times
// `vector` columns and a chunk of rows; its threads form rows and columns.
struct ReduceGrid {
  int vector = 1;  // adjacent elements per load; divides `inner`
  int across = 1;  // a power of two
  std::int64_t tiles = 1;
  std::int64_t chunks = 1;
  std::int64_t chunk_terms = 1;  // a multiple of `vector` if the inner dimension is reduced
  std::int64_t units = 1;        // kept combinations * tiles * chunks
};
ReduceGrid reduce_grid(const ReduceLayout& layout, DType dtype);
// Total number of chunks over all results.
std::int64_t reduce_partials(const ReduceLayout& layout, const ReduceGrid& grid);

}  // namespace troupe
