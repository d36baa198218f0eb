// A second factor b that many products share. Its columns are `sections` runs of n; each run is cut into panels of at
// most 48 columns, and each panel lies in one piece of memory if products are this library's (gemm_cached.hpp).
// Otherwise b itself is read and must stay.
#pragma once

#include <algorithm>
#include <optional>
#include <type_traits>

#include <troupe/kernels/cpu/gemm_cached.hpp>
#include <troupe/kernels/cpu/kept_layout.hpp>
#include <troupe/kernels/cpu/scratch.hpp>
#include <troupe/kernels/cpu/transpose_tile.hpp>

namespace troupe {

template <class T>
class PackedFactor {
 public:
  // b: [k, sections * n]. `kept`: of a b that is the same in every run.
  PackedFactor(std::int64_t k, std::int64_t n, std::int64_t sections, MatrixView<T> b, KeptPart kept = {})
      : k_(k), n_(n), b_(b) {
    if (!own_loop()) return;
    const std::int64_t size = k * n * sections;
    const auto pack_all = [&](T* to) {
      for (std::int64_t s = 0; s < sections; ++s)
        for (std::int64_t panel = 0; panel < panels(); ++panel) pack(s, panel, to + k_ * s * n_);
    };
    if (kept.operand)
      packed_ = static_cast<const T*>(kept.operand->get({kFactor, kept.part, k, n, sections},
                                                        static_cast<std::size_t>(size) * sizeof(T),
                                                        [&](void* to) { pack_all(static_cast<T*>(to)); }));
    if (packed_) return;
    own_.emplace(size);
    pack_all(own_->data());
    packed_ = own_->data();
  }

  std::int64_t rows() const { return k_; }
  std::int64_t panels() const { return (n_ + kPanel - 1) / kPanel; }
  // The first column of a panel in its section; n for the one after the last. Full vectors, spread evenly.
  std::int64_t column(std::int64_t panel) const {
    const std::int64_t vectors = (n_ + kVector - 1) / kVector;
    return panels() == 0 ? 0 : std::min(n_, vectors * panel / panels() * kVector);
  }

  // Columns [column(first), column(last)) of a section's product, a [m, k] by b; column 0 of it is at c.
  void multiply(std::int64_t m, const T* a, std::int64_t a_stride, std::int64_t section, std::int64_t first,
                std::int64_t last, T* c, std::int64_t c_stride) const {
    const std::int64_t begin = column(first), end = column(last);
    if constexpr (std::is_same_v<T, float>) {
      if (own_loop() && k_ > 0) {
        for (std::int64_t panel = first; panel < last; ++panel) {
          const std::int64_t left = column(panel), width = column(panel + 1) - left;
          gemm_cached(m, width, k_, {a, a_stride, false}, {at(section, left), width, false}, c + left, c_stride);
        }
        return;
      }
    }
    const std::int64_t from = section * n_ + begin;
    gemm<T>(m, end - begin, k_, {a, a_stride, false},
            {b_.data + (b_.transposed ? from * b_.stride : from), b_.stride, b_.transposed}, c + begin, c_stride);
  }

 private:
  static constexpr std::int64_t kPanel = 48;
  static constexpr std::int64_t kVector = 16;
  static constexpr std::int64_t kFactor = -1;  // tells keys from those of other products
  static bool own_loop() { return std::is_same_v<T, float> && has_gemm_cached(); }

  const T* at(std::int64_t section, std::int64_t left) const { return packed_ + k_ * (section * n_ + left); }
  void pack(std::int64_t section, std::int64_t panel, T* section_begin) const {
    const std::int64_t left = column(panel), width = column(panel + 1) - left, from = section * n_ + left;
    T* to = section_begin + k_ * left;
    if (b_.transposed) {
      constexpr std::int64_t kRows = 64;  // of the result at a time: what is written stays in the cache
      for (std::int64_t p = 0; p < k_; p += kRows)
        transpose_tile(std::min(kRows, k_ - p), width,
                       reinterpret_cast<const std::uint32_t*>(b_.data + from * b_.stride + p), b_.stride,
                       reinterpret_cast<std::uint32_t*>(to + p * width), width);
    } else {
      for (std::int64_t p = 0; p < k_; ++p) std::copy_n(b_.data + p * b_.stride + from, width, to + p * width);
    }
  }

  std::int64_t k_, n_;
  MatrixView<T> b_;
  const T* packed_ = nullptr;
  std::optional<ScratchArray<T>> own_;  // none: kept, or not packed
};

}  // namespace troupe
