#include "troupe/kernels/readers/example_wire.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include <troupe/messages/error.hpp>

namespace troupe::example_wire {
namespace {

constexpr std::size_t kFloatBytes = 4;

template <class T>
void put_integers(std::string& out, const Tensor& tensor) {
  for (const T value : tensor.values<T>())
    put_varint(out, static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
}

std::string packed_integers(const NamedTensor& t) {
  std::string out;
  switch (t.tensor.dtype()) {
    case DType::i64:
      put_integers<std::int64_t>(out, t.tensor);
      break;
    case DType::i32:
      put_integers<std::int32_t>(out, t.tensor);
      break;
    case DType::i16:
      put_integers<std::int16_t>(out, t.tensor);
      break;
    case DType::i8:
      put_integers<std::int8_t>(out, t.tensor);
      break;
    case DType::u32:
      put_integers<std::uint32_t>(out, t.tensor);
      break;
    case DType::u16:
      put_integers<std::uint16_t>(out, t.tensor);
      break;
    case DType::u8:
      put_integers<std::uint8_t>(out, t.tensor);
      break;
    case DType::boolean:
      put_integers<bool>(out, t.tensor);
      break;
    default:
      invalid_argument("feature '{}': no list of an Example keeps {}: cast it to {}", t.name, name(t.tensor.dtype()),
                       is_integer(t.tensor.dtype()) ? "i64" : "f32");
  }
  return out;
}

}  // namespace

std::string_view name_of(ListKind kind) {
  switch (kind) {
    case ListKind::none:
      return "no list";
    case ListKind::bytes:
      return "bytes_list";
    case ListKind::floats:
      return "float_list";
    case ListKind::integers:
      return "int64_list";
  }
  return "?";
}

void malformed(const WireContext& context, const char* at, std::string_view why) {
  fail(Code::data_loss, "{}: record at byte {}: not a tf.train.Example: at byte {} of its data: {}", context.place.file,
       context.place.offset, at - context.record.data(), why);
}

WireField take_field(const WireContext& context, std::string_view& message) {
  const char* const begin = message.data();
  const std::uint64_t tag = take_varint(context, message);
  if (tag < 8 || tag > std::numeric_limits<std::uint32_t>::max()) malformed(context, begin, "no field has this number");
  std::uint64_t length = 0;
  switch (tag & 7) {
    case kVarint: {
      std::string_view behind = message;
      take_varint(context, behind);
      length = message.size() - behind.size();
      break;
    }
    case kFixed64:
      length = 8;
      break;
    case kFixed32:
      length = 4;
      break;
    case kLengthDelimited:
      length = take_varint(context, message);
      break;
    default:
      malformed(context, begin, "neither number, bytes nor message");
  }
  if (length > message.size())
    malformed(context, begin, fmt::format("a field of {} bytes, but {} follow", length, message.size()));
  const std::string_view value = message.substr(0, length);
  message.remove_prefix(length);
  return {static_cast<std::uint32_t>(tag), value};
}

FeatureList list_of(const WireContext& context, std::string_view feature) {
  FeatureList out;
  while (!feature.empty()) {
    const std::string_view from = feature;
    const std::uint32_t tag = take_field(context, feature).tag;
    for (const ListKind kind : {ListKind::bytes, ListKind::floats, ListKind::integers})
      if (kind != out.kind && tag == tag_of(static_cast<std::uint32_t>(kind), kLengthDelimited)) out = {kind, from};
  }
  return out;
}

std::int64_t count_values(const WireContext& context, const FeatureList& list) {
  std::int64_t count = 0;
  each_run(context, list, [&](std::string_view run) {
    if (list.kind == ListKind::bytes) {
      ++count;
    } else if (list.kind == ListKind::floats) {
      if (run.size() % kFloatBytes != 0)
        malformed(context, run.data(), fmt::format("{} bytes are not floats of {} each", run.size(), kFloatBytes));
      count += static_cast<std::int64_t>(run.size() / kFloatBytes);
    } else {
      count += std::ranges::count_if(run, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
      if (!run.empty() && static_cast<unsigned char>(run.back()) >= 0x80)
        malformed(context, run.data(), "the last number of a list is cut");
    }
  });
  return count;
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void put_bytes(std::string& out, std::uint32_t tag, std::string_view value) {
  put_varint(out, tag);
  put_varint(out, value.size());
  out += value;
}

std::string feature_of(const NamedTensor& t) {
  static_assert(std::endian::native == std::endian::little);  // floats are copied
  constexpr std::uint32_t kValue = tag_of(1, kLengthDelimited);
  ListKind kind = ListKind::integers;
  std::string list;
  if (t.tensor.dtype() == DType::string) {
    kind = ListKind::bytes;
    for (const std::string& value : t.tensor.values<std::string>()) put_bytes(list, kValue, value);
  } else {
    std::string packed;
    if (t.tensor.dtype() == DType::f32) {
      kind = ListKind::floats;
      packed.assign(reinterpret_cast<const char*>(t.tensor.data<float>()), t.tensor.num_bytes());
    } else {
      packed = packed_integers(t);
    }
    if (!packed.empty()) put_bytes(list, kValue, packed);
  }
  std::string out;
  put_bytes(out, tag_of(static_cast<std::uint32_t>(kind), kLengthDelimited), list);
  return out;
}

}  // namespace troupe::example_wire
