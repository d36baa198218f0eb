#include "apps/python/operands.hpp"

#include <cmath>
#include <limits>

#include "apps/python/dtypes.hpp"
#include "apps/python/indexed_slices.hpp"
#include "apps/python/tensors.hpp"
#include <troupe/graph/builder/math.hpp>
#include <troupe/messages/element_types.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;

// Graphs of function bodies know the graphs around them.
bool is_inside(const Graph* inner, const Graph* outer) {
  while (inner && inner != outer) inner = inner->around();
  return inner != nullptr;
}

void find_graph(CallGraph& found, nb::handle value) {
  if (is_tensor(value)) {
    const PyTensor& tensor = tensor_of(value);
    Graph* const graph = tensor.output().graph;
    if (tensor.output().eager || !graph || graph == found.graph) return;
    if (!found.graph || is_inside(graph, found.graph)) {
      found = {graph, tensor.graph};
    } else if (!is_inside(found.graph, graph)) {
      invalid_argument("'{}' belongs to another graph than the tensors before it", tensor.output().name());
    }
  } else if (is_indexed_slices(value)) {
    find_graph(found, to_python(indexed_slices_of(value).values));
  } else if (PyList_CheckExact(value.ptr()) || PyTuple_CheckExact(value.ptr())) {
    for (const nb::handle item : nb::borrow<nb::sequence>(value)) {
      if (is_number(item)) return;  // a list of numbers, which may be long
      find_graph(found, item);
    }
  }
}

// How NumPy ranks what numbers of Python need.
enum class Kind : std::uint8_t { boolean, integer, floating };
Kind kind_of(DType dtype) {
  return dtype == DType::boolean ? Kind::boolean : is_floating(dtype) ? Kind::floating : Kind::integer;
}
Kind kind_of_number(nb::handle value) {
  return PyBool_Check(value.ptr()) ? Kind::boolean : PyFloat_Check(value.ptr()) ? Kind::floating : Kind::integer;
}
DType with_number(DType dtype, Kind kind) {
  if (kind <= kind_of(dtype)) return dtype;
  return kind == Kind::floating ? DType::f64 : DType::i64;
}

}  // namespace

CallGraph CallGraph::of(std::span<const nb::handle> arguments) {
  CallGraph found;
  for (const nb::handle argument : arguments) find_graph(found, argument);
  if (!found.graph) found.graph = &eager_graph();
  return found;
}

bool is_number(nb::handle value) {
  PyObject* const v = value.ptr();
  return PyFloat_CheckExact(v) || PyLong_CheckExact(v) || PyBool_Check(v);  // a float64 of NumPy is a PyFloat, too
}

Tensor number_of(nb::handle value, DType dtype) {
  if (PyFloat_Check(value.ptr())) {
    const double number = PyFloat_AS_DOUBLE(value.ptr());
    if (dtype == DType::boolean) return Tensor::scalar(number != 0);
    if (!is_floating(dtype)) return scalar_of(dtype, std::trunc(number));
    return scalar_of(dtype, number);
  }
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (dtype == DType::boolean) return Tensor::scalar(overflow != 0 || number != 0);
  if (is_floating(dtype)) return scalar_of(dtype, overflow ? PyLong_AsDouble(value.ptr()) : double(number));
  if (!is_integer(dtype)) invalid_argument("a number cannot be a value of dtype {}", long_name(dtype));
  const auto refuse = [&] {
    invalid_argument("{} is not a value of dtype {}", nb::str(value).c_str(), long_name(dtype));
  };
  if (overflow) {
    if (dtype != DType::u64 || overflow < 0) refuse();
    const unsigned long long big = PyLong_AsUnsignedLongLong(value.ptr());
    if (PyErr_Occurred()) {
      PyErr_Clear();
      refuse();
    }
    return Tensor::scalar(static_cast<std::uint64_t>(big));
  }
  return dispatch(RealTypes{}, dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>)
      if (!std::in_range<T>(number)) refuse();
    return Tensor::scalar(static_cast<T>(static_cast<Compute<T>>(number)));
  });
}

