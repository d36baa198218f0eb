// Kernels of Qr, Eigh, Svd and PseudoInverse: batches of matrices [...,m,n], computed in double precision, in parallel.
// Results of a matrix with NaN or infinite elements are NaN.
#include <algorithm>
#include <cmath>
#include <limits>

#include <troupe/graph/builder/decompositions.hpp>
#include <troupe/kernels/cpu/decompositions.hpp>
#include <troupe/kernels/cpu/gemm.hpp>
#include <troupe/kernels/cpu/matrix.hpp>
#include <troupe/kernels/cpu/scratch.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

struct Matrices {
  Shape batch;
  std::int64_t m = 0, n = 0;

  std::int64_t smaller() const { return std::min(m, n); }
  Shape with(std::initializer_list<std::int64_t> dims) const { return batch.concatenated(Shape(dims)); }
};

Matrices matrices_of(const Tensor& x) {
  const Shape& shape = x.shape();
  if (shape.rank() < 2) invalid_argument("x must be matrices [...,m,n], but its shape is {}", shape.to_string());
  return {shape.sub(0, shape.rank() - 2), shape[-2], shape[-1]};
}

// Where the results of one matrix go: elements of outputs.
template <class T>
class ResultsOfOne {
 public:
  ResultsOfOne(std::vector<Tensor>& outputs, std::int64_t count, std::int64_t index) {
    for (Tensor& output : outputs) {
      const std::int64_t size = output.num_elements() / count;
      to_.emplace_back(output.mutable_data<T>() + index * size, size);
    }
  }
  void set(std::size_t output, const double* from) const {
    const auto [to, size] = to_[output];
    for (std::int64_t i = 0; i < size; ++i) to[i] = static_cast<T>(static_cast<Compute<T>>(from[i]));
  }
  void set_nan() const {
    for (const auto& [to, size] : to_)
      std::fill_n(to, size, static_cast<T>(std::numeric_limits<Compute<T>>::quiet_NaN()));
  }

 private:
  std::vector<std::pair<T*, std::int64_t>> to_;
};

// Of matrices without elements: the vectors that complete a basis are those of the identity.
template <class T>
void set_identities(Tensor& out) {
  const std::int64_t n = out.shape()[-1];
  std::fill_n(out.mutable_data<T>(), out.num_elements(), T{});
  for (std::int64_t i = 0; i < out.num_elements(); ++i)
    if (i / n % n == i % n) out.mutable_data<T>()[i] = static_cast<T>(1.0f);
}

enum class Reads { all, lower_triangle };

// Makes outputs of these shapes, and calls find(matrix, results) for each matrix of input 0, which it may change;
// `find` returns whether it has succeeded.
template <class T, class Find>
void decompose_each(KernelContext& c, const char* op, const Matrices& x, const std::vector<Shape>& shapes, Reads reads,
                    Find find) {
  std::vector<Tensor> outputs;
  for (const Shape& shape : shapes) outputs.push_back(c.allocate(dtype_of<T>, shape));
  const std::int64_t size = x.m * x.n, count = x.batch.num_elements();
  const T* const from = c.input(0).data<T>();
  FirstMatrix failed(count);
  const auto decompose_part = [&](std::int64_t begin, std::int64_t end) {
    const ScratchArray<double> matrix(size);
    for (std::int64_t index = begin; index < end; ++index) {
      bool finite = true;
      for (std::int64_t i = 0; i < size; ++i) {
        matrix[i] = static_cast<double>(static_cast<Compute<T>>(from[index * size + i]));
        finite = finite && (std::isfinite(matrix[i]) || (reads == Reads::lower_triangle && i % x.n > i / x.n));
      }
      const ResultsOfOne<T> results(outputs, count, index);
      if (!finite)
        results.set_nan();
      else if (!find(matrix.data(), results))
        failed.note(index);
    }
  };
  if (size > 0) {
    const double cost = 10.0 * static_cast<double>(size) * static_cast<double>(x.smaller());
    c.parallelism().parallel_for(count, matrix_grain(cost), decompose_part);
  } else {
    for (Tensor& output : outputs)
      if (output.num_elements() > 0) set_identities<T>(output);
  }
  if (failed.any()) fail(Code::internal, "{}: the iteration for {} has not converged", op, failed.name("x", x.batch));
  for (std::size_t i = 0; i < outputs.size(); ++i) c.set_output(static_cast<int>(i), std::move(outputs[i]));
}

