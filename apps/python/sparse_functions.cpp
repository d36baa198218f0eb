// Functions of sparse tensors, each given and returned as its three parts. The package has their public forms, with
// defaults and documentation.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>

#include "apps/python/arguments.hpp"
#include "apps/python/dtypes.hpp"
#include "apps/python/tensors.hpp"
#include <troupe/graph/builder/math.hpp>
#include <troupe/graph/builder/sparse.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

// Of what Python has: arrays of indices are of any integers.
nb::object py_sparse_tensor(nb::handle indices, nb::handle values, nb::handle dense_shape) {
  const nb::handle all[] = {indices, values, dense_shape};
  const CallGraph of = CallGraph::of(all);
  Outputs parts{operand(of, indices, DType::i64)};
  parts.push_back(operand(of, values));
  parts.push_back(operand(of, dense_shape, DType::i64));
  return to_python(of, parts_of(sparse_tensor(parts[0], parts[1], parts[2])));
}

SparseTensor sparse_of(const Outputs& parts, std::size_t first = 0) {
  return {.indices = parts[first], .values = parts[first + 1], .dense_shape = parts[first + 2]};
}

// The three tensors of a SparseTensor as arguments.
using Parts = std::array<nb::handle, 3>;
Parts parts_in(nb::handle x) {
  const auto all = nb::cast<nb::tuple>(x);
  if (all.size() != 3) invalid_argument("a sparse tensor has 3 parts, not {}", all.size());
  return {all[0], all[1], all[2]};
}

// fn(sparse tensor, dense ones) as Python's tensor, or the parts of a sparse one. Values and dense tensors are of the
// dtype that NumPy would compute in.
template <class Fn>
nb::object call_sparse(nb::handle x, std::initializer_list<nb::handle> dense, const Fn& fn) {
  const Parts parts = parts_in(x);
  std::vector<nb::handle> all(parts.begin(), parts.end());
  all.insert(all.end(), dense);
  const CallGraph of = CallGraph::of(all);
  std::vector<nb::handle> numbers{parts[1]};
  numbers.insert(numbers.end(), dense);
  const Outputs same = promoted(of, numbers);
  Outputs xs{operand(of, parts[0]), same[0], operand(of, parts[2])};
  xs.insert(xs.end(), same.begin() + 1, same.end());
  return to_python(of, call_released(of, xs, [&](const Outputs& in) { return fn(sparse_of(in), in); }));
}

// fn(two sparse tensors), both of the dtype that NumPy would compute in.
template <class Fn>
nb::object call_both(nb::handle a, nb::handle b, const Fn& fn) {
  const Parts left = parts_in(a), right = parts_in(b);
  std::vector<nb::handle> all(left.begin(), left.end());
  all.insert(all.end(), right.begin(), right.end());
  const CallGraph of = CallGraph::of(all);
  const Outputs values = promoted(of, std::array{left[1], right[1]});
  const Outputs xs{operand(of, left[0]),  values[0], operand(of, left[2]),
                   operand(of, right[0]), values[1], operand(of, right[2])};
  return to_python(
      of, call_released(of, xs, [&](const Outputs& in) { return parts_of(fn(sparse_of(in), sparse_of(in, 3))); }));
}

// fn(sparse tensor) of any dtype.
template <class Fn>
nb::object call_parts(nb::handle x, const Fn& fn) {
  const Parts parts = parts_in(x);
  return call({parts[0], parts[1], parts[2]}, [&](const Outputs& in) { return fn(sparse_of(in)); });
}

void bind_sparse_values(nb::module_& m) {
  m.def("sparse_tensor", &py_sparse_tensor, "indices"_a, "values"_a, "dense_shape"_a);
  m.def(
      "sparse_shape",
      [](const PyTensor& indices, const PyTensor& values, const PyTensor& dense_shape) {
        return shape_tuple(sparse_of({indices.output(), values.output(), dense_shape.output()}).shape());
      },
      "indices"_a, "values"_a, "dense_shape"_a);
  m.def(
      "sparse_placeholder",
      [](PyGraph& graph, nb::handle dtype, const Dims& shape, const std::string& name) {
        return to_python({graph.graph.get(), graph.graph},
                         parts_of(sparse_placeholder(*graph.graph, dtype_from(dtype), shape_of_dims(shape), name)));
      },
      "graph"_a, "dtype"_a, "shape"_a.none(), "name"_a);
}

