#include "troupe/messages/codec.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include <troupe/messages/packed_strings.hpp>

namespace troupe {
namespace {

constexpr std::size_t kKinds = std::variant_size_v<FrameVariant>;

template <std::size_t... I>
Frame empty_frame(std::size_t kind, std::index_sequence<I...>) {
  static constexpr std::array<Frame (*)(), kKinds> kMakers = {
      +[] { return Frame(std::variant_alternative_t<I, FrameVariant>()); }...};
  return kMakers[kind]();
}

std::string header_bytes(const FrameHeader& header) {
  std::string out;
  append_little_endian(out, kFrameMagic);
  append_little_endian(out, header.kind);
  append_little_endian(out, header.tensors);
  append_little_endian(out, header.body_bytes);
  append_little_endian(out, std::uint32_t{0});
  append_little_endian(out, header.payload_bytes);
  return out;
}

std::span<std::byte> bytes_of(Tensor& tensor) { return {tensor.mutable_raw(), tensor.num_bytes()}; }

void check_size(const Frame& frame, const Tensor& tensor, const Limits& limits) {
  if (tensor.num_bytes() > limits.max_tensor_bytes)
    fail(Code::resource_exhausted, "a {} frame has a tensor of {} bytes; the limit is {}", kind_name(frame),
         tensor.num_bytes(), limits.max_tensor_bytes);
}

}  // namespace

EncodedFrame encode(const Frame& frame, const Limits& limits) {
  EncodedFrame out;
  out.head.reserve(128);
  out.head.resize(kFrameHeaderBytes);
  std::visit(BodyWriter(out.head, out.payloads), frame);
  const std::size_t body = out.head.size() - kFrameHeaderBytes;
  if (body > limits.max_body)
    fail(Code::resource_exhausted, "the fields of a {} frame have {} bytes; the limit is {}", kind_name(frame), body,
         limits.max_body);
  const std::size_t tensors = out.payloads.size();
  if (tensors > std::numeric_limits<std::uint16_t>::max())
    fail(Code::resource_exhausted, "a {} frame has {} tensors; the limit is {}", kind_name(frame), tensors,
         std::numeric_limits<std::uint16_t>::max());
  for (Tensor& tensor : out.payloads) {
    check_size(frame, tensor, limits);
    if (tensor.dtype() == DType::string) {
      tensor = pack_strings(tensor);
      check_size(frame, tensor, limits);
    }
    out.payload_bytes += tensor.num_bytes();
  }
  if (out.payload_bytes > limits.max_payload)
    fail(Code::resource_exhausted, "the tensors of a {} frame have {} bytes; the limit is {}", kind_name(frame),
         out.payload_bytes, limits.max_payload);
  std::erase_if(out.payloads, [](const Tensor& tensor) { return tensor.num_bytes() == 0; });
  out.head.replace(0, kFrameHeaderBytes,
                   header_bytes({static_cast<std::uint16_t>(frame.index()), static_cast<std::uint16_t>(tensors),
                                 static_cast<std::uint32_t>(body), out.payload_bytes}));
  return out;
}

FrameHeader parse_frame_header(std::string_view bytes, const Limits& limits) {
  if (bytes.size() < kFrameHeaderBytes) fail(Code::data_loss, "a frame ends in the middle of its header");
  if (read_little_endian<std::uint32_t>(bytes.data()) != kFrameMagic)
    fail(Code::data_loss, "not a Troupe frame (wrong magic number)");
  FrameHeader header;
  header.kind = read_little_endian<std::uint16_t>(bytes.data() + 4);
  header.tensors = read_little_endian<std::uint16_t>(bytes.data() + 6);
  header.body_bytes = read_little_endian<std::uint32_t>(bytes.data() + 8);
  header.payload_bytes = read_little_endian<std::uint64_t>(bytes.data() + 16);
  if (header.kind >= kKinds) fail(Code::data_loss, "a frame has unknown kind {}", header.kind);
  if (read_little_endian<std::uint32_t>(bytes.data() + 12) != 0)
    fail(Code::data_loss, "the reserved bytes of a frame's header are not zero");
  if (header.body_bytes > limits.max_body)
    fail(Code::resource_exhausted, "a frame announces {} bytes of fields; the limit is {}", header.body_bytes,
         limits.max_body);
  if (header.payload_bytes > limits.max_payload)
    fail(Code::resource_exhausted, "a frame announces {} bytes of tensors; the limit is {}", header.payload_bytes,
         limits.max_payload);
  return header;
}

FrameDecoder::FrameDecoder(const FrameHeader& header, std::string_view body, const Limits& limits,
                           const TensorAllocator& allocate)
    : frame_(empty_frame(header.kind, std::make_index_sequence<kKinds>{})) {
  BodyReader reader(body, limits);
  std::visit(reader, frame_);
  if (body.size() != header.body_bytes || reader.bytes_left() != 0)
    fail(Code::data_loss, "{} extra bytes after the fields of a {} frame", reader.bytes_left(), kind_name(frame_));
  if (reader.tensors().size() != header.tensors || reader.payload_bytes() != header.payload_bytes)
    fail(Code::data_loss, "the header of a {} frame announces {} tensors of {} bytes, but its fields {} of {}",
         kind_name(frame_), header.tensors, header.payload_bytes, reader.tensors().size(), reader.payload_bytes());
  for (const AnnouncedTensor& tensor : reader.tensors()) {
    if (tensor.dtype == DType::string) {
      string_tensors_.push_back(
          {tensor.target, tensor.shape, Tensor(DType::u8, Shape{static_cast<std::int64_t>(tensor.payload_bytes)})});
      destinations_.push_back(bytes_of(string_tensors_.back().bytes));
    } else {
      *tensor.target = allocate(tensor.dtype, tensor.shape);
      if (tensor.dtype == DType::boolean) truth_tensors_.push_back(tensor.target);
      destinations_.push_back(bytes_of(*tensor.target));
    }
  }
  std::erase_if(destinations_, [](std::span<std::byte> bytes) { return bytes.empty(); });
}

Frame FrameDecoder::finish() {
  for (StringTensor& tensor : string_tensors_) *tensor.target = unpack_strings(tensor.shape, tensor.bytes);
  for (const Tensor* tensor : truth_tensors_) {
    const std::span<const std::byte> bytes(tensor->raw(), tensor->num_bytes());
    if (std::ranges::any_of(bytes, [](std::byte b) { return b > std::byte{1}; }))
      fail(Code::data_loss, "a bool tensor of a {} frame has bytes other than 0 and 1", kind_name(frame_));
  }
  return std::move(frame_);
}

std::string encode_to_string(const Frame& frame, const Limits& limits) {
  EncodedFrame encoded = encode(frame, limits);
  std::string out = std::move(encoded.head);
  out.reserve(out.size() + encoded.payload_bytes);
  for (const Tensor& tensor : encoded.payloads)
    out.append(reinterpret_cast<const char*>(tensor.raw()), tensor.num_bytes());
  return out;
}

Frame decode_from_string(std::string_view bytes, const Limits& limits) {
  const FrameHeader header = parse_frame_header(bytes, limits);
  bytes.remove_prefix(kFrameHeaderBytes);
  // In this order, the sum cannot overflow: both are within the limits or fit their fields.
  if (bytes.size() < header.body_bytes || bytes.size() - header.body_bytes != header.payload_bytes)
    fail(Code::data_loss, "a frame of {} + {} bytes was received as {} bytes", header.body_bytes, header.payload_bytes,
         bytes.size());
  FrameDecoder decoder(header, bytes.substr(0, header.body_bytes), limits,
                       [](DType dtype, const Shape& shape) { return Tensor(dtype, shape); });
  bytes.remove_prefix(header.body_bytes);
  for (const std::span<std::byte> destination : decoder.destinations()) {
    std::memcpy(destination.data(), bytes.data(), destination.size());
    bytes.remove_prefix(destination.size());
  }
  return decoder.finish();
}

}  // namespace troupe
