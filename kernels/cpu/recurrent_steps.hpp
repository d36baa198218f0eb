// What recurrent layers share: products in parts, parts of a step, the order of steps.
#pragma once

#include <algorithm>
#include <type_traits>

#include <troupe/kernels/cpu/gemm_table.hpp>
#include <troupe/kernels/cpu/ivdep.hpp>
#include <troupe/kernels/cpu/packed_factor.hpp>
#include <troupe/kernels/cpu/recurrent.hpp>

namespace troupe::recurrent {

// gemm() in parts on all threads.
template <class T>
void product(Parallelism& parallelism, std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b,
             T* c, std::int64_t c_stride, bool accumulate = false) {
  const GemmParts parts = gemm_parts(m, n, k);
  const auto count = [](std::int64_t length, std::int64_t step) { return step == 0 ? 0 : (length + step - 1) / step; };
  const std::int64_t columns = count(n, parts.column_step);
  parallelism.parallel_for(count(m, parts.row_step) * columns, 1, [&](std::int64_t part, std::int64_t) {
    const std::int64_t top = part / columns * parts.row_step, left = part % columns * parts.column_step;
    MatrixView<T> rows = a, cols = b;
    rows.data += rows.transposed ? top : top * rows.stride;
    cols.data += cols.transposed ? left * cols.stride : left;
    gemm(std::min(parts.row_step, m - top), std::min(parts.column_step, n - left), k, rows, cols,
         c + top * c_stride + left, c_stride, accumulate);
  });
}

// One part of a step: rows [row, row_end) of the batch, units [unit, unit_end).
struct StepPart {
  std::int64_t row = 0, row_end = 0;
  std::int64_t panel = 0, panel_end = 0;
  std::int64_t unit = 0, unit_end = 0;
  std::int64_t width() const { return unit_end - unit; }
};

// The parts of each step: of about 2 million multiplications, which take many times as long as waking a thread.
class StepParts {
 public:
  // `cost`: multiplications for one unit of one row.
  template <class T>
  StepParts(Parallelism& parallelism, std::int64_t batch, const PackedFactor<T>& factor, std::int64_t cost)
      : parallelism_(parallelism), batch_(batch), panels_(factor.panels()) {
    constexpr std::int64_t kProducts = std::int64_t{1} << 21;
    const std::int64_t row = std::max<std::int64_t>(1, factor.column(panels_) * cost);
    rows_ = std::max<std::int64_t>(64, kProducts / row / 8 * 8);
    const std::int64_t panel =
        std::max<std::int64_t>(1, std::min(rows_, batch) * row / std::max<std::int64_t>(1, panels_));
    step_ = std::clamp<std::int64_t>(kProducts / panel, 1, std::max<std::int64_t>(1, panels_));
    groups_ = (panels_ + step_ - 1) / step_;
  }
  template <class T, class Fn>
  void run(const PackedFactor<T>& factor, Fn fn) const {
    parallelism_.parallel_for((batch_ + rows_ - 1) / rows_ * groups_, 1, [&](std::int64_t part, std::int64_t) {
      StepPart p;
      p.row = part / groups_ * rows_;
      p.row_end = std::min(batch_, p.row + rows_);
      p.panel = part % groups_ * step_;
      p.panel_end = std::min(panels_, p.panel + step_);
      p.unit = factor.column(p.panel);
      p.unit_end = factor.column(p.panel_end);
      fn(p);
    });
  }

