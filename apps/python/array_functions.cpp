// Functions of arrays with NumPy's names: constants, shapes, joins, indices, order. The package has their public forms,
// with defaults and documentation.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "apps/python/arguments.hpp"
#include "apps/python/dtypes.hpp"
#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/debug.hpp>
#include <troupe/graph/builder/index.hpp>
#include <troupe/graph/builder/layout.hpp>
#include <troupe/graph/builder/math.hpp>
#include <troupe/graph/builder/order.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

std::optional<DType> wanted_type(nb::handle dtype) {
  return dtype.is_none() ? std::nullopt : std::optional(dtype_from(dtype));
}

Output filled(Graph& graph, const Shape& shape, const Tensor& value) {
  if (!shape.fully_known()) invalid_argument("full: a dimension is negative");
  const Output dims = constant(graph, Tensor::of<std::int64_t>(Shape{shape.rank()}, shape.dims()));
  return fill(dims, constant(graph, value));
}

void bind_constants(nb::module_& m) {
  m.def(
      "full",
      [](nb::handle shape, nb::handle value, nb::handle dtype) {
        const CallGraph of{&eager_graph()};
        const Tensor element = data_of(value, wanted_type(dtype));
        if (!element.shape().is_scalar())
          return to_python(of, broadcast_to(constant(*of.graph, element), *integers_of(shape, "full")));
        return to_python(of, filled(*of.graph, shape_from(shape, "full"), element));
      },
      "shape"_a, "value"_a, "dtype"_a.none());
  m.def(
      "full_like",
      [](nb::handle x, nb::handle value, nb::handle dtype) {
        const CallGraph of = CallGraph::of(std::span(&x, 1));
        const Output like = operand(of, x);
        const Tensor element = number_of(value, wanted_type(dtype).value_or(like.dtype()));
        return to_python(of, like.shape().fully_known() ? filled(*of.graph, like.shape(), element)
                                                        : fill(shape_of(like), constant(*of.graph, element)));
      },
      "x"_a, "value"_a, "dtype"_a.none());
  m.def("linspace", [](double start, double stop, std::int64_t count, nb::handle dtype) {
    const CallGraph of{&eager_graph()};
    const DType type = dtype_from(dtype);
    return to_python(
        of, linspace(constant(*of.graph, scalar_of(type, start)), constant(*of.graph, scalar_of(type, stop)), count));
  });
  m.def("eye", [](std::int64_t rows, std::int64_t columns, std::int64_t k, nb::handle dtype) {
    const CallGraph of{&eager_graph()};
    return to_python(of, eye(constant<std::int64_t>(*of.graph, rows), constant<std::int64_t>(*of.graph, columns),
                             {.dtype = dtype_from(dtype), .k = k}));
  });
}

// ---- shapes

// Dimensions of 1 only grow.
void check_broadcast(const Shape& from, const Shape& to) {
  if (!from.fully_known()) return;
  bool fits = from.rank() <= to.rank();
  for (int i = 1; fits && i <= from.rank(); ++i) fits = from[-i] == 1 || from[-i] == to[-i];
  if (!fits) invalid_argument("broadcast_to: {} cannot be broadcast to {}", from.to_string(), to.to_string());
}

