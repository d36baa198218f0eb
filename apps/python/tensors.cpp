#include "apps/python/tensors.hpp"

#include <nanobind/stl/string.h>

#include <memory>
#include <utility>

#include "apps/python/dtypes.hpp"
#include "apps/python/operands.hpp"
#include <troupe/graph/builder/functions.hpp>
#include <troupe/graph/builder/math.hpp>
#include <troupe/messages/element_types.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;

// Memory of a Python object. It is borrowed: no kernel takes it over, no variable writes to it.
class PythonBuffer final : public Buffer {
 public:
  PythonBuffer(void* data, std::size_t size, nb::object owner)
      : Buffer(data, size, MemorySpace{}, Sharing::borrowed), owner_(std::move(owner)) {}
  ~PythonBuffer() override {
    if (!Py_IsInitialized()) {
      (void)owner_.release();  // the interpreter has ended
      return;
    }
    const nb::gil_scoped_acquire held;
    owner_.reset();
  }

 private:
  nb::object owner_;
};

DType dtype_of_array(const nb::dlpack::dtype& type) {
  using Code = nb::dlpack::dtype_code;
  const auto is = [&](Code code, int bits) {
    return type.code == static_cast<std::uint8_t>(code) && type.bits == bits && type.lanes == 1;
  };
  if (is(Code::Float, 32)) return DType::f32;
  if (is(Code::Float, 64)) return DType::f64;
  if (is(Code::Float, 16)) return DType::f16;
  if (is(Code::Bfloat, 16)) return DType::bf16;
  if (is(Code::Int, 8)) return DType::i8;
  if (is(Code::Int, 16)) return DType::i16;
  if (is(Code::Int, 32)) return DType::i32;
  if (is(Code::Int, 64)) return DType::i64;
  if (is(Code::UInt, 8)) return DType::u8;
  if (is(Code::UInt, 16)) return DType::u16;
  if (is(Code::UInt, 32)) return DType::u32;
  if (is(Code::UInt, 64)) return DType::u64;
  if (is(Code::Bool, 8)) return DType::boolean;
  invalid_argument("arrays of this type cannot be tensors: use a real, integer or bool type, or strings");
}

nb::dlpack::dtype array_type(DType dtype) {
  using Code = nb::dlpack::dtype_code;
  const auto code = dtype == DType::boolean ? Code::Bool
                    : dtype == DType::bf16  ? Code::Bfloat
                    : is_floating(dtype)    ? Code::Float
                    : is_unsigned(dtype)    ? Code::UInt
                                            : Code::Int;
  return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * size_of(dtype)), 1};
}

// What Python keeps, and looks up once.
struct NumPy {
  NumPy() : module(nb::module_::import_("numpy")) {
    ndarray = module.attr("ndarray");
    generic = module.attr("generic");
    asarray = module.attr("asarray");
    ascontiguousarray = module.attr("ascontiguousarray");
    uint16 = module.attr("uint16");
    try {
      bfloat16 = module.attr("dtype")(nb::module_::import_("ml_dtypes").attr("bfloat16"));
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_ImportError)) throw;  // without ml_dtypes
    }
  }
  nb::object module, ndarray, generic, asarray, ascontiguousarray, uint16, bfloat16;
};
// Without a guard, which would be held while an import lets other threads run; the interpreter's lock is enough.
const NumPy& numpy() {
  static constinit const NumPy* found = nullptr;
  if (!found) {
    const NumPy* const made = new NumPy;  // lives as long as Python
    if (!found) found = made;
  }
  return *found;
}

Shape shape_of(std::size_t rank, const auto& size) {
  std::vector<std::int64_t> dims;
  for (std::size_t i = 0; i < rank; ++i) dims.push_back(static_cast<std::int64_t>(size(i)));
  return Shape{std::span<const std::int64_t>(dims)};
}

