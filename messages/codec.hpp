// Frames as bytes. A frame is
//   header   24 bytes: u32 magic "TRPF", u16 kind (index in Frame), u16 number of tensors, u32 bytes of the body,
//            u32 zero, u64 bytes of all payloads; little-endian
//   body     all fields (body_codec.hpp)
//   payloads the elements of its tensors, one tensor after the other, row-major; a tensor of strings as u32 length and
//            bytes of each
// Payloads are never copied: an EncodedFrame refers to tensor memory, and a FrameDecoder exposes the memory of its
// tensors for the socket's reader to fill.
//
// Input bytes are untrusted. Every number is validated against Limits before memory is allocated for it. Invalid input
// throws Error: data_loss (malformed), invalid_argument (an impossible shape) or resource_exhausted (a limit).
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/messages/body_codec.hpp>
#include <troupe/messages/frames.hpp>

namespace troupe {

inline constexpr std::size_t kFrameHeaderBytes = 24;
inline constexpr std::uint32_t kFrameMagic = 0x46505254;  // "TRPF"

// A frame kind's number on the wire.
template <class T>
inline constexpr std::uint16_t kind_of = []<std::size_t... I>(std::index_sequence<I...>) {
  return static_cast<std::uint16_t>(((std::is_same_v<T, std::variant_alternative_t<I, FrameVariant>> ? I : 0) + ...));
}
(std::make_index_sequence<std::variant_size_v<FrameVariant>>{});

// A frame ready to be written: `head`, then the bytes of `payloads` in order.
struct EncodedFrame {
  std::string head;              // header and body
  std::vector<Tensor> payloads;  // keep the memory alive; none is empty or a string tensor
  std::uint64_t payload_bytes = 0;
  std::uint64_t size() const { return head.size() + payload_bytes; }
};

// Throws invalid_argument for a tensor that is not in host memory, resource_exhausted for a frame that exceeds `limits`
// (the receiver would close the connection).
EncodedFrame encode(const Frame& frame, const Limits& limits = {});

struct FrameHeader {
  std::uint16_t kind = 0;
  std::uint16_t tensors = 0;
  std::uint32_t body_bytes = 0;
  std::uint64_t payload_bytes = 0;
};

// `bytes` are the first kFrameHeaderBytes of a frame.
FrameHeader parse_frame_header(std::string_view bytes, const Limits& limits);

// Memory for a received tensor: host memory, aligned to kBufferAlignment, not shared. The default is Tensor's.
using TensorAllocator = std::function<Tensor(DType, const Shape&)>;

// Decodes a frame whose body has arrived. Fill destinations() in order, then call finish(). Not movable: it points into
// itself.
class FrameDecoder {
 public:
  // Parses the body, then allocates the tensors. `body` is not kept.
  FrameDecoder(const FrameHeader& header, std::string_view body, const Limits& limits, const TensorAllocator& allocate);
  FrameDecoder(const FrameDecoder&) = delete;
  FrameDecoder& operator=(const FrameDecoder&) = delete;

  // Destinations of the payloads, in wire order. None is empty.
  const std::vector<std::span<std::byte>>& destinations() const { return destinations_; }
  // Returns the whole frame; call once, when the destinations are filled. Throws data_loss for malformed strings or
  // bools.
  Frame finish();

 private:
  struct StringTensor {
    Tensor* target;
    Shape shape;
    Tensor bytes;
  };

  Frame frame_;
  std::vector<Tensor*> truth_tensors_;
  std::vector<StringTensor> string_tensors_;
  std::vector<std::span<std::byte>> destinations_;
};

// Encodes whole frames to one string, for tests and where a copy does not matter.
std::string encode_to_string(const Frame& frame, const Limits& limits = {});
Frame decode_from_string(std::string_view bytes, const Limits& limits = {});

}  // namespace troupe