void bind_shapes(nb::module_& m) {
  m.def("reshape", [](nb::handle x, nb::handle shape) {
    if (is_tensor(shape)) return call({x, shape}, [](const Outputs& xs) { return reshape(xs[0], xs[1]); });
    const Shape wanted = shape_from(shape, "reshape");
    return call({x}, [&](const Outputs& xs) { return reshape(xs[0], wanted); });
  });
  m.def(
      "transpose",
      [](nb::handle x, nb::handle axes) {
        const Integers order = integers_of(axes, "transpose").value_or(Integers{});
        return call({x}, [&](const Outputs& xs) { return transpose(xs[0], order); });
      },
      "x"_a, "axes"_a.none());
  m.def(
      "squeeze",
      [](nb::handle x, nb::handle axis) {
        const Integers axes = integers_of(axis, "squeeze").value_or(Integers{});
        return call({x}, [&](const Outputs& xs) { return squeeze(xs[0], axes); });
      },
      "x"_a, "axis"_a.none());
  m.def("expand_dims", [](nb::handle x, nb::handle axis) {
    const auto axes = integers_of(axis, "expand_dims");
    if (!axes) invalid_argument("expand_dims: the axis is None");
    return call({x}, [&](const Outputs& xs) { return expand_dims(xs[0], *axes); });
  });
  m.def("broadcast_to", [](nb::handle x, nb::handle shape) {
    const Shape wanted = shape_from(shape, "broadcast_to");
    return call({x}, [&](const Outputs& xs) {
      check_broadcast(xs[0].shape(), wanted);
      return broadcast_to(xs[0], Integers(wanted.dims().begin(), wanted.dims().end()));
    });
  });
  m.def("concatenate", [](nb::handle tensors, std::int64_t axis) {
    return call_list(tensors, [&](const Outputs& xs) { return concat(xs, axis); });
  });
  m.def("stack", [](nb::handle tensors, std::int64_t axis) {
    return call_list(tensors, [&](const Outputs& xs) { return stack(xs, axis); });
  });
  m.def("unstack", [](nb::handle x, std::int64_t axis) {
    return call({x}, [&](const Outputs& xs) { return unstack(xs[0], axis); });
  });
  m.def("split", [](nb::handle x, std::int64_t parts, std::int64_t axis) {
    return call({x}, [&](const Outputs& xs) { return split(xs[0], axis, parts); });
  });
  m.def("split_sizes", [](nb::handle x, const Integers& sizes, std::int64_t axis) {
    return call({x}, [&](const Outputs& xs) { return split_sizes(xs[0], axis, sizes); });
  });
  m.def("tile", [](nb::handle x, const Integers& multiples) {
    return call({x}, [&](const Outputs& xs) { return tile(xs[0], multiples); });
  });
  m.def("repeat", [](nb::handle x, nb::handle repeats, std::int64_t axis) {
    const auto counts = integers_of(repeats, "repeat");
    return call({x}, [&](const Outputs& xs) { return repeat(xs[0], counts.value_or(Integers{}), axis); });
  });
  m.def("flip", [](nb::handle x, const Integers& axes) {
    return call({x}, [&](const Outputs& xs) { return reverse(xs[0], axes); });
  });
  m.def("roll", [](nb::handle x, const Integers& shifts, const Integers& axes) {
    return call({x}, [&](const Outputs& xs) { return roll(xs[0], shifts, axes); });
  });
  m.def("pad", [](nb::handle x, const std::vector<std::pair<std::int64_t, std::int64_t>>& widths,
                  const std::string& mode, nb::handle value) {
    Integers before, after;
    for (const auto& [first, last] : widths) {
      before.push_back(first);
      after.push_back(last);
    }
    const CallGraph of = CallGraph::of(std::span(&x, 1));
    const Output from = operand(of, x);
    PadOptions options;
    options.mode = parse_pad_mode(mode);
    options.value_tensor = constant(*of.graph, number_of(value, from.dtype()));
    return to_python(of,
                     call_released(of, {from}, [&](const Outputs& xs) { return pad(xs[0], before, after, options); }));
  });
  const auto of_matrix = [&](const char* name, Output (*fn)(Output, std::int64_t)) {
    m.def(name,
          [fn](nb::handle x, std::int64_t k) { return call({x}, [&](const Outputs& xs) { return fn(xs[0], k); }); });
  };
  of_matrix("triu", [](Output x, std::int64_t k) { return triu(x, k); });
  of_matrix("tril", [](Output x, std::int64_t k) { return tril(x, k); });
  of_matrix("diag_part", [](Output x, std::int64_t k) { return diag_part(x, k); });
  of_matrix("diag", [](Output x, std::int64_t k) { return diag(x, k); });
  m.def("set_diag", [](nb::handle x, nb::handle diagonal, std::int64_t k) {
    return call_promoted({x, diagonal}, [&](const Outputs& xs) { return set_diag(xs[0], xs[1], k); });
  });
  m.def("band_part", [](nb::handle x, std::int64_t lower, std::int64_t upper) {
    return call({x}, [&](const Outputs& xs) { return band_part(xs[0], lower, upper); });
  });
  m.def("reverse_sequence", [](nb::handle x, nb::handle lengths, std::int64_t seq_axis, std::int64_t batch_axis) {
    return call({x, lengths}, [&](const Outputs& xs) {
      return reverse_sequence(xs[0], cast(xs[1], DType::i64), {.seq_axis = seq_axis, .batch_axis = batch_axis});
    });
  });
  m.def("shape_of", [](nb::handle x) { return call({x}, [](const Outputs& xs) { return shape_of(xs[0]); }); });
}

// ---- indices

// Entries of x[...]: what a strided slice does at once. Bits of the masks are those of TensorFlow's.
struct BasicIndex {
  Integers begin, end, strides;
  std::uint64_t begin_mask = 0, end_mask = 0, new_axis_mask = 0, shrink_mask = 0;