template <class T>
Kernel make_qr(const KernelInit& init) {
  return [full = init.attributes.boolean("full_matrices")](KernelContext& c) {
    const Matrices x = matrices_of(c.input(0));
    const std::int64_t columns = full ? x.m : x.smaller();
    const auto find = [&](double* matrix, const ResultsOfOne<T>& results) {
      const ScratchArray<double> q(x.m * columns), r(columns * x.n);
      find_qr(matrix, x.m, x.n, columns, q.data(), r.data());
      results.set(0, q.data());
      results.set(1, r.data());
      return true;
    };
    decompose_each<T>(c, "Qr", x, {x.with({x.m, columns}), x.with({columns, x.n})}, Reads::all, find);
  };
}

template <class T>
Kernel make_eigh(const KernelInit& init) {
  return [vectors = init.attributes.boolean("compute_v")](KernelContext& c) {
    det_shape(c.input(0).shape());
    const Matrices x = matrices_of(c.input(0));
    const auto find = [&](const double* matrix, const ResultsOfOne<T>& results) {
      const ScratchArray<double> w(x.n), v(vectors ? x.n * x.n : 0);
      if (!find_eigh(matrix, x.n, w.data(), vectors ? v.data() : nullptr)) return false;
      results.set(0, w.data());
      results.set(1, v.data());
      return true;
    };
    decompose_each<T>(c, "Eigh", x, {x.with({x.n}), x.with({x.n, vectors ? x.n : 0})}, Reads::lower_triangle, find);
  };
}

template <class T>
Kernel make_svd(const KernelInit& init) {
  return [full = init.attributes.boolean("full_matrices"),
          vectors = init.attributes.boolean("compute_uv")](KernelContext& c) {
    const Matrices x = matrices_of(c.input(0));
    const std::int64_t of_u = !vectors ? 0 : full ? x.m : x.smaller(), of_vh = !vectors ? 0 : full ? x.n : x.smaller();
    const auto find = [&](const double* matrix, const ResultsOfOne<T>& results) {
      const ScratchArray<double> u(x.m * of_u), s(x.smaller()), vh(of_vh * x.n);
      if (!find_svd(matrix, x.m, x.n, full, vectors ? u.data() : nullptr, s.data(), vh.data())) return false;
      results.set(0, u.data());
      results.set(1, s.data());
      results.set(2, vh.data());
      return true;
    };
    decompose_each<T>(c, "Svd", x, {x.with({x.m, of_u}), x.with({x.smaller()}), x.with({of_vh, x.n})}, Reads::all,
                      find);
  };
}

// V diag(1 / s) U^T, without the singular values up to `rtol` times the largest.
template <class T>
Kernel make_pseudo_inverse(const KernelInit& init) {
  return [given = init.attributes.real("rtol")](KernelContext& c) {
    const Matrices x = matrices_of(c.input(0));
    const std::int64_t m = x.m, n = x.n, k = x.smaller();
    const double rtol = given >= 0 ? given : static_cast<double>(std::max(m, n)) * epsilon_of(dtype_of<T>);
    const auto find = [&](const double* matrix, const ResultsOfOne<T>& results) {
      const ScratchArray<double> u(m * k), s(k), vh(k * n), inverse(n * m);
      if (!find_svd(matrix, m, n, false, u.data(), s.data(), vh.data())) return false;
      for (std::int64_t i = 0; i < k; ++i)
        for (std::int64_t j = 0; j < n; ++j) vh[i * n + j] = s[i] > rtol * s[0] ? vh[i * n + j] / s[i] : 0;
      gemm<double>(n, m, k, {.data = vh.data(), .stride = n, .transposed = true},
                   {.data = u.data(), .stride = k, .transposed = true}, inverse.data(), m);
      results.set(0, inverse.data());
      return true;
    };
    decompose_each<T>(c, "PseudoInverse", x, {x.with({n, m})}, Reads::all, find);
  };
}

}  // namespace

void add_decomposition_kernels(KernelRegistry& registry) {
  add_factories(registry, "Qr", FloatTypes{}, []<class T>(const KernelInit& init) { return make_qr<T>(init); });
  add_factories(registry, "Eigh", FloatTypes{}, []<class T>(const KernelInit& init) { return make_eigh<T>(init); });
  add_factories(registry, "Svd", FloatTypes{}, []<class T>(const KernelInit& init) { return make_svd<T>(init); });
  add_factories(registry, "PseudoInverse", FloatTypes{},
                []<class T>(const KernelInit& init) { return make_pseudo_inverse<T>(init); });
}

}  // namespace troupe
