#include "troupe/messages/tensor.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include <troupe/messages/element_types.hpp>
#include <troupe/messages/tensor_list.hpp>

namespace troupe {
namespace {

class StringBuffer final : public Buffer {
 public:
  StringBuffer(std::unique_ptr<std::string[]> strings, std::size_t count)
      : Buffer(strings.get(), count * sizeof(std::string), MemorySpace{}), strings_(std::move(strings)) {}

 private:
  std::unique_ptr<std::string[]> strings_;
};

BufferRef allocate_strings(std::int64_t count) {
  const auto n = static_cast<std::size_t>(count);
  return BufferRef(new StringBuffer(std::make_unique<std::string[]>(n), n));
}

template <class T>
void append_values(std::string& text, const Tensor& tensor, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const T& value = tensor.data<T>()[i];
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
      text += fmt::format(" {}", static_cast<float>(value));
    else if constexpr (std::is_same_v<T, std::int8_t> || std::is_same_v<T, std::uint8_t>)
      text += fmt::format(" {}", static_cast<int>(value));
    else
      text += fmt::format(" {}", value);
  }
}

}  // namespace

std::size_t checked_bytes(DType dtype, const Shape& shape) {
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(shape.num_elements(), static_cast<std::int64_t>(size_of(dtype)), &bytes))
    invalid_argument("the byte size of a {}{} tensor overflows 63 bits", name(dtype), shape.to_string());
  return static_cast<std::size_t>(bytes);
}

Tensor::Tensor(DType dtype, const Shape& shape) : dtype_(dtype), shape_(shape), elements_(shape.num_elements()) {
  if (!is_data(dtype)) invalid_argument("a tensor cannot have dtype {}", name(dtype));
  const std::size_t bytes = checked_bytes(dtype, shape);
  buffer_ = dtype == DType::string ? allocate_strings(elements_) : allocate_host(bytes);
}

Tensor::Tensor(DType dtype, const Shape& shape, BufferRef buffer, std::size_t byte_offset)
    : dtype_(dtype), shape_(shape), elements_(shape.num_elements()), offset_(byte_offset), buffer_(std::move(buffer)) {
  if (dtype == DType::list) invalid_argument("a list is not a view of memory");
  const std::size_t bytes = checked_bytes(dtype, shape);
  if (!buffer_ || buffer_->size() < byte_offset || buffer_->size() - byte_offset < bytes)
    invalid_argument("a {}{} tensor needs {} bytes at offset {}; its buffer has {}", name(dtype), shape.to_string(),
                     bytes, byte_offset, buffer_ ? buffer_->size() : 0);
}

Tensor Tensor::list(BufferRef buffer) {
  Tensor out;
  out.dtype_ = DType::list;
  out.elements_ = 1;
  out.buffer_ = std::move(buffer);
  return out;
}

Tensor Tensor::zeros(DType dtype, const Shape& shape) {
  Tensor t(dtype, shape);
  if (dtype != DType::string) std::memset(t.mutable_raw(), 0, t.num_bytes());
  return t;
}

template <class T>
Tensor Tensor::of(const Shape& shape, std::span<const T> values) {
  Tensor t(dtype_of<T>, shape);
  if (static_cast<std::size_t>(t.num_elements()) != values.size())
    invalid_argument("shape {} has {} elements, but {} values were given", shape.to_string(), t.num_elements(),
                     values.size());
  std::copy(values.begin(), values.end(), t.mutable_data<T>());
  return t;
}

