#include "troupe/messages/body_codec.hpp"

#include <array>
#include <limits>

namespace troupe {
namespace {

constexpr std::size_t kStringLengthBytes = 4;

std::uint64_t payload_size(const Tensor& tensor) {
  if (tensor.dtype() != DType::string) return tensor.num_bytes();
  std::uint64_t bytes = 0;
  for (const std::string& text : tensor.values<std::string>()) bytes += kStringLengthBytes + text.size();
  return bytes;
}

void check_payload(const AnnouncedTensor& tensor, const Limits& limits) {
  const std::uint64_t in_memory = checked_bytes(tensor.dtype, tensor.shape);
  const std::uint64_t payload = tensor.payload_bytes;
  if (payload > limits.max_tensor_bytes || in_memory > limits.max_tensor_bytes)
    fail(Code::resource_exhausted, "a frame announces a {}{} tensor of {} bytes; the limit is {}", name(tensor.dtype),
         tensor.shape.to_string(), std::max(in_memory, payload), limits.max_tensor_bytes);
  const bool fits = tensor.dtype == DType::string
                        ? payload / kStringLengthBytes >= static_cast<std::uint64_t>(tensor.shape.num_elements())
                        : payload == in_memory;
  if (!fits)
    fail(Code::data_loss, "a frame announces {} bytes for a {}{} tensor", payload, name(tensor.dtype),
         tensor.shape.to_string());
}

}  // namespace

void BodyWriter::operator()(std::string_view text) {
  if (text.size() > std::numeric_limits<std::uint32_t>::max())
    fail(Code::resource_exhausted, "a string of {} bytes is too long for a frame", text.size());
  (*this)(static_cast<std::uint32_t>(text.size()));
  out_ += text;
}

void BodyWriter::operator()(const Error& error) {
  (*this)(error.code());
  (*this)(std::string_view(error.message()).substr(0, kMaxErrorMessage));
}

void BodyWriter::operator()(const Tensor& tensor) {
  (*this)(tensor.dtype());
  if (!tensor.valid()) return;
  if (tensor.dtype() == DType::list) invalid_argument("a list of tensors cannot leave its task: stack or split it");
  if (!tensor.space().on_host())
    invalid_argument("a {}{} tensor in GPU memory cannot be sent: copy it to the host first", name(tensor.dtype()),
                     tensor.shape().to_string());
  (*this)(static_cast<std::uint8_t>(tensor.shape().rank()));
  for (const std::int64_t dim : tensor.shape().dims()) (*this)(dim);
  (*this)(payload_size(tensor));
  tensors_.push_back(tensor);
}

void BodyReader::truncated() { fail(Code::data_loss, "a frame ends in the middle of a field"); }

void BodyReader::operator()(bool& value) {
  const auto byte = take<std::uint8_t>();
  if (byte > 1) fail(Code::data_loss, "a bool in a frame is {}", byte);
  value = byte == 1;
}

void BodyReader::operator()(Code& value) {
  const auto number = take<std::uint8_t>();
  if (number > static_cast<std::uint8_t>(Code::unauthenticated))
    fail(Code::data_loss, "a frame has unknown error code {}", number);
  value = static_cast<Code>(number);
}

void BodyReader::operator()(TokenKind& value) {
  const auto number = take<std::uint8_t>();
  if (number > static_cast<std::uint8_t>(TokenKind::finish))
    fail(Code::data_loss, "a frame has unknown token kind {}", number);
  value = static_cast<TokenKind>(number);
}

void BodyReader::operator()(std::string& text) {
  const auto size = take<std::uint32_t>();
  if (size > rest_.size()) truncated();
  text.assign(rest_.substr(0, size));
  rest_.remove_prefix(size);
}

void BodyReader::operator()(Error& error) {
  Code code{};
  std::string message;
  all(code, message);
  error = Error(code, std::move(message));
}

void BodyReader::operator()(TaskName& task) {
  all(task.job, task.index);
  if (task.index < 0) fail(Code::data_loss, "a frame names task {} of job '{}'", task.index, task.job);
}

void BodyReader::operator()(Tensor& tensor) {
  AnnouncedTensor announced;
  announced.target = &tensor;
  announced.dtype = static_cast<DType>(take<std::uint8_t>());
  if (announced.dtype == DType::invalid) return;
  if (!is_data(announced.dtype))
    fail(Code::data_loss, "a frame has a tensor of unknown dtype {}", static_cast<int>(announced.dtype));
  const auto rank = take<std::uint8_t>();
  if (rank > kMaxRank) fail(Code::data_loss, "a frame has a tensor of {} dimensions; the limit is {}", rank, kMaxRank);
  std::array<std::int64_t, kMaxRank> dims{};
  for (int i = 0; i < rank; ++i) {
    std::int64_t& dim = dims[static_cast<std::size_t>(i)];
    (*this)(dim);
    if (dim < 0) fail(Code::data_loss, "a frame has a tensor with dimension {}", dim);
  }
  announced.shape = Shape(std::span<const std::int64_t>(dims.data(), rank));
  (*this)(announced.payload_bytes);
  check_payload(announced, limits_);
  if (__builtin_add_overflow(payload_bytes_, announced.payload_bytes, &payload_bytes_) ||
      payload_bytes_ > limits_.max_payload)
    fail(Code::resource_exhausted, "the tensors of a frame have more than {} bytes", limits_.max_payload);
  tensors_.push_back(announced);
}

void BodyReader::operator()(std::vector<Tensor>& values) {
  const auto count = take<std::uint32_t>();
  if (count > rest_.size()) truncated();  // each has at least one byte
  values.assign(count, Tensor());
  for (Tensor& value : values) (*this)(value);
}

}  // namespace troupe
