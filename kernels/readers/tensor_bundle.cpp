#include "troupe/kernels/readers/tensor_bundle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>

#include <troupe/devices/storage/crc32c.hpp>
#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/kernels/readers/leveldb_table.hpp>
#include <troupe/messages/error.hpp>
#include <troupe/messages/tensorflow_types.hpp>

namespace troupe {
namespace {

static_assert(std::endian::native == std::endian::little, "the elements of a bundle are little-endian");

constexpr std::uint64_t kMaxBundleIndex = 64u << 20;
constexpr std::uint64_t kMaxShards = 99'999;  // of the names of shards

std::uint32_t masked(std::uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8u; }

void put_bundle_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}
void put_number(std::string& out, std::uint32_t field, std::uint64_t value) {
  put_bundle_varint(out, field << 3);
  put_bundle_varint(out, value);
}
void put_message(std::string& out, std::uint32_t field, std::string_view message) {
  put_bundle_varint(out, field << 3 | 2);
  put_bundle_varint(out, message.size());
  out += message;
}

// The fields of a message in protocol buffers' wire format.
class MessageFields {
 public:
  // `what` and `file` are for errors.
  MessageFields(std::string_view bytes, std::string_view what, const std::string& file)
      : rest_(bytes), what_(what), file_(file) {}

  std::uint32_t number = 0;
  std::uint64_t value = 0;   // of a varint, or 4 or 8 bytes
  std::string_view bytes{};  // of a field with a length

  // False at the end.
  bool next() {
    if (rest_.empty()) return false;
    const std::uint64_t tag = varint();
    number = static_cast<std::uint32_t>(tag >> 3);
    value = 0;
    bytes = {};
    switch (tag & 7) {
      case 0:
        value = varint();
        break;
      case 1:
        value = fixed(8);
        break;
      case 2:
        bytes = take(varint());
        break;
      case 5:
        value = fixed(4);
        break;
      default:
        damaged("a field of an unknown kind");
    }
    return true;
  }
  std::uint64_t varint() {
    std::uint64_t out = 0;
    for (std::size_t i = 0; i < rest_.size() && i < 10; ++i) {
      const auto byte = static_cast<unsigned char>(rest_[i]);
      out |= static_cast<std::uint64_t>(byte & 0x7f) << (7 * i);
      if (byte >= 0x80) continue;
      rest_.remove_prefix(i + 1);
      return out;
    }
    damaged("a number is cut");
  }

 private:
  [[noreturn]] void damaged(std::string_view why) const {
    fail(Code::data_loss, "'{}': {} is no message of a tensor bundle: {}", file_, what_, why);
  }
  std::string_view take(std::uint64_t size) {
    if (size > rest_.size()) damaged("a field is cut");
    const std::string_view out = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return out;
  }
  std::uint64_t fixed(std::size_t size) {
    const std::string_view at = take(size);
    std::uint64_t out = 0;
    for (std::size_t i = size; i-- > 0;) out = out << 8 | static_cast<unsigned char>(at[i]);
    return out;
  }

  std::string_view rest_;
  std::string_view what_;
  const std::string& file_;
};

// tensorflow.TensorShapeProto.
Shape bundle_shape(std::string_view message, const std::string& tensor, const std::string& file) {
  std::vector<std::int64_t> dims;
  MessageFields fields(message, tensor, file);
  while (fields.next()) {
    if (fields.number == 3 && fields.value != 0) fail(Code::data_loss, "'{}': tensor '{}' has no rank", file, tensor);
    if (fields.number != 2) continue;
    MessageFields dim(fields.bytes, tensor, file);
    std::int64_t size = 0;
    while (dim.next())
      if (dim.number == 1) size = static_cast<std::int64_t>(dim.value);
    if (size < 0) fail(Code::data_loss, "'{}': tensor '{}' has a dimension of {}", file, tensor, size);
    if (std::ssize(dims) == kMaxRank)
      fail(Code::data_loss, "'{}': tensor '{}' has more than {} dimensions", file, tensor, kMaxRank);
    dims.push_back(size);
  }
  return Shape(std::span<const std::int64_t>(dims));
}

// In memory. A shape that is too large for any is damage.
std::uint64_t bytes_of(const TensorInfo& info, const std::string& file) {
  try {
    return checked_bytes(info.dtype, info.shape);
  } catch (const Error&) {
    fail(Code::data_loss, "'{}': tensor '{}' has the impossible shape {}", file, info.name, info.shape.to_string());
  }
}

std::uint32_t crc_of(std::string_view bytes, std::uint32_t crc = 0) {
  return crc32c(std::as_bytes(std::span(bytes)), crc);
}

// Extends a checksum by the length of a string, as the format has it.
std::uint32_t crc_of_length(std::uint64_t length, std::uint32_t crc) {
  const std::size_t bytes = length <= 0xffffffffu ? 4 : 8;
  return crc32c(std::as_bytes(std::span(&length, 1)).first(bytes), crc);
}

struct BundledTensor {
  std::string_view bytes{};
  std::string strings{};  // what `bytes` are of a tensor of strings
  std::uint32_t crc = 0;
};

BundledTensor bundled(const Tensor& tensor) {
  BundledTensor out;
  if (tensor.dtype() != DType::string) {
    out.bytes = {reinterpret_cast<const char*>(tensor.raw()), tensor.num_bytes()};
    out.crc = crc_of(out.bytes);
    return out;
  }
  for (const std::string& text : tensor.values<std::string>()) {
    put_bundle_varint(out.strings, text.size());
    out.crc = crc_of_length(text.size(), out.crc);
  }
  const std::uint32_t lengths = masked(out.crc);
  const std::string_view stored(reinterpret_cast<const char*>(&lengths), sizeof lengths);
  out.strings += stored;
  out.crc = crc_of(stored, out.crc);
  for (const std::string& text : tensor.values<std::string>()) {
    out.strings += text;
    out.crc = crc_of(text, out.crc);
  }
  out.bytes = out.strings;
  return out;
}

}  // namespace