  void add(std::int64_t first, std::int64_t last, std::int64_t step) {
    begin.push_back(first);
    end.push_back(last);
    strides.push_back(step);
  }
  std::uint64_t bit() const { return std::uint64_t{1} << begin.size(); }
};

std::optional<std::int64_t> bound(PyObject* value) {
  if (value == Py_None) return std::nullopt;
  const Py_ssize_t found = PyNumber_AsSsize_t(value, nullptr);  // clamped if it is too large, as in lists
  if (found == -1 && PyErr_Occurred()) throw nb::python_error();
  return found;
}

// Null: the index has more than integers, slices, ... and None.
std::optional<BasicIndex> basic_index(const Shape& shape, nb::handle index) {
  const nb::tuple entries = nb::isinstance<nb::tuple>(index) ? nb::borrow<nb::tuple>(index) : nb::make_tuple(index);
  std::size_t named = 0;
  int ellipses = 0;
  for (const nb::handle e : entries) {
    const bool is_integer = PyLong_Check(e.ptr()) && !PyBool_Check(e.ptr());
    if (e.ptr() == Py_Ellipsis)
      ++ellipses;
    else if (is_integer || PySlice_Check(e.ptr()))
      ++named;
    else if (!e.is_none())
      return std::nullopt;
  }
  if (ellipses > 1) fail(Code::out_of_range, "an index can have one `...`, not {}", ellipses);
  if (!shape.has_rank()) invalid_argument("a tensor of unknown rank cannot be indexed");
  const auto rank = static_cast<std::size_t>(shape.rank());
  if (named > rank) fail(Code::out_of_range, "{} indices are too many for a tensor of {} dimensions", named, rank);
  BasicIndex out;
  int dimension = 0;
  for (const nb::handle e : entries) {
    if (e.is_none()) {
      out.new_axis_mask |= out.bit();
      out.add(0, 1, 1);
    } else if (e.ptr() == Py_Ellipsis) {
      for (std::size_t i = named; i < rank; ++i, ++dimension) {
        out.begin_mask |= out.bit();
        out.end_mask |= out.bit();
        out.add(0, 0, 1);
      }
    } else if (PySlice_Check(e.ptr())) {
      const auto* slice = reinterpret_cast<PySliceObject*>(e.ptr());
      const auto first = bound(slice->start), last = bound(slice->stop), step = bound(slice->step);
      if (step && *step == 0) invalid_argument("a slice cannot have the step 0");
      if (!first) out.begin_mask |= out.bit();
      if (!last) out.end_mask |= out.bit();
      out.add(first.value_or(0), last.value_or(0), step.value_or(1));
      ++dimension;
    } else {
      const auto at = bound(e.ptr()).value_or(0);
      const std::int64_t size = shape[dimension];
      if (size != kUnknown && (at < -size || at >= size))
        fail(Code::out_of_range, "index {} is out of range for dimension {} of size {}", at, dimension, size);
      out.shrink_mask |= out.bit();
      out.add(at, at + 1, 1);
      ++dimension;
    }
  }
  return out;
}

// x[index]; None if the index needs more than a slice.
nb::object basic_item(nb::handle x, nb::handle index) {
  const CallGraph of = CallGraph::of(std::span(&x, 1));
  const Output from = operand(of, x);
  const auto slice = basic_index(from.shape(), index);
  if (!slice) return nb::none();
  if (slice->begin.empty()) return to_python(of, from);
  return to_python(of, call_released(of, {from}, [&](const Outputs& xs) {
                     return strided_slice(xs[0], slice->begin, slice->end,
                                          {.strides = slice->strides,
                                           .begin_mask = slice->begin_mask,
                                           .end_mask = slice->end_mask,
                                           .new_axis_mask = slice->new_axis_mask,
                                           .shrink_axis_mask = slice->shrink_mask});
                   }));
}

