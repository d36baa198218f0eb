// The C API: tensors, and attributes of ops.
#include <fmt/format.h>

#include "apps/c/handles.hpp"

namespace troupe::c {
namespace {

// Memory of the caller. It is borrowed: no kernel takes it over, no variable writes to it.
class CallersBuffer final : public Buffer {
 public:
  CallersBuffer(void* begin, std::size_t size, void* data, troupe_deleter deleter, void* argument)
      : Buffer(begin, size, MemorySpace{}, Sharing::borrowed), data_(data), deleter_(deleter), argument_(argument) {}
  ~CallersBuffer() override {
    if (deleter_) deleter_(data_, argument_);
  }

 private:
  void* data_;
  troupe_deleter deleter_;
  void* argument_;
};

troupe_tensor* new_tensor(Tensor tensor) {
  auto out = std::make_unique<troupe_tensor>();
  out->tensor = std::move(tensor);
  return out.release();
}

// The dtype and shape of a tensor that somebody has the memory of.
std::pair<DType, Shape> plain_type(troupe_dtype dtype, const std::int64_t* dims, std::int32_t rank) {
  const DType type = dtype_of_c(dtype);
  if (!is_data(type))
    refuse("dtype", fmt::format("is {}, which no tensor has: use a dtype of numbers, bool or string", name(type)));
  const Shape shape = shape_of(dims, rank);
  if (!shape.fully_known()) refuse("dims", fmt::format("is {}, but all must be known", shape.to_string()));
  return {type, shape};
}
std::pair<DType, Shape> type_of_bytes(troupe_dtype dtype, const std::int64_t* dims, std::int32_t rank,
                                      std::size_t bytes) {
  const auto [type, shape] = plain_type(dtype, dims, rank);
  if (type == DType::string) refuse("dtype", "is string: use troupe_tensor_from_strings()");
  if (const std::size_t wanted = checked_bytes(type, shape); wanted != bytes)
    refuse("bytes", fmt::format("is {}, but {}{} has {}", bytes, name(type), shape.to_string(), wanted));
  return {type, shape};
}

const Tensor& with_bytes(const Tensor& tensor) {
  if (tensor.dtype() == DType::string) refuse("tensor", "has strings: use troupe_tensor_string()");
  if (!is_data(tensor.dtype())) refuse("tensor", fmt::format("is a {}, which has no bytes", name(tensor.dtype())));
  return tensor;
}

template <class Value>
troupe_code set_attribute(const char* function, troupe_attributes* attributes, const char* name, troupe_status* status,
                          const Value& value) {
  return guarded(function, status, [&] {
    troupe_attributes& to = check(attributes, "attributes");
    to.attributes.set(text_of(name, "name"), value());
  });
}
template <class To, class From>
std::vector<To> copied(const From* values, std::size_t count) {
  const auto given = array(values, count, "values");
  return {given.begin(), given.end()};
}

}  // namespace
}  // namespace troupe::c

using namespace troupe::c;  // NOLINT(google-build-using-namespace)
using troupe::DType;
using troupe::Tensor;

troupe_tensor* troupe_tensor_new(troupe_dtype dtype, const int64_t* dims, int32_t rank, troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_tensor*>(nullptr), [&] {
    const auto [type, shape] = plain_type(dtype, dims, rank);
    return new_tensor(Tensor(type, shape));
  });
}

troupe_tensor* troupe_tensor_from_memory(troupe_dtype dtype, const int64_t* dims, int32_t rank, void* data,
                                         size_t bytes, troupe_deleter deleter, void* argument, troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_tensor*>(nullptr), [&]() -> troupe_tensor* {
    const auto [type, shape] = type_of_bytes(dtype, dims, rank, bytes);
    if (bytes > 0) not_null(data, "data");
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    if (address % size_of(type) != 0)
      refuse("data",
             fmt::format("is not aligned to elements of {} bytes: use troupe_tensor_from_copy()", size_of(type)));
    auto out = std::make_unique<troupe_tensor>();
    if (bytes == 0) {
      out->tensor = Tensor(type, shape);
      if (deleter) deleter(data, argument);
      return out.release();
    }
    // A buffer begins at an aligned address; the tensor some bytes later.
    const std::size_t offset = address % troupe::kBufferAlignment;
    auto buffer = std::make_unique<CallersBuffer>(reinterpret_cast<void*>(address - offset), offset + bytes, data,
                                                  deleter, argument);
    out->tensor = Tensor(type, shape, troupe::BufferRef(buffer.release()), offset);
    return out.release();
  });
}