TensorBundle::TensorBundle(FileSystem& files, std::string prefix) : files_(files), prefix_(std::move(prefix)) {
  const std::string path = prefix_ + ".index", shown = shown_path(path);
  const std::string bytes = read_file(files, path, kMaxBundleIndex);
  const TablePairs pairs = read_leveldb_table(bytes, shown);
  if (pairs.empty() || !pairs[0].first.empty())
    fail(Code::data_loss, "'{}': not a tensor bundle: its first key is not the header's, \"\"", shown);
  num_shards_ = read_header(pairs[0].second, shown);
  for (std::size_t i = 1; i < pairs.size(); ++i) add(pairs[i].first, pairs[i].second, shown);
}

std::uint64_t TensorBundle::read_header(std::string_view header, const std::string& index) const {
  std::uint64_t shards = 0;
  MessageFields fields(header, "the header", index);
  while (fields.next()) {
    if (fields.number == 1) shards = fields.value;
    if (fields.number == 2 && fields.value != 0)
      fail(Code::unimplemented, "'{}': the bundle was written by a big-endian machine", index);
    if (fields.number != 3) continue;
    MessageFields version(fields.bytes, "the version", index);
    while (version.next())
      if (version.number == 2 && version.value > 1)
        fail(Code::unimplemented, "'{}': readers need version {} of the format, but Troupe reads 1", index,
             version.value);
  }
  if (shards == 0 || shards > kMaxShards)
    fail(Code::data_loss, "'{}': a bundle of {} shards, expected 1 to {}", index, shards, kMaxShards);
  return shards;
}

void TensorBundle::add(const std::string& name, std::string_view message, const std::string& index) {
  TensorInfo info{.name = name};
  Entry entry;
  std::uint64_t type = 0;
  MessageFields fields(message, name, index);
  while (fields.next()) {
    if (fields.number == 1) type = fields.value;
    if (fields.number == 2) info.shape = bundle_shape(fields.bytes, name, index);
    if (fields.number == 3) entry.shard = fields.value;
    if (fields.number == 4) entry.offset = fields.value;
    if (fields.number == 5) entry.size = fields.value;
    if (fields.number == 6) entry.crc = static_cast<std::uint32_t>(fields.value);
    if (fields.number == 7) entry.sliced = true;
  }
  info.dtype = tensorflow_type(type).dtype;
  info.stored_type = tensorflow_type(type).name;
  if (entry.shard >= num_shards_)
    fail(Code::data_loss, "'{}': tensor '{}' is in shard {} of {}", index, name, entry.shard, num_shards_);
  const std::uint64_t wanted = bytes_of(info, index);
  const bool sized = info.dtype != DType::invalid && info.dtype != DType::string && !entry.sliced;
  if (sized && wanted != entry.size)
    fail(Code::data_loss, "'{}': tensor '{}' of {}{} needs {} bytes, but has {}", index, name, info.stored_type,
         info.shape.to_string(), wanted, entry.size);
  infos_.push_back(std::move(info));
  entries_.push_back(entry);
}

bool TensorBundle::has(std::string_view name) const {
  const auto found = std::ranges::lower_bound(infos_, name, std::less<>(), &TensorInfo::name);
  return found != infos_.end() && found->name == name;
}

std::string TensorBundle::shard_path(std::uint64_t shard) const {
  return fmt::format("{}.data-{:05}-of-{:05}", prefix_, shard, num_shards_);
}

ReadableFile& TensorBundle::shard(std::uint64_t number) {
  std::unique_ptr<ReadableFile>& file = shards_[number];
  if (!file) file = files_.open(shard_path(number));
  return *file;
}