void bind_indices(nb::module_& m) {
  m.def("basic_item", &basic_item, "x"_a, "index"_a.none());
  m.def("gather", [](nb::handle x, nb::handle indices, std::int64_t axis, std::int64_t batch_dims) {
    return call({x, indices}, [&](const Outputs& xs) {
      return gather(xs[0], cast(xs[1], DType::i64), {.axis = axis, .batch_dims = batch_dims, .from_end = true});
    });
  });
  m.def("gather_nd", [](nb::handle x, nb::handle indices, std::int64_t batch_dims) {
    return call({x, indices}, [&](const Outputs& xs) {
      return gather_nd(xs[0], cast(xs[1], DType::i64), {.batch_dims = batch_dims});
    });
  });
  m.def("take_along_axis", [](nb::handle x, nb::handle indices, std::int64_t axis) {
    return call({x, indices}, [&](const Outputs& xs) { return gather_elements(xs[0], cast(xs[1], DType::i64), axis); });
  });
  m.def("tensor_scatter", [](nb::handle x, nb::handle indices, nb::handle updates, const std::string& reduction) {
    const nb::handle all[] = {x, indices, updates};
    const CallGraph of = CallGraph::of(all);
    Outputs xs = {operand(of, x), operand(of, indices, DType::i64)};
    xs.push_back(operand(of, updates, xs[0].dtype()));
    return to_python(of, call_released(of, xs, [&](const Outputs& in) {
                       return tensor_scatter(in[0], in[1], in[2], {.reduction = reduction});
                     }));
  });
  m.def("scatter_elements",
        [](nb::handle x, nb::handle indices, nb::handle updates, std::int64_t axis, const std::string& reduction) {
          const nb::handle all[] = {x, indices, updates};
          const CallGraph of = CallGraph::of(all);
          Outputs xs = {operand(of, x), operand(of, indices, DType::i64)};
          xs.push_back(operand(of, updates, xs[0].dtype()));
          return to_python(of, call_released(of, xs, [&](const Outputs& in) {
                             return scatter_elements(in[0], in[1], in[2], {.axis = axis, .reduction = reduction});
                           }));
        });
  m.def("scatter_nd", [](nb::handle indices, nb::handle updates, nb::handle shape) {
    const auto dims = integers_of(shape, "scatter_nd").value_or(Integers{});
    return call({indices, updates}, [&](const Outputs& xs) {
      const Output sizes = constant(*xs[0].graph, Tensor::of<std::int64_t>(Shape{std::ssize(dims)}, dims));
      return scatter_nd(cast(xs[0], DType::i64), xs[1], sizes);
    });
  });
  m.def("non_zero", [](nb::handle x) { return call({x}, [](const Outputs& xs) { return non_zero(xs[0]); }); });
  m.def("compress", [](nb::handle condition, nb::handle x, std::int64_t axis) {
    return call({condition, x}, [&](const Outputs& xs) { return compress(xs[1], cast(xs[0], DType::boolean), axis); });
  });
  m.def("dynamic_partition", [](nb::handle x, nb::handle partitions, std::int64_t parts) {
    return call({x, partitions},
                [&](const Outputs& xs) { return dynamic_partition(xs[0], cast(xs[1], DType::i64), parts); });
  });
  m.def("dynamic_stitch", [](const std::vector<nb::object>& indices, const std::vector<nb::object>& data) {
    std::vector<nb::handle> all(data.begin(), data.end());
    const std::size_t count = all.size();
    for (const nb::object& index : indices) all.push_back(index);
    const CallGraph of = CallGraph::of(all);
    Outputs xs = promoted(of, std::span(all).first(count));
    for (const nb::handle index : std::span(all).subspan(count)) xs.push_back(operand(of, index, DType::i64));
    return to_python(of, call_released(of, xs, [&](const Outputs& in) {
                       const auto middle = in.begin() + static_cast<std::ptrdiff_t>(count);
                       return dynamic_stitch({middle, in.end()}, {in.begin(), middle});
                     }));
  });
  m.def("invert_permutation",
        [](nb::handle x) { return call({x}, [](const Outputs& xs) { return invert_permutation(xs[0]); }); });
  m.def("argwhere", [](nb::handle x) { return call({x}, [](const Outputs& xs) { return where(xs[0]); }); });
  m.def("boolean_mask", [](nb::handle x, nb::handle mask, std::int64_t axis) {
    return call({x, mask}, [&](const Outputs& xs) { return boolean_mask(xs[0], cast(xs[1], DType::boolean), axis); });
  });
  m.def("one_hot",
        [](nb::handle indices, std::int64_t depth, std::int64_t axis, nb::handle dtype, double on, double off) {
          const DType type = dtype_from(dtype);
          return call({indices}, [&](const Outputs& xs) {
            return one_hot(xs[0], depth, {.dtype = type, .on = on, .off = off, .axis = axis});
          });
        });
  m.def("sequence_mask", [](nb::handle lengths, std::int64_t size) {
    return call({lengths}, [&](const Outputs& xs) { return sequence_mask(xs[0], size); });
  });
}