troupe_tensor* troupe_tensor_from_copy(troupe_dtype dtype, const int64_t* dims, int32_t rank, const void* data,
                                       size_t bytes, troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_tensor*>(nullptr), [&] {
    const auto [type, shape] = type_of_bytes(dtype, dims, rank, bytes);
    Tensor out(type, shape);
    if (bytes > 0) std::memcpy(out.mutable_raw(), not_null(data, "data"), bytes);
    return new_tensor(std::move(out));
  });
}

troupe_tensor* troupe_tensor_from_strings(const int64_t* dims, int32_t rank, const char* const* strings,
                                          const size_t* lengths, troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_tensor*>(nullptr), [&] {
    const auto [type, shape] = plain_type(TROUPE_STRING, dims, rank);
    Tensor out(type, shape);
    const auto count = static_cast<std::size_t>(out.num_elements());
    const auto given = array(strings, count, "strings");
    for (std::size_t i = 0; i < count; ++i) {
      const char* text = not_null(given[i], {"strings", i});
      out.mutable_data<std::string>()[i].assign(text, lengths ? lengths[i] : std::strlen(text));
    }
    return new_tensor(std::move(out));
  });
}

troupe_tensor* troupe_tensor_share(const troupe_tensor* tensor, troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_tensor*>(nullptr),
                 [&] { return new_tensor(check(tensor, "tensor").tensor); });
}

troupe_tensor* troupe_tensor_reshape(const troupe_tensor* tensor, const int64_t* dims, int32_t rank,
                                     troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_tensor*>(nullptr), [&] {
    const Tensor& from = check(tensor, "tensor").tensor;
    const auto [type, shape] = plain_type(static_cast<troupe_dtype>(from.dtype()), dims, rank);
    return new_tensor(from.reshaped(shape));
  });
}

void troupe_tensor_delete(troupe_tensor* tensor) { destroy(tensor); }

troupe_dtype troupe_tensor_dtype(const troupe_tensor* tensor) {
  return guarded(__func__, nullptr, TROUPE_INVALID,
                 [&] { return static_cast<troupe_dtype>(check(tensor, "tensor").tensor.dtype()); });
}
int32_t troupe_tensor_rank(const troupe_tensor* tensor) {
  return guarded(__func__, nullptr, std::int32_t{-1}, [&] { return check(tensor, "tensor").tensor.shape().rank(); });
}
int64_t troupe_tensor_dim(const troupe_tensor* tensor, int32_t axis) {
  return guarded(__func__, nullptr, std::int64_t{-1}, [&]() -> std::int64_t {
    const troupe::Shape& shape = check(tensor, "tensor").tensor.shape();
    return axis >= -shape.rank() && axis < shape.rank() ? shape.dim(axis) : -1;
  });
}
int64_t troupe_tensor_num_elements(const troupe_tensor* tensor) {
  return guarded(__func__, nullptr, std::int64_t{0}, [&] { return check(tensor, "tensor").tensor.num_elements(); });
}
size_t troupe_tensor_num_bytes(const troupe_tensor* tensor) {
  return guarded(__func__, nullptr, std::size_t{0}, [&] {
    const Tensor& of = check(tensor, "tensor").tensor;
    return of.dtype() == DType::string ? 0 : of.num_bytes();
  });
}

const void* troupe_tensor_data(const troupe_tensor* tensor, troupe_status* status) {
  return guarded(__func__, status, static_cast<const void*>(nullptr),
                 [&]() -> const void* { return with_bytes(check(tensor, "tensor").tensor).raw(); });
}

void* troupe_tensor_mutable_data(troupe_tensor* tensor, troupe_status* status) {
  return guarded(__func__, status, static_cast<void*>(nullptr), [&]() -> void* {
    Tensor& of = check(tensor, "tensor").tensor;
    with_bytes(of);
    if (of.num_elements() > 0 && !of.unique())
      troupe::fail(troupe::Code::failed_precondition,
                   "others use the tensor's memory, and must not see it change: write to a copy of it "
                   "(troupe_tensor_from_copy)");
    return of.mutable_raw();
  });
}