Tensor TensorBundle::read(std::string_view name) {
  const auto found = std::ranges::lower_bound(infos_, name, std::less<>(), &TensorInfo::name);
  if (found == infos_.end() || found->name != name) index_of(infos_, name, shown_path(prefix_ + ".index"));
  const TensorInfo& info = *found;
  const Entry& entry = entries_[static_cast<std::size_t>(found - infos_.begin())];
  const std::string path = shown_path(shard_path(entry.shard));
  if (entry.sliced)
    fail(Code::unimplemented, "'{}': tensor '{}' is saved in slices, which are not supported",
         shown_path(prefix_ + ".index"), info.name);
  if (info.dtype == DType::invalid)
    fail(Code::unimplemented, "'{}': tensor '{}' has elements of {}, which Troupe does not have", path, info.name,
         info.stored_type);
  ReadableFile& file = shard(entry.shard);
  const std::uint64_t size = file.size();
  if (entry.offset > size || entry.size > size - entry.offset)
    fail(Code::data_loss, "'{}': byte {}: the {} bytes of tensor '{}' do not fit the {} of the file", path,
         entry.offset, entry.size, info.name, size);
  if (info.dtype == DType::string) {
    std::string bytes(entry.size, '\0');
    file.read(entry.offset, std::as_writable_bytes(std::span(bytes)));
    return read_strings(info, entry, path, bytes);
  }
  Tensor tensor(info.dtype, info.shape);
  file.read(entry.offset, {tensor.mutable_raw(), tensor.num_bytes()});
  if (const std::uint32_t crc = masked(bundled(tensor).crc); crc != entry.crc)
    fail(Code::data_loss, "'{}': byte {}: tensor '{}' has checksum {:#x}, but {:#x} is stored", path, entry.offset,
         info.name, crc, entry.crc);
  check_booleans(tensor, path, info.name);
  return tensor;
}

Tensor TensorBundle::read_strings(const TensorInfo& info, const Entry& entry, const std::string& file,
                                  std::string_view bytes) const {
  const auto damaged = [&](std::string_view why) {
    fail(Code::data_loss, "'{}': byte {}: the strings of tensor '{}': {}", file, entry.offset, info.name, why);
  };
  // Each length has a byte: a tensor has no more strings than it has bytes.
  const auto count = static_cast<std::uint64_t>(info.shape.num_elements());
  if (count > bytes.size()) damaged(fmt::format("{} bytes hold no {} lengths", bytes.size(), count));
  Tensor out(DType::string, info.shape);
  MessageFields lengths(bytes, info.name, file);
  std::vector<std::uint64_t> sizes;
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    sizes.push_back(lengths.varint());
    std::string written;
    put_bundle_varint(written, sizes.back());
    at += written.size();
  }
  if (bytes.size() < at + 4) damaged("the checksum of their lengths is cut");
  at += 4;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (sizes[i] > bytes.size() - at) damaged(fmt::format("string {} of {} bytes is cut", i, sizes[i]));
    out.mutable_data<std::string>()[i] = bytes.substr(at, sizes[i]);
    at += sizes[i];
  }
  if (at != bytes.size()) damaged(fmt::format("they have {} bytes, expected {}", bytes.size(), at));
  const BundledTensor again = bundled(out);
  if (again.strings != bytes || masked(again.crc) != entry.crc)
    damaged(fmt::format("checksum {:#x}, but {:#x} is stored", masked(again.crc), entry.crc));
  return out;
}

void write_tensor_bundle(FileSystem& files, const std::string& prefix, const TensorSource& source) {
  const std::string data = prefix + ".data-00000-of-00001";
  check_names(source.infos, prefix);
  std::vector<std::size_t> order(source.infos.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::string_view(source.infos[i].name); });
  for (const TensorInfo& info : source.infos) {
    if (info.name.empty()) invalid_argument("cannot write '{}': a tensor has no name", prefix);
    if (tensorflow_number(info.dtype) == 0)
      invalid_argument("cannot write '{}': TensorFlow has no type for tensor '{}' of {}", prefix, info.name,
                       name(info.dtype));
  }
  std::string header, version;
  put_number(header, 1, 1);
  put_number(version, 1, 1);  // the writer's version
  put_message(header, 3, version);
  TablePairs pairs = {{"", header}};
  const auto write = [&](WritableFile& file) {
    std::uint64_t offset = 0;
    for (const std::size_t i : order) {
      const TensorInfo& info = source.infos[i];
      const Tensor tensor = taken_from(source, i, prefix);
      const BundledTensor bytes = bundled(tensor);
      file.append(std::as_bytes(std::span(bytes.bytes)));
      std::string entry, shape;
      for (const std::int64_t d : info.shape.dims()) {
        std::string dim;
        put_number(dim, 1, static_cast<std::uint64_t>(d));
        put_message(shape, 2, dim);
      }
      put_number(entry, 1, tensorflow_number(info.dtype));
      put_message(entry, 2, shape);
      put_number(entry, 4, offset);
      put_number(entry, 5, bytes.bytes.size());
      put_bundle_varint(entry, 6 << 3 | 5);
      const std::uint32_t crc = masked(bytes.crc);
      entry.append(reinterpret_cast<const char*>(&crc), sizeof crc);
      pairs.emplace_back(info.name, std::move(entry));
      offset += bytes.bytes.size();
    }
  };
  replace_file(files, data, write, temporary_suffix());
  replace_file(files, prefix + ".index", leveldb_table(pairs), temporary_suffix());
}

}  // namespace troupe
