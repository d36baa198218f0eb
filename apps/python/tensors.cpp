#include "apps/python/tensors.hpp"

#include <memory>

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
                    : dtype == DType::bf16  ? Code::UInt
                    : is_floating(dtype)    ? Code::Float
                    : is_unsigned(dtype)    ? Code::UInt
                                            : Code::Int;
  return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * size_of(dtype)), 1};
}

}  // namespace

Tensor from_array(nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu> array, const std::string& dtype) {
  DType type = dtype_of_array(array.dtype());
  if (!dtype.empty()) {
    const auto wanted = parse_dtype(dtype);
    if (!wanted || size_of(*wanted) != size_of(type))
      invalid_argument("an array of {} is not of {}", name(type), dtype);
    type = *wanted;
  }
  std::vector<std::int64_t> dims;
  for (std::size_t i = 0; i < array.ndim(); ++i) dims.push_back(static_cast<std::int64_t>(array.shape(i)));
  const Shape shape{std::span<const std::int64_t>(dims)};
  // A buffer begins at a multiple of the alignment; the tensor is where the array is.
  const auto address = reinterpret_cast<std::uintptr_t>(array.data());
  const std::size_t offset = address % kBufferAlignment;
  const std::size_t bytes = checked_bytes(type, shape);
  if (bytes == 0) return Tensor(type, shape);
  auto* begin = reinterpret_cast<void*>(address - offset);
  return Tensor(type, shape, BufferRef(new PythonBuffer(begin, offset + bytes, nb::cast(std::move(array)))), offset);
}

Tensor from_strings(const nb::list& items, const std::vector<std::int64_t>& shape) {
  Tensor out(DType::string, Shape{std::span<const std::int64_t>(shape)});
  if (static_cast<std::size_t>(out.num_elements()) != items.size())
    invalid_argument("{} strings do not fit {}", items.size(), out.shape().to_string());
  std::string* to = out.mutable_data<std::string>();
  for (nb::handle item : items) {
    const auto bytes = nb::cast<nb::bytes>(item);
    *to++ = std::string(bytes.c_str(), bytes.size());
  }
  return out;
}

nb::object to_array(const Tensor& tensor) {
  if (!is_data(tensor.dtype())) invalid_argument("a {} cannot be an array", name(tensor.dtype()));
  if (tensor.dtype() == DType::string) {
    nb::list out;
    for (const std::string& text : tensor.values<std::string>()) out.append(nb::bytes(text.data(), text.size()));
    return out;
  }
  std::vector<std::size_t> shape;
  for (const std::int64_t d : tensor.shape().dims()) shape.push_back(static_cast<std::size_t>(d));
  auto held = std::make_unique<Tensor>(tensor);
  void* data = held->mutable_raw();
  const bool shared = held->buffer() && held->buffer()->references() > 2;  // `tensor` and this handle
  const nb::capsule owner(held.release(), [](void* p) noexcept { delete static_cast<Tensor*>(p); });
  const auto type = array_type(tensor.dtype());
  if (shared) return nb::cast(nb::ndarray<nb::numpy, nb::ro>(data, shape.size(), shape.data(), owner, nullptr, type));
  return nb::cast(nb::ndarray<nb::numpy>(data, shape.size(), shape.data(), owner, nullptr, type));
}

DType dtype_named(const std::string& text) {
  const auto found = parse_dtype(text);
  if (!found)
    invalid_argument("'{}' is no dtype: use f32, f64, f16, bf16, i8 ... i64, u8 ... u64, bool or string", text);
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

}  // namespace troupe::python