 private:
  Parallelism& parallelism_;
  std::int64_t batch_, panels_;
  std::int64_t rows_ = 0, step_ = 0, groups_ = 0;
};

// The steps in the order of the recurrence.
struct StepOrder {
  std::int64_t steps;
  bool reverse;
  std::int64_t at(std::int64_t i) const { return reverse ? steps - 1 - i : i; }
};

// Whether step t of a row is part of its sequence. Others keep the state.
inline bool runs(const std::int64_t* lengths, std::int64_t row, std::int64_t t) { return !lengths || t < lengths[row]; }

template <class T>
void copy_or_zero(const T* from, std::int64_t count, T* to) {
  if (from)
    std::copy_n(from, count, to);
  else
    std::fill_n(to, count, T{0});
}

// The sum of a gate's two biases; zeros without any.
template <class T>
void add_biases(const T* bias, std::int64_t count, T* sum) {
  for (std::int64_t j = 0; j < count; ++j) sum[j] = bias ? bias[j] + bias[count + j] : T{0};
}

// to[j] += a[j] + b[j]
template <class T>
void add_both(const T* __restrict a, const T* __restrict b, std::int64_t count, T* __restrict to) {
  for (std::int64_t j = 0; j < count; ++j) to[j] += a[j] + b[j];
}
// to[j] += a[j] * b[j]
template <class T>
void add_product(const T* __restrict a, const T* __restrict b, std::int64_t count, T* __restrict to) {
  for (std::int64_t j = 0; j < count; ++j) to[j] += a[j] * b[j];
}
template <class T>
void add(const T* __restrict a, std::int64_t count, T* __restrict to) {
  for (std::int64_t j = 0; j < count; ++j) to[j] += a[j];
}

// The state before each step: [steps, batch, units].
template <class T>
void states_before(Parallelism& parallelism, const RecurrentCell& cell, const RecurrentInputs<T>& in, const T* y,
                   T* before) {
  const RecurrentSizes& s = cell.sizes;
  const StepOrder order{s.steps, cell.reverse};
  const std::int64_t grain =
      std::max<std::int64_t>(1, (std::int64_t{1} << 16) / std::max<std::int64_t>(1, s.batch * s.units));
  parallelism.parallel_for(s.steps, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t n = 0; n < s.batch; ++n) {
        T* to = before + (order.at(i) * s.batch + n) * s.units;
        const bool first = i == 0 || !runs(in.lengths, n, order.at(i - 1));
        if (first)
          copy_or_zero(in.initial_h ? in.initial_h + n * s.units : nullptr, s.units, to);
        else
          std::copy_n(y + (order.at(i - 1) * s.directions * s.batch + n) * s.units, s.units, to);
      }
  });
}

// Sums term(row) over all rows for each of `count` columns, in blocks of 64 rows. Term adds its row to sums [count].
template <class T, class Term>
void sum_rows(Parallelism& parallelism, std::int64_t rows, std::int64_t count, T* out, Term term) {
  constexpr std::int64_t kBlock = 64;
  const std::int64_t grain =
      std::max<std::int64_t>(64, (std::int64_t{1} << 16) / std::max<std::int64_t>(1, rows) / 16 * 16);
  parallelism.parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    const ScratchArray<T> block(end - begin);
    const ScratchArray<double> total(end - begin);
    std::fill_n(total.data(), end - begin, 0.0);
    for (std::int64_t top = 0; top < rows; top += kBlock) {
      std::fill_n(block.data(), end - begin, T{0});
      for (std::int64_t i = top; i < std::min(rows, top + kBlock); ++i) term(i, begin, end, block.data());
      for (std::int64_t j = 0; j < end - begin; ++j) total[j] += static_cast<double>(block[j]);
    }
    for (std::int64_t j = begin; j < end; ++j) out[j] = static_cast<T>(total[j - begin]);
  });
}

// The gradients of x, W and the biases of W, from those of the gates before activation.
template <class T>
void input_gradients(Parallelism& parallelism, const RecurrentCell& cell, const RecurrentInputs<T>& in, const T* dgates,
                     const RecurrentGradients<T>& g) {
  const RecurrentSizes& s = cell.sizes;
  const std::int64_t rows = s.steps * s.batch, width = s.gates * s.units;
  if (g.dx)
    product<T>(parallelism, rows, s.inputs, width, {dgates, width, false}, {in.w, s.inputs, false}, g.dx, s.inputs,
               g.add_to_x);
  product<T>(parallelism, width, s.inputs, rows, {dgates, width, true}, {in.x, s.inputs, false}, g.dw, s.inputs);
  if (g.dbias)
    sum_rows<T>(parallelism, rows, width, g.dbias, [&](std::int64_t i, std::int64_t begin, std::int64_t end, T* sums) {
      add(dgates + i * width + begin, end - begin, sums);
    });
}

}  // namespace troupe::recurrent
