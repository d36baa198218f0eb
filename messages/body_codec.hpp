// The fields of a frame as bytes: explicit little-endian, no raw structs. Input bytes are untrusted: BodyReader checks
// every length against the remaining bytes before it allocates, and throws data_loss, invalid_argument or
// resource_exhausted.
//
//   integers, enums  little-endian, in their own width          double   its bits
//   bool             one byte, 0 or 1                           string   u32 length, bytes
//   id               its integer                                vector   u32 count, elements
//   Error            code, message                              struct   its fields()
//   Tensor           u8 dtype (0: no tensor), u8 rank, rank x i64 dims, u64 payload bytes; the payload is elsewhere
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include <troupe/messages/frames.hpp>
#include <troupe/messages/limits.hpp>

namespace troupe {

// Longer error messages are truncated when sent, so that a frame does not break its connection.
inline constexpr std::size_t kMaxErrorMessage = 16 << 10;

template <class T>
concept HasFields = requires(T& value) {
  value.fields();
};

template <std::unsigned_integral T>
void append_little_endian(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

template <std::unsigned_integral T>
void write_little_endian(char* bytes, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes[i] = static_cast<char>(value >> (8 * i));
}

template <std::unsigned_integral T>
T read_little_endian(const char* bytes) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value | static_cast<T>(static_cast<T>(static_cast<unsigned char>(bytes[i])) << (8 * i)));
  return value;
}

class BodyWriter {
 public:
  // Appends to `out`; tensors to be sent after the body are appended to `tensors`.
  BodyWriter(std::string& out, std::vector<Tensor>& tensors) : out_(out), tensors_(tensors) {}

  template <std::integral T>
  void operator()(T value) {
    append_little_endian(out_, static_cast<std::make_unsigned_t<T>>(value));
  }
  void operator()(bool value) { (*this)(static_cast<std::uint8_t>(value)); }
  void operator()(double value) { (*this)(std::bit_cast<std::uint64_t>(value)); }
  template <class T>
  requires std::is_enum_v<T>
  void operator()(T value) { (*this)(static_cast<std::underlying_type_t<T>>(value)); }
  template <class Tag, class Integer>
  void operator()(const Id<Tag, Integer>& id) {
    (*this)(id.value);
  }
  void operator()(std::string_view text);
  void operator()(const std::string& text) { (*this)(std::string_view(text)); }
  void operator()(const Error& error);
  void operator()(const TaskName& task) { all(task.job, task.index); }
  void operator()(const RendezvousKey& key) { all(key.session, key.step, key.edge); }
  void operator()(const RandomKey& key) { all(key.seed, key.step, key.slot); }
  void operator()(const Tensor& tensor);
  template <class T>
  void operator()(const std::vector<T>& values) {
    (*this)(static_cast<std::uint32_t>(values.size()));
    for (const T& value : values) (*this)(value);
  }
  template <HasFields T>
  void operator()(const T& value) {
    std::apply([this](const auto&... fields) { all(fields...); }, value.fields());
  }

 private:
  template <class... T>
  void all(const T&... fields) {
    ((*this)(fields), ...);
  }

  std::string& out_;
  std::vector<Tensor>& tensors_;
};

// A tensor announced by a body. Its target is not yet allocated.
struct AnnouncedTensor {
  Tensor* target = nullptr;
  DType dtype = DType::invalid;
  Shape shape;
  std::uint64_t payload_bytes = 0;
};

class BodyReader {
 public:
  BodyReader(std::string_view body, const Limits& limits) : rest_(body), limits_(limits) {}

  template <std::integral T>
  void operator()(T& value) {
    value = static_cast<T>(take<std::make_unsigned_t<T>>());
  }
  void operator()(bool& value);
  void operator()(double& value) { value = std::bit_cast<double>(take<std::uint64_t>()); }
  void operator()(Code& value);
  void operator()(TokenKind& value);
  template <class Tag, class Integer>
  void operator()(Id<Tag, Integer>& id) {
    (*this)(id.value);
  }
  void operator()(std::string& text);
  void operator()(Error& error);
  void operator()(TaskName& task);
  void operator()(RendezvousKey& key) { all(key.session, key.step, key.edge); }
  void operator()(RandomKey& key) { all(key.seed, key.step, key.slot); }
  void operator()(Tensor& tensor);
  template <class T>
  void operator()(std::vector<T>& values) {
    const auto count = take<std::uint32_t>();
    // Elements have at least one byte, and the vector grows as they are read: memory is bounded by the body.
    if (count > rest_.size()) truncated();
    values.clear();
    for (std::uint32_t i = 0; i < count; ++i) {
      T value{};
      (*this)(value);
      values.push_back(std::move(value));
    }
  }
  // Reads them in place: announced tensors point to them.
  void operator()(std::vector<Tensor>& values);
  template <HasFields T>
  void operator()(T& value) {
    std::apply([this](auto&... fields) { all(fields...); }, value.fields());
  }

  std::size_t bytes_left() const { return rest_.size(); }
  const std::vector<AnnouncedTensor>& tensors() const { return tensors_; }
  std::uint64_t payload_bytes() const { return payload_bytes_; }

 private:
  template <class... T>
  void all(T&... fields) {
    ((*this)(fields), ...);
  }
  template <std::unsigned_integral T>
  T take() {
    if (rest_.size() < sizeof(T)) truncated();
    const T value = read_little_endian<T>(rest_.data());
    rest_.remove_prefix(sizeof(T));
    return value;
  }
  [[noreturn]] static void truncated();

  std::string_view rest_;
  const Limits& limits_;
  std::vector<AnnouncedTensor> tensors_;
  std::uint64_t payload_bytes_ = 0;
};

}  // namespace troupe
