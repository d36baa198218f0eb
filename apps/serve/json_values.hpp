// Tensors as nested lists of JSON, as TensorFlow Serving and the Open Inference Protocol write them.
//
// A list is read in one pass over its text: simdjson's on-demand API, which unlike its DOM lets a reader take the
// tokens NaN, Infinity and -Infinity, which are no JSON. Floats are read as f64 and then rounded to their dtype.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <troupe/messages/error.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// Calls f(T()) with the type of an element. Throws invalid_argument, naming the place, for dtypes without JSON.
template <class F>
decltype(auto) with_json_element(DType dtype, std::string_view place, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::f64:
      return f(double{});
    case DType::f16:
      return f(Half{});
    case DType::bf16:
      return f(BFloat16{});
    case DType::i8:
      return f(std::int8_t{});
    case DType::u8:
      return f(std::uint8_t{});
    case DType::i16:
      return f(std::int16_t{});
    case DType::u16:
      return f(std::uint16_t{});
    case DType::i32:
      return f(std::int32_t{});
    case DType::u32:
      return f(std::uint32_t{});
    case DType::i64:
      return f(std::int64_t{});
    case DType::u64:
      return f(std::uint64_t{});
    case DType::boolean:
      return f(bool{});
    case DType::string:
      return f(std::string{});
    default:
      invalid_argument("{}: tensors of {} cannot be sent", place, name(dtype));
  }
}

// Reads one tensor. Errors are invalid_argument, or resource_exhausted beyond the limit, and name the place:
//   instances[3].x[2]: "abc", where an f32 is expected
class JsonTensorReader {
 public:
  // Errors begin with `root`. Lists of level 0 hold rows. `budget`: how many elements may still be read; outlives this.
  static std::unique_ptr<JsonTensorReader> make(DType dtype, std::string root, std::size_t& budget);
  virtual ~JsonTensorReader() = default;

  // Reads the whole tensor. `member`: ".x" if it stands in an object.
  virtual void read(simdjson::ondemand::value value, std::string_view member) = 0;
  // Reads row `row` of the tensor; all rows are read in their order.
  virtual void read_row(simdjson::ondemand::value value, std::int64_t row, std::string_view member) = 0;
  virtual void read_row_of_base64(std::string_view text, std::int64_t row) = 0;
  virtual void read_base64(std::string_view text) = 0;
  // Returns the tensor that was read; call it once. `like`: the wanted shape, which completes that of an empty list.
  virtual Tensor finish(const Shape& like) = 0;
};

// Throws invalid_argument, naming the place, for a body that ends or is broken there.
[[noreturn]] void fail_json(std::string_view place, simdjson::error_code error);
// The value's text, shortened: for errors.
std::string json_excerpt(simdjson::ondemand::value& value);

// What {"b64": "..."} holds, with or without padding; nullopt: no base64 (RFC 4648, section 4).
std::optional<std::string> decode_base64(std::string_view text);
void append_base64(std::string& out, std::string_view bytes);

// Tells in `yes` whether the object is {"b64": ...}, with its text, which is valid until the next string is read. The
// object can be read again, unless an error is returned: then the body is broken there, and nothing of it may be read.
[[nodiscard]] simdjson::error_code is_base64(simdjson::ondemand::object& object, bool& yes, std::string_view& text);

// With quotes. Text that is not UTF-8 is written with replacement characters.
void append_json_string(std::string& out, std::string_view text);

enum class JsonStrings { base64_if_needed, always_base64, text };
// Appends elements [begin, end) of dimension 0 as lists, and of a scalar its value. Floats are the shortest text that
// reads back the same, with a point or an exponent; NaN, Infinity and -Infinity stand for themselves. Throws
// invalid_argument for a string that is not UTF-8 and must be text.
void append_json_tensor(std::string& out, const Tensor& tensor, JsonStrings strings);
// Row `row` of dimension 0.
void append_json_row(std::string& out, const Tensor& tensor, std::int64_t row, JsonStrings strings);

}  // namespace troupe
