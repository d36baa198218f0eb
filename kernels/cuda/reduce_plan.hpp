// How a reduction goes through memory and is shared among threads: a function of dtype and shape alone, so that the
// order of its additions is. For host and device code.
#pragma once

#include <cstdint>

#include <troupe/messages/dtype.hpp>

namespace troupe {

// A dimension of the input, outermost first.
struct CudaReduceDim {
  std::int64_t size = 1;
  bool reduced = false;
};

inline constexpr int kMaxCudaReduceDims = 16;  // two for each dimension of a tensor
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

// Dimensions merged until kept and reduced ones alternate, split into both kinds, with their steps in the input.
struct ReduceLayout {
  ReduceLoops kept;        // but the innermost dimension
  ReduceLoops reduced;     // but the innermost dimension
  std::int64_t inner = 1;  // size of the innermost dimension
  bool inner_reduced = true;

  std::int64_t results() const { return kept.combinations * (inner_reduced ? 1 : inner); }
  std::int64_t terms() const { return reduced.combinations * (inner_reduced ? inner : 1); }  // of each result
};
// Needs sizes of 1 and more, at most kMaxCudaReduceDims of them.
ReduceLayout reduce_layout(const CudaReduceDim* dims, int count);
// Of so many results without terms.
ReduceLayout reduce_layout_of_nothing(std::int64_t results);

// The terms of each result come in chunks, which are merged by a second kernel if there are several.
//
// Inner dimension reduced: `across` threads (up to 32, or the whole block) share a chunk of terms; a block has as many
// of these as it has threads. Inner dimension kept: a block has a tile of `across` times `vector` columns and a chunk
// of rows; its threads lie as rows and columns.
struct ReduceGrid {
  int vector = 1;  // neighbours that a thread takes at once; they divide `inner`
  int across = 1;  // a power of two
  std::int64_t tiles = 1;
  std::int64_t chunks = 1;
  std::int64_t chunk_terms = 1;  // a multiple of `vector` if the inner dimension is reduced
  std::int64_t units = 1;        // kept combinations * tiles * chunks
};
ReduceGrid reduce_grid(const ReduceLayout& layout, DType dtype);
// The chunks' results, of all results together.
std::int64_t reduce_partials(const ReduceLayout& layout, const ReduceGrid& grid);

}  // namespace troupe