// Of bytes and text.
Tensor strings_of(nb::handle array) {
  const nb::object items = array.attr("reshape")(-1).attr("tolist")();
  const nb::object shape = array.attr("shape");
  Tensor out(DType::string, shape_of(nb::len(shape), [&](std::size_t i) { return nb::cast<std::int64_t>(shape[i]); }));
  std::string* to = out.mutable_data<std::string>();
  for (const nb::handle item : items) {
    if (nb::isinstance<nb::bytes>(item)) {
      const auto bytes = nb::borrow<nb::bytes>(item);
      *to++ = std::string(bytes.c_str(), bytes.size());
    } else if (nb::isinstance<nb::str>(item)) {
      *to++ = nb::cast<std::string>(item);
    } else {
      invalid_argument("a tensor cannot hold {}: use numbers of one type, bool or strings", nb::repr(item).c_str());
    }
  }
  return out;
}

// Whether a list, however deep, begins with a number of Python, which has no dtype of its own.
bool begins_with_number(nb::handle value) {
  PyObject* item = value.ptr();
  while (PyList_CheckExact(item) || PyTuple_CheckExact(item)) {
    if (PySequence_Fast_GET_SIZE(item) == 0) return true;
    item = PySequence_Fast_GET_ITEM(item, 0);
  }
  return is_number(item);
}

Tensor tensor_of_array(nb::object array) {
  const auto kind = nb::cast<std::string>(array.attr("dtype").attr("kind"));
  if (kind == "O" || kind == "U" || kind == "S") return strings_of(array);
  const bool bf16 = numpy().bfloat16 && array.attr("dtype").equal(numpy().bfloat16);
  if (!bf16 && (kind.empty() || std::string_view("biuf").find(kind) == std::string_view::npos))
    invalid_argument("an array of {} cannot be a tensor: use a real, integer or bool type, or strings",
                     nb::repr(array.attr("dtype")).c_str());
  if (bf16) array = array.attr("view")(numpy().uint16);
  if (nb::cast<int>(array.attr("ndim")) > 0) array = numpy().ascontiguousarray(array);
  Tensor made;
  try {
    made = from_array(nb::cast<nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>>(array));
  } catch (const nb::cast_error&) {
    invalid_argument("an array of {} cannot be a tensor: use a real, integer or bool type of this machine's byte order",
                     nb::repr(array.attr("dtype")).c_str());
  }
  return bf16 ? Tensor(DType::bf16, made.shape(), made.buffer(),
                       static_cast<std::size_t>(std::as_const(made).raw() -
                                                static_cast<const std::byte*>(made.buffer()->data())))
              : made;
}

}  // namespace

Tensor from_array(nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu> array) {
  const DType type = dtype_of_array(array.dtype());
  const Shape shape = shape_of(array.ndim(), [&](std::size_t i) { return array.shape(i); });
  // A buffer begins at a multiple of the alignment; the tensor is where the array is.
  const auto address = reinterpret_cast<std::uintptr_t>(array.data());
  const std::size_t offset = address % kBufferAlignment;
  const std::size_t bytes = checked_bytes(type, shape);
  if (bytes == 0) return Tensor(type, shape);
  auto* begin = reinterpret_cast<void*>(address - offset);
  return Tensor(type, shape, BufferRef(new PythonBuffer(begin, offset + bytes, nb::cast(std::move(array)))), offset);
}

Tensor data_of(nb::handle value, std::optional<DType> dtype) {
  if (is_number(value)) {
    const DType type = dtype                        ? *dtype
                       : PyBool_Check(value.ptr())  ? DType::boolean
                       : PyFloat_Check(value.ptr()) ? DType::f32
                                                    : DType::i64;
    return number_of(value, type);
  }
  Tensor made;
  if (is_tensor(value)) {
    made = tensor_of(value).output().value();
  } else if (is_variable(value)) {
    made = nb::cast<const PyVariable&>(value).variable.read().value();
  } else {
    made = tensor_of_array(numpy().asarray(value));
    if (!dtype && made.dtype() == DType::f64 && begins_with_number(value)) dtype = DType::f32;
  }
  if (!dtype || made.dtype() == *dtype) return made;
  const InitScope now;  // a value, also while a function is traced
  return cast(constant(eager_graph(), std::move(made)), *dtype).value();
}