const char* troupe_tensor_string(const troupe_tensor* tensor, int64_t index, size_t* length, troupe_status* status) {
  return guarded(__func__, status, static_cast<const char*>(nullptr), [&] {
    const Tensor& of = check(tensor, "tensor").tensor;
    if (of.dtype() != DType::string) refuse("tensor", fmt::format("is {}, not string", name(of.dtype())));
    if (index < 0 || index >= of.num_elements())
      troupe::fail(troupe::Code::out_of_range, "there is no string {}: the tensor has {}", index, of.num_elements());
    const std::string& text = of.data<std::string>()[index];
    if (length) *length = text.size();
    return text.c_str();
  });
}

char* troupe_tensor_to_text(const troupe_tensor* tensor, int32_t limit, troupe_status* status) {
  return guarded(__func__, status, static_cast<char*>(nullptr),
                 [&] { return new_text(check(tensor, "tensor").tensor.to_string(std::max(limit, 0))); });
}

troupe_attributes* troupe_attributes_new(troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_attributes*>(nullptr), [] { return new troupe_attributes; });
}
void troupe_attributes_delete(troupe_attributes* attributes) { destroy(attributes); }

troupe_code troupe_attributes_set_int(troupe_attributes* attributes, const char* name, int64_t value,
                                      troupe_status* status) {
  return set_attribute(__func__, attributes, name, status, [&] { return value; });
}
troupe_code troupe_attributes_set_real(troupe_attributes* attributes, const char* name, double value,
                                       troupe_status* status) {
  return set_attribute(__func__, attributes, name, status, [&] { return value; });
}
troupe_code troupe_attributes_set_bool(troupe_attributes* attributes, const char* name, bool value,
                                       troupe_status* status) {
  return set_attribute(__func__, attributes, name, status, [&] { return value; });
}
troupe_code troupe_attributes_set_string(troupe_attributes* attributes, const char* name, const char* value,
                                         size_t length, troupe_status* status) {
  return set_attribute(__func__, attributes, name, status,
                       [&] { return length == 0 ? std::string() : std::string(not_null(value, "value"), length); });
}
troupe_code troupe_attributes_set_dtype(troupe_attributes* attributes, const char* name, troupe_dtype value,
                                        troupe_status* status) {
  return set_attribute(__func__, attributes, name, status, [&] { return dtype_of_c(value); });
}
troupe_code troupe_attributes_set_shape(troupe_attributes* attributes, const char* name, const int64_t* dims,
                                        int32_t rank, troupe_status* status) {
  return set_attribute(__func__, attributes, name, status, [&] { return shape_of(dims, rank); });
}
troupe_code troupe_attributes_set_tensor(troupe_attributes* attributes, const char* name, const troupe_tensor* value,
                                         troupe_status* status) {
  return set_attribute(__func__, attributes, name, status, [&] { return check(value, "value").tensor; });
}
troupe_code troupe_attributes_set_function(troupe_attributes* attributes, const char* name, const char* value,
                                           troupe_status* status) {
  return set_attribute(__func__, attributes, name, status,
                       [&] { return troupe::FunctionName{text_of(value, "value")}; });
}
troupe_code troupe_attributes_set_ints(troupe_attributes* attributes, const char* name, const int64_t* values,
                                       size_t count, troupe_status* status) {
  return set_attribute(__func__, attributes, name, status, [&] { return copied<std::int64_t>(values, count); });
}
troupe_code troupe_attributes_set_reals(troupe_attributes* attributes, const char* name, const double* values,
                                        size_t count, troupe_status* status) {
  return set_attribute(__func__, attributes, name, status, [&] { return copied<double>(values, count); });
}
troupe_code troupe_attributes_set_strings(troupe_attributes* attributes, const char* name, const char* const* values,
                                          size_t count, troupe_status* status) {
  return set_attribute(__func__, attributes, name, status, [&] {
    std::vector<std::string> out;
    for (const char* value : array(values, count, "values")) out.push_back(text_of(value, "values"));
    return out;
  });
}
troupe_code troupe_attributes_set_dtypes(troupe_attributes* attributes, const char* name, const troupe_dtype* values,
                                         size_t count, troupe_status* status) {
  return set_attribute(__func__, attributes, name, status, [&] {
    std::vector<DType> out;
    for (const troupe_dtype value : array(values, count, "values")) out.push_back(dtype_of_c(value));
    return out;
  });
}