Output operand(const CallGraph& of, nb::handle value, std::optional<DType> dtype) {
  if (value.is_none()) return {};
  Output found;
  if (is_tensor(value)) {
    found = tensor_of(value).output();
    if (found.eager) {
      if (found.graph != eager_graph_if_any()) (void)eager_graph();  // throws: it has ended
      if (!of.is_eager()) found = constant(*of.graph, found.value());
    }
  } else if (is_variable(value)) {
    if (!of.is_eager())
      invalid_argument("variable '{}' cannot be read in a graph: read it before, and use its value",
                       nb::cast<const PyVariable&>(value).variable.name);
    found = nb::cast<const PyVariable&>(value).variable.read();
  } else if (is_indexed_slices(value)) {
    found = dense_of(indexed_slices_of(value));
  } else {
    return constant(*of.graph, of.is_eager() ? data_of(value, dtype) : data_of(value, dtype).clone());
  }
  return dtype ? cast(found, *dtype) : found;
}

Outputs operands(const CallGraph& of, std::span<const nb::handle> values) {
  Outputs out;
  out.reserve(values.size());
  for (const nb::handle value : values) out.push_back(operand(of, value));
  return out;
}

Outputs promoted(const CallGraph& of, std::span<const nb::handle> values) {
  Outputs out(values.size());
  std::optional<DType> common;
  std::optional<Kind> numbers;
  bool differ = false;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (is_number(values[i])) {
      numbers = std::max(numbers.value_or(Kind::boolean), kind_of_number(values[i]));
      continue;
    }
    out[i] = operand(of, values[i]);
    if (!out[i].valid()) continue;
    const DType dtype = out[i].dtype();
    differ = differ || (common && *common != dtype);
    common = common ? promoted_type(*common, dtype) : dtype;
  }
  if (!common) {  // numbers only
    common = numbers == Kind::floating ? DType::f32 : numbers == Kind::integer ? DType::i64 : DType::boolean;
  } else if (numbers) {
    const DType wider = is_integer(*common) || is_floating(*common) || *common == DType::boolean
                            ? with_number(*common, *numbers)
                            : *common;
    differ = differ || wider != *common;
    common = wider;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (out[i].valid()) {
      if (differ) out[i] = cast(out[i], *common);
    } else if (!values[i].is_none()) {
      out[i] = constant(*of.graph, number_of(values[i], *common));
    }
  }
  return out;
}

// NumPy's table; bf16, which it lacks, as f16 but for products with f16, which are f32, and with integers of 8 bits.
DType promoted_type(DType a, DType b) {
  if (a == b) return a;
  const Kind kind_a = kind_of(a), kind_b = kind_of(b);
  const auto refuse = [&] { invalid_argument("{} and {} have no common dtype", long_name(a), long_name(b)); };
  if (!(is_floating(a) || is_integer(a) || a == DType::boolean)) refuse();
  if (!(is_floating(b) || is_integer(b) || b == DType::boolean)) refuse();
  if (kind_a == Kind::boolean) return b;
  if (kind_b == Kind::boolean) return a;
  if (kind_a == Kind::floating && kind_b == Kind::floating) {
    if (size_of(a) == size_of(b)) return DType::f32;  // f16 and bf16
    return size_of(a) > size_of(b) ? a : b;
  }
  if (kind_a != kind_b) {
    const DType floating = kind_a == Kind::floating ? a : b, integer = kind_a == Kind::floating ? b : a;
    if (floating == DType::f64 || size_of(integer) >= 4) return DType::f64;
    return size_of(integer) == 2 ? DType::f32 : floating;
  }
  if (is_unsigned(a) == is_unsigned(b)) return size_of(a) > size_of(b) ? a : b;
  const DType with_sign = is_unsigned(a) ? b : a, without = is_unsigned(a) ? a : b;
  if (size_of(with_sign) > size_of(without)) return with_sign;
  switch (size_of(without)) {
    case 1:
      return DType::i16;
    case 2:
      return DType::i32;
    case 4:
      return DType::i64;
    default:
      return DType::f64;
  }
}

Output as_floating(Output x) {
  const DType dtype = x.dtype();
  if (!is_integer(dtype) && dtype != DType::boolean) return x;
  return cast(x, size_of(dtype) == 1 ? DType::f16 : size_of(dtype) == 2 ? DType::f32 : DType::f64);
}

bool is_large(const Outputs& inputs) {
  std::int64_t elements = 0;
  for (const Output& x : inputs)
    if (x.eager && x.eager->dtype() != DType::resource) elements += x.eager->shape().num_elements();
  return elements >= kReleaseFrom;
}

}  // namespace troupe::python