void bind_sparse_and_dense(nb::module_& m) {
  m.def("sparse_from_dense",
        [](nb::handle x) { return call({x}, [](const Outputs& xs) { return parts_of(dense_to_sparse(xs[0])); }); });
  m.def(
      "sparse_to_dense",
      [](nb::handle x, nb::handle default_value, bool validate) {
        const Parts parts = parts_in(x);
        return call({parts[0], parts[1], parts[2], default_value}, [&](const Outputs& xs) {
          SparseToDenseOptions options{.default_value = {}, .validate = validate};
          if (xs[3].valid()) options.default_value = cast(xs[3], xs[1].dtype());
          return sparse_to_dense(sparse_of(xs), options);
        });
      },
      "x"_a, "default_value"_a.none(), "validate"_a);
  m.def("sparse_to_indicator", [](nb::handle x, std::int64_t size) {
    return call_parts(x, [&](const SparseTensor& ids) { return sparse_to_indicator(ids, size); });
  });
  m.def("sparse_dense_matmul", [](nb::handle a, nb::handle b, bool adjoint_a, bool adjoint_b) {
    return call_sparse(a, {b}, [&](const SparseTensor& x, const Outputs& xs) {
      return sparse_dense_matmul(x, xs[3], {.adjoint_a = adjoint_a, .adjoint_b = adjoint_b});
    });
  });
  m.def("sampled_matmul", [](nb::handle indices, nb::handle x, nb::handle y) {
    const nb::handle all[] = {indices, x, y};
    const CallGraph of = CallGraph::of(all);
    Outputs xs = promoted(of, std::array{x, y});
    xs.push_back(operand(of, indices, DType::i64));
    return to_python(of, call_released(of, xs, [](const Outputs& in) { return sampled_matmul(in[2], in[0], in[1]); }));
  });
  m.def("sparse_dense_add", [](nb::handle x, nb::handle b) {
    return call_sparse(x, {b}, [](const SparseTensor& a, const Outputs& xs) { return sparse_dense_add(a, xs[3]); });
  });
  m.def("sparse_dense_multiply", [](nb::handle x, nb::handle b) {
    return call_sparse(
        x, {b}, [](const SparseTensor& a, const Outputs& xs) { return parts_of(sparse_dense_multiply(a, xs[3])); });
  });
  m.def("sparse_dense_divide", [](nb::handle x, nb::handle b) {
    return call_sparse(x, {b}, [](const SparseTensor& a, const Outputs& xs) {
      SparseTensor floating = a;
      floating.values = as_floating(a.values);
      return parts_of(sparse_dense_divide(floating, as_floating(xs[3])));
    });
  });
}

void bind_sparse_elements(nb::module_& m) {
  const auto plain = [&](const char* name, SparseTensor (*fn)(const SparseTensor&)) {
    m.def(name, [fn](nb::handle x) { return call_parts(x, [fn](const SparseTensor& a) { return parts_of(fn(a)); }); });
  };
  plain("sparse_reorder", sparse_reorder);
  plain("sparse_coalesce", sparse_coalesce);
  const auto pairs = [&](const char* name, SparseTensor (*fn)(const SparseTensor&, const SparseTensor&)) {
    m.def(name, [fn](nb::handle a, nb::handle b) { return call_both(a, b, fn); });
  };
  pairs("sparse_maximum", sparse_maximum);
  pairs("sparse_minimum", sparse_minimum);
  pairs("sparse_multiply", sparse_multiply);
  m.def("sparse_add", [](nb::handle a, nb::handle b, double threshold) {
    return call_both(
        a, b, [&](const SparseTensor& x, const SparseTensor& y) { return sparse_add(x, y, {.threshold = threshold}); });
  });
  m.def("sparse_softmax", [](nb::handle x) {
    return call_parts(x, [](const SparseTensor& a) {
      SparseTensor floating = a;
      floating.values = as_floating(a.values);
      return parts_of(sparse_softmax(floating));
    });
  });
  m.def("sparse_fill_empty_rows", [](nb::handle x, nb::handle default_value) {
    const Parts parts = parts_in(x);
    return call({parts[0], parts[1], parts[2], default_value}, [](const Outputs& xs) {
      const FilledRows found = sparse_fill_empty_rows(sparse_of(xs), xs[3]);
      Outputs out = parts_of(found.output);
      out.push_back(found.empty_row_indicator);
      return out;
    });
  });
}

