// Functions of matrices: factors, inverses, solutions. The package has their public forms, with defaults and
// documentation.
#include <nanobind/nanobind.h>

#include "apps/python/operands.hpp"
#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/decompositions.hpp>
#include <troupe/graph/builder/linear.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;

// fn(a, b) for b of vectors [n], or of matrices [...,n,k].
template <class Fn>
nb::object solution_of(nb::handle a, nb::handle b, const Fn& fn) {
  return call_promoted({a, b}, [&](const Outputs& xs) {
    const Output matrix = as_floating(xs[0]), given = as_floating(xs[1]);
    if (given.shape().rank() != 1) return fn(matrix, given);
    return squeeze(fn(matrix, expand_dims(given, -1)), -1);
  });
}

}  // namespace

void bind_linalg_functions(nb::module_& m) {
  const auto of_matrix = [&](const char* name, Output (*fn)(Output, Name)) {
    m.def(name,
          [fn](nb::handle x) { return call({x}, [&](const Outputs& xs) { return fn(as_floating(xs[0]), {}); }); });
  };
  of_matrix("linalg_det", det);
  of_matrix("linalg_inv", matrix_inverse);
  of_matrix("linalg_cholesky", cholesky);
  of_matrix("linalg_logdet", logdet);
  of_matrix("linalg_cofactors", cofactors);
  of_matrix("linalg_eigvalsh", eigvalsh);
  of_matrix("linalg_svdvals", svdvals);
  m.def("linalg_slogdet", [](nb::handle x) {
    return call({x}, [](const Outputs& xs) {
      const LogDet found = slogdet(as_floating(xs[0]));
      return Outputs{found.sign, found.log_abs};
    });
  });
  m.def("linalg_qr", [](nb::handle x, bool full_matrices) {
    return call({x}, [&](const Outputs& xs) {
      const Qr found = qr(as_floating(xs[0]), {.full_matrices = full_matrices});
      return Outputs{found.q, found.r};
    });
  });
  m.def("linalg_eigh", [](nb::handle x) {
    return call({x}, [](const Outputs& xs) {
      const Eigh found = eigh(as_floating(xs[0]));
      return Outputs{found.values, found.vectors};
    });
  });
  m.def("linalg_svd", [](nb::handle x, bool full_matrices) {
    return call({x}, [&](const Outputs& xs) {
      const Svd found = svd(as_floating(xs[0]), {.full_matrices = full_matrices});
      return Outputs{found.u, found.s, found.vh};
    });
  });
  m.def("linalg_pinv", [](nb::handle x, double rtol) {
    return call({x}, [&](const Outputs& xs) { return pinv(as_floating(xs[0]), {.rtol = rtol}); });
  });
  m.def("linalg_matrix_rank", [](nb::handle x, double rtol) {
    return call({x}, [&](const Outputs& xs) { return matrix_rank(as_floating(xs[0]), {.rtol = rtol}); });
  });
  m.def("linalg_solve", [](nb::handle a, nb::handle b, bool adjoint) {
    return solution_of(a, b, [&](Output x, Output y) { return matrix_solve(x, y, {.adjoint = adjoint}); });
  });
  m.def("linalg_triangular_solve", [](nb::handle a, nb::handle b, bool lower, bool adjoint) {
    return solution_of(
        a, b, [&](Output x, Output y) { return triangular_solve(x, y, {.adjoint = adjoint, .lower = lower}); });
  });
  m.def("linalg_cholesky_solve", [](nb::handle l, nb::handle b) {
    return solution_of(l, b, [](Output x, Output y) { return cholesky_solve(x, y); });
  });
  m.def("linalg_lstsq", [](nb::handle a, nb::handle b, double rtol) {
    return solution_of(a, b, [&](Output x, Output y) { return lstsq(x, y, {.rtol = rtol}); });
  });
}

}  // namespace troupe::python