// ---- order

void bind_order(nb::module_& m) {
  m.def("sort", [](nb::handle x, std::int64_t axis, bool descending) {
    return call({x}, [&](const Outputs& xs) { return sort(xs[0], {.axis = axis, .descending = descending}); });
  });
  m.def("argsort", [](nb::handle x, std::int64_t axis, bool descending) {
    return call({x}, [&](const Outputs& xs) { return arg_sort(xs[0], {.axis = axis, .descending = descending}); });
  });
  m.def("top_k", [](nb::handle x, std::int64_t k, std::int64_t axis, bool largest) {
    return call({x}, [&](const Outputs& xs) {
      const TopK found = top_k(xs[0], k, {.axis = axis, .largest = largest});
      return Outputs{found.values, found.indices};
    });
  });
  m.def("unique", [](nb::handle x, bool sorted) {
    return call({x}, [&](const Outputs& xs) {
      const Unique found = unique(xs[0], {.sorted = sorted});
      return Outputs{found.values, found.indices, found.inverse, found.counts};
    });
  });
  m.def("searchsorted", [](nb::handle sequence, nb::handle values, bool right) {
    return call_promoted({sequence, values},
                         [&](const Outputs& xs) { return search_sorted(xs[0], xs[1], {.right = right}); });
  });
  m.def("bincount", [](nb::handle x, std::int64_t least) {
    return call({x}, [&](const Outputs& xs) {
      BincountOptions options;
      options.min_length = constant<std::int64_t>(*xs[0].graph, least);
      return bincount(xs[0], options);
    });
  });
  m.def("histogram_fixed_width", [](nb::handle values, nb::handle range, std::int64_t bins) {
    return call_promoted({values, range}, [&](const Outputs& xs) {
      return histogram_fixed_width(xs[0], xs[1], constant<std::int64_t>(*xs[0].graph, bins));
    });
  });
  const auto segments = [&](const char* name, Output (*fn)(Output, Output, Output, Name)) {
    m.def(name, [fn](nb::handle x, nb::handle ids, std::int64_t count) {
      return call({x, ids},
                  [&](const Outputs& xs) { return fn(xs[0], xs[1], constant<std::int64_t>(*xs[0].graph, count), {}); });
    });
  };
  segments("segment_sum", unsorted_segment_sum);
  segments("segment_mean", unsorted_segment_mean);
  segments("segment_max", unsorted_segment_max);
  segments("segment_min", unsorted_segment_min);
  segments("segment_prod", unsorted_segment_prod);
}

// ---- checks and messages

// The tensors, then those of a list.
template <class Fn>
nb::object call_with_data(nb::handle x, const std::vector<nb::object>& data, const Fn& fn) {
  std::vector<nb::handle> all{x};
  for (const nb::object& value : data) all.push_back(value);
  const CallGraph of = CallGraph::of(all);
  const Outputs xs = operands(of, all);
  const Output out =
      call_released(of, xs, [&](const Outputs& in) { return fn(in[0], Outputs(in.begin() + 1, in.end())); });
  return out.valid() && !(of.is_eager() && !out.eager) ? to_python(of, out) : nb::none();
}

void bind_debugging(nb::module_& m) {
  m.def("check_numerics", [](nb::handle x, const std::string& message) {
    return call({x}, [&](const Outputs& xs) { return check_numerics(xs[0], message); });
  });
  m.def("print_values",
        [](nb::handle x, const std::vector<nb::object>& data, const std::string& message, std::int64_t summarize) {
          return call_with_data(x, data, [&](Output value, const Outputs& values) {
            return print(value, values, {.message = message, .summarize = summarize});
          });
        });
  m.def("assert_true", [](nb::handle condition, const std::vector<nb::object>& data, const std::string& message,
                          std::int64_t summarize) {
    return call_with_data(condition, data, [&](Output truth, const Outputs& values) {
      return assert_true(cast(truth, DType::boolean), values, {.message = message, .summarize = summarize});
    });
  });
}

}  // namespace

void bind_array_functions(nb::module_& m) {
  m.def("identity", [](nb::handle x) { return call({x}, [](const Outputs& xs) { return identity(xs[0]); }); });
  m.def("stop_gradient",
        [](nb::handle x) { return call({x}, [](const Outputs& xs) { return stop_gradient(xs[0]); }); });
  bind_constants(m);
  bind_shapes(m);
  bind_indices(m);
  bind_order(m);
  bind_debugging(m);
}

}  // namespace troupe::python