void bind_sparse_shapes(nb::module_& m) {
  const auto reduced = [&](const char* name, SparseTensor (*fn)(const SparseTensor&, const Integers&, bool)) {
    m.def(
        name,
        [fn, name](nb::handle x, nb::handle axis, bool keepdims) {
          const Integers axes = integers_of(axis, name).value_or(Integers{});
          return call_parts(x, [&](const SparseTensor& a) { return parts_of(fn(a, axes, keepdims)); });
        },
        "x"_a, "axis"_a.none(), "keepdims"_a);
  };
  reduced("sparse_reduce_sum_sparse", sparse_reduce_sum_sparse);
  reduced("sparse_reduce_max_sparse", sparse_reduce_max_sparse);
  m.def("sparse_slice", [](nb::handle x, nb::handle start, nb::handle size) {
    const Parts parts = parts_in(x);
    return call({parts[0], parts[1], parts[2], start, size},
                [](const Outputs& xs) { return parts_of(sparse_slice(sparse_of(xs), xs[3], xs[4])); });
  });
  m.def("sparse_concat", [](nb::handle list, std::int64_t axis) {
    std::vector<nb::object> all;
    std::vector<nb::handle> handles, values;
    for (const nb::handle x : nb::cast<nb::list>(list))
      for (const nb::handle part : parts_in(x)) {
        all.push_back(nb::borrow(part));
        handles.push_back(part);
        if (handles.size() % 3 == 2) values.push_back(part);
      }
    const CallGraph of = CallGraph::of(handles);
    const Outputs given = promoted(of, values);
    std::vector<SparseTensor> xs;
    for (std::size_t i = 0; i < given.size(); ++i) {
      SparseTensor x{.indices = operand(of, handles[3 * i]), .values = given[i]};
      x.dense_shape = operand(of, handles[3 * i + 2]);
      xs.push_back(std::move(x));
    }
    return to_python(of, call_released(of, given, [&](const Outputs&) { return parts_of(sparse_concat(xs, axis)); }));
  });
  m.def("sparse_split", [](nb::handle x, std::int64_t parts, std::int64_t axis) {
    return call_parts(x, [&](const SparseTensor& a) {
      Outputs out;
      for (const SparseTensor& part : sparse_split(a, axis, parts))
        for (Output& each : parts_of(part)) out.push_back(std::move(each));
      return out;
    });
  });
  m.def("sparse_reshape", [](nb::handle x, nb::handle shape) {
    const Parts parts = parts_in(x);
    return call({parts[0], parts[1], parts[2], shape},
                [](const Outputs& xs) { return parts_of(sparse_reshape(sparse_of(xs), xs[3])); });
  });
  m.def(
      "sparse_transpose",
      [](nb::handle x, nb::handle perm) {
        const Integers axes = integers_of(perm, "transpose").value_or(Integers{});
        return call_parts(x, [&](const SparseTensor& a) { return parts_of(sparse_transpose(a, axes)); });
      },
      "x"_a, "perm"_a.none());
  m.def("sparse_expand_dims", [](nb::handle x, std::int64_t axis) {
    return call_parts(x, [&](const SparseTensor& a) { return parts_of(sparse_expand_dims(a, axis)); });
  });
  m.def("sparse_retain", [](nb::handle x, nb::handle keep) {
    const Parts parts = parts_in(x);
    return call({parts[0], parts[1], parts[2], keep},
                [](const Outputs& xs) { return parts_of(sparse_retain(sparse_of(xs), xs[3])); });
  });
  m.def(
      "sparse_reset_shape",
      [](nb::handle x, nb::handle shape) {
        const Parts parts = parts_in(x);
        return call({parts[0], parts[1], parts[2], shape},
                    [](const Outputs& xs) { return parts_of(sparse_reset_shape(sparse_of(xs), xs[3])); });
      },
      "x"_a, "new_shape"_a.none());
  m.def("sparse_to_ragged", [](nb::handle x) {
    return call_parts(x, [](const SparseTensor& a) {
      const Ragged rows = sparse_to_ragged(a);
      return Outputs{rows.values, rows.row_splits};
    });
  });
  const auto segments = [&](const char* name, Output (*fn)(Output, Output, Output, Name)) {
    m.def(name, [fn](nb::handle x, nb::handle indices, nb::handle ids) {
      return call({x, indices, ids}, [fn](const Outputs& xs) { return fn(xs[0], xs[1], xs[2], {}); });
    });
  };
  segments("sparse_segment_sum", sparse_segment_sum);
  segments("sparse_segment_mean", sparse_segment_mean);
  segments("sparse_segment_sqrt_n", sparse_segment_sqrt_n);
}

}  // namespace

void bind_sparse_functions(nb::module_& m) {
  bind_sparse_values(m);
  bind_sparse_and_dense(m);
  bind_sparse_elements(m);
  bind_sparse_shapes(m);
}

}  // namespace troupe::python