nb::object to_array(const Tensor& tensor, bool may_write) {
  if (!is_data(tensor.dtype())) invalid_argument("a {} cannot be an array", name(tensor.dtype()));
  if (tensor.dtype() == DType::string) {
    nb::list items;
    for (const std::string& text : tensor.values<std::string>()) items.append(nb::bytes(text.data(), text.size()));
    const nb::object out = numpy().module.attr("empty")(items.size(), "O");
    for (std::size_t i = 0; i < items.size(); ++i) out[i] = items[i];
    return out.attr("reshape")(shape_tuple(tensor.shape()));
  }
  std::vector<std::size_t> shape;
  for (const std::int64_t d : tensor.shape().dims()) shape.push_back(static_cast<std::size_t>(d));
  auto held = std::make_unique<Tensor>(tensor);
  void* data = held->mutable_raw();
  const bool shared = held->buffer() && held->buffer()->references() > 2;  // `tensor` and this handle
  const nb::capsule owner(held.release(), [](void* p) noexcept { delete static_cast<Tensor*>(p); });
  const DType stored = tensor.dtype() == DType::bf16 ? DType::u16 : tensor.dtype();
  const auto made = [&]<class... Flags>() {
    return nb::cast(
        nb::ndarray<nb::numpy, Flags...>(data, shape.size(), shape.data(), owner, nullptr, array_type(stored)));
  };
  const nb::object array = shared || !may_write ? made.template operator()<nb::ro>() : made.template operator()<>();
  return stored == tensor.dtype() || !numpy().bfloat16 ? array : array.attr("view")(numpy().bfloat16);
}

nb::object to_dlpack(const Tensor& tensor) {
  if (!is_data(tensor.dtype()) || tensor.dtype() == DType::string)
    invalid_argument("DLPack has no tensors of {}", name(tensor.dtype()));
  std::vector<std::size_t> shape;
  for (const std::int64_t d : tensor.shape().dims()) shape.push_back(static_cast<std::size_t>(d));
  auto held = std::make_unique<Tensor>(tensor);
  void* data = held->mutable_raw();
  const nb::capsule owner(held.release(), [](void* p) noexcept { delete static_cast<Tensor*>(p); });
  return nb::cast(nb::ndarray<>(data, shape.size(), shape.data(), owner, nullptr, array_type(tensor.dtype())));
}

PyObject* element_object(const Tensor& tensor, std::int64_t i) {
  const auto at = static_cast<std::size_t>(i);
  if (tensor.dtype() == DType::boolean) return PyBool_FromLong(tensor.values<bool>()[at]);
  if (tensor.dtype() == DType::string) {
    const std::string& text = tensor.values<std::string>()[at];
    return PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  }
  return dispatch(RealTypes{}, tensor.dtype(), [&]<class T>() {
    const T value = tensor.values<T>()[at];
    if constexpr (!std::is_integral_v<T>)
      return PyFloat_FromDouble(static_cast<double>(static_cast<Compute<T>>(value)));
    else if constexpr (std::is_unsigned_v<T>)
      return PyLong_FromUnsignedLongLong(value);
    else
      return PyLong_FromLongLong(value);
  });
}

bool is_array(nb::handle value) {
  return nb::isinstance(value, numpy().ndarray) || nb::isinstance(value, numpy().generic);
}

DType dtype_named(const std::string& text) {
  const auto found = dtype_of_name(text);
  if (!found)
    invalid_argument(
        "\'{}\' is no dtype: use float32, float64, float16, bfloat16, int8 ... int64, uint8 ... uint64, bool or string",
        text);
  return *found;
}

Shape shape_of_dims(const Dims& dims) {
  if (!dims) return Shape::unknown_rank();
  std::vector<std::int64_t> out;
  for (const auto& d : *dims) out.push_back(d.value_or(kUnknown));
  return Shape{std::span<const std::int64_t>(out)};
}
Dims dims_of_shape(const Shape& shape) {
  if (!shape.has_rank()) return std::nullopt;
  std::vector<std::optional<std::int64_t>> out;
  for (const std::int64_t d : shape.dims()) out.push_back(d == kUnknown ? std::nullopt : std::optional(d));
  return out;
}
nb::object shape_tuple(const Shape& shape) {
  if (!shape.has_rank()) return nb::none();
  const nb::object out = nb::steal(PyTuple_New(shape.rank()));
  for (int i = 0; i < shape.rank(); ++i)
    PyTuple_SET_ITEM(out.ptr(), i, shape[i] == kUnknown ? nb::none().release().ptr() : PyLong_FromLongLong(shape[i]));
  return out;
}

}  // namespace troupe::python
