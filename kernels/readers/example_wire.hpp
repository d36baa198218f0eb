// The wire format of tf.train.Example (example.hpp): what its reader and writer are made of.
//
// A field is a tag (field number * 8 + wire type) and a value: a varint, 4 or 8 bytes, or a length and that many bytes.
// Parsers give each field to the one that wants its tag; other fields are unknown. Views are into the record.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <troupe/kernels/readers/record_parser.hpp>
#include <troupe/kernels/readers/tensor_file.hpp>

namespace troupe::example_wire {

enum WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };
constexpr std::uint32_t tag_of(std::uint32_t number, WireType type) { return number << 3 | type; }

inline constexpr std::uint32_t kFeatures = tag_of(1, kLengthDelimited);    // of Example
inline constexpr std::uint32_t kFeature = tag_of(1, kLengthDelimited);     // of Features
inline constexpr std::uint32_t kEntryName = tag_of(1, kLengthDelimited);   // of an entry of that map
inline constexpr std::uint32_t kEntryValue = tag_of(2, kLengthDelimited);  // of an entry of that map

// The number of a list in Feature.
enum class ListKind : std::uint8_t { none = 0, bytes = 1, floats = 2, integers = 3 };
std::string_view name_of(ListKind kind);  // "no list", "bytes_list", "float_list", "int64_list"

// Names the record in errors.
struct WireContext {
  std::string_view record;
  const RecordPlace& place;
};
// Throws data_loss: the record is no Example, as seen at this byte of it.
[[noreturn]] void malformed(const WireContext& context, const char* at, std::string_view why);

// Takes a number off the front. As protocol buffers do, ignores what is beyond 64 bits of the last of 10 bytes.
inline std::uint64_t take_varint(const WireContext& context, std::string_view& bytes) {
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < bytes.size() && i < 10; ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    out |= static_cast<std::uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      bytes.remove_prefix(i + 1);
      return out;
    }
  }
  malformed(context, bytes.data(), bytes.size() < 10 ? "a number is cut" : "a number has more than 10 bytes");
}

struct WireField {
  std::uint32_t tag = 0;
  std::string_view value{};  // without the length in front of it
};
// Takes a field off the front of a message.
WireField take_field(const WireContext& context, std::string_view& message);

// Calls `each` with name and Feature of each entry of an Example, in order.
template <class Each>
void each_entry(const WireContext& context, Each&& each) {
  for (std::string_view example = context.record; !example.empty();) {
    const WireField features = take_field(context, example);
    if (features.tag != kFeatures) continue;
    for (std::string_view entries = features.value; !entries.empty();) {
      const WireField entry = take_field(context, entries);
      if (entry.tag != kFeature) continue;
      std::string_view name, feature;
      for (std::string_view fields = entry.value; !fields.empty();) {
        const WireField field = take_field(context, fields);
        if (field.tag == kEntryName)
          name = field.value;
        else if (field.tag == kEntryValue)
          feature = field.value;
      }
      each(name, feature);
    }
  }
}

// The list of a Feature.
struct FeatureList {
  ListKind kind = ListKind::none;
  std::string_view fields{};  // of the Feature, from the first one of this list on
};
// Lists of one kind that follow each other are one; a list of another kind replaces them.
FeatureList list_of(const WireContext& context, std::string_view feature);

// Calls `each` with each stretch of values: those of a packed field, or one that is not packed; varints, floats of 4
// bytes, or one byte string.
template <class Each>
void each_run(const WireContext& context, const FeatureList& list, Each&& each) {
  const std::uint32_t lists = tag_of(static_cast<std::uint32_t>(list.kind), kLengthDelimited);
  const std::uint32_t single = tag_of(1, list.kind == ListKind::floats     ? kFixed32
                                         : list.kind == ListKind::integers ? kVarint
                                                                           : kLengthDelimited);
  for (std::string_view fields = list.fields; !fields.empty();) {
    const WireField field = take_field(context, fields);
    if (field.tag != lists) continue;
    for (std::string_view values = field.value; !values.empty();) {
      const WireField value = take_field(context, values);
      if (value.tag == single || value.tag == tag_of(1, kLengthDelimited)) each(value.value);
    }
  }
}

// Checks the values, too: that they are whole.
std::int64_t count_values(const WireContext& context, const FeatureList& list);

void put_varint(std::string& out, std::uint64_t value);
void put_bytes(std::string& out, std::uint32_t tag, std::string_view value);
// The bytes of a Feature with the elements of a tensor (example_of()).
std::string feature_of(const NamedTensor& tensor);

}  // namespace troupe::example_wire