template Tensor Tensor::of<float>(const Shape&, std::span<const float>);
template Tensor Tensor::of<double>(const Shape&, std::span<const double>);
template Tensor Tensor::of<Half>(const Shape&, std::span<const Half>);
template Tensor Tensor::of<BFloat16>(const Shape&, std::span<const BFloat16>);
template Tensor Tensor::of<std::int8_t>(const Shape&, std::span<const std::int8_t>);
template Tensor Tensor::of<std::uint8_t>(const Shape&, std::span<const std::uint8_t>);
template Tensor Tensor::of<std::int16_t>(const Shape&, std::span<const std::int16_t>);
template Tensor Tensor::of<std::int32_t>(const Shape&, std::span<const std::int32_t>);
template Tensor Tensor::of<std::int64_t>(const Shape&, std::span<const std::int64_t>);
template Tensor Tensor::of<std::uint16_t>(const Shape&, std::span<const std::uint16_t>);
template Tensor Tensor::of<std::uint32_t>(const Shape&, std::span<const std::uint32_t>);
template Tensor Tensor::of<std::uint64_t>(const Shape&, std::span<const std::uint64_t>);
template Tensor Tensor::of<bool>(const Shape&, std::span<const bool>);
template Tensor Tensor::of<std::string>(const Shape&, std::span<const std::string>);

Tensor Tensor::reshaped(const Shape& shape) const {
  if (shape.num_elements() != elements_)
    invalid_argument("cannot view {}{} as {}", name(dtype_), shape_.to_string(), shape.to_string());
  Tensor view = *this;
  view.shape_ = shape;
  return view;
}

Tensor Tensor::rows(std::int64_t begin, std::int64_t end) const {
  if (shape_.rank() < 1 || begin < 0 || begin > end || end > shape_.dim(0))
    fail(Code::out_of_range, "rows [{}, {}) of {}{}", begin, end, name(dtype_), shape_.to_string());
  const std::int64_t row = shape_.dim(0) == 0 ? 0 : elements_ / shape_.dim(0);
  Tensor view = *this;
  view.shape_.set_dim(0, end - begin);
  view.elements_ = row * (end - begin);
  view.offset_ += static_cast<std::size_t>(begin * row) * size_of(dtype_);
  return view;
}

Tensor Tensor::clone() const {
  if (!space().on_host()) invalid_argument("clone() needs a tensor in host memory");
  if (dtype_ == DType::list) {
    std::vector<Tensor> items;
    for (const Tensor& item : list_items(*this)) items.push_back(item.clone());
    return make_list(std::move(items));
  }
  Tensor copy(dtype_, shape_);
  if (dtype_ == DType::string)
    std::copy_n(data<std::string>(), elements_, copy.mutable_data<std::string>());
  else
    std::memcpy(copy.mutable_raw(), raw(), num_bytes());
  return copy;
}

std::string Tensor::to_string(int limit) const {
  if (!valid()) return "no tensor";
  if (dtype_ == DType::list) return fmt::format("a list of {} tensors", list_items(*this).size());
  std::string text = fmt::format("{}{}", name(dtype_), shape_.to_string());
  if (!space().on_host()) return text + " (not in host memory)";
  text += " =";
  const std::int64_t shown = std::min<std::int64_t>(limit, elements_);
  dispatch(ElementTypes{}, dtype_, [&]<class T>() { append_values<T>(text, *this, shown); });
  return shown < elements_ ? text + " ..." : text;
}

void Tensor::refuse_access(DType wanted) const {
  if (!valid()) invalid_argument("cannot read a Tensor without a value as {}: assign one first", name(wanted));
  if (wanted != dtype_)
    invalid_argument("cannot read a {}{} tensor as {}: read it as {}, or make it with values of {}", name(dtype_),
                     shape_.to_string(), name(wanted), name(dtype_), name(wanted));
  invalid_argument("the tensor is not in host memory");
}

void Tensor::refuse_single() const {
  if (!valid()) invalid_argument("item() of a Tensor without a value: assign one first");
  invalid_argument("item() needs a tensor of one element, not {}{}: read it with values()", name(dtype_),
                   shape_.to_string());
}

bool bitwise_equal(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  if (!a.valid()) return true;
  if (a.dtype() == DType::list) return std::ranges::equal(list_items(a), list_items(b), bitwise_equal);
  if (a.dtype() == DType::string) return std::ranges::equal(a.values<std::string>(), b.values<std::string>());
  return std::memcmp(a.raw(), b.raw(), a.num_bytes()) == 0;
}

}  // namespace troupe
