#include "troupe/actors/checkpoint/reader.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

#include <troupe/devices/storage/crc32c.hpp>
#include <troupe/messages/error.hpp>
#include <troupe/messages/packed_strings.hpp>

namespace troupe {
namespace {

constexpr std::size_t kReadChunk = 1 << 20;

std::string describe(const TensorEntry& entry) { return fmt::format("{} '{}'", name(entry.kind), entry.name); }

// A missing file, or a folder in its place, is damage; transient errors (no memory, no permission) are not.
[[noreturn]] void rethrow_as_damage(const Error& error) {
  const bool damage = error.code() == Code::not_found || error.code() == Code::failed_precondition;
  throw damage ? Error(Code::data_loss, error.message()) : error;
}

// Reads [offset, offset + bytes) in cache-sized chunks and calls take(chunk) for each, in order. `into`: all chunks, or
// memory for one.
template <class Take>
void read_chunks(ReadableFile& file, std::uint64_t offset, std::span<std::byte> into, std::uint64_t bytes,
                 Take&& take) {
  const bool all = into.size() == bytes;
  for (std::uint64_t done = 0; done < bytes;) {
    const std::size_t n = std::min<std::uint64_t>(bytes - done, std::min<std::size_t>(kReadChunk, into.size()));
    const std::span<std::byte> chunk = into.subspan(all ? done : 0, n);
    file.read(offset + done, chunk);
    take(chunk);
    done += n;
  }
}

std::string read_manifest(FileSystem& files, const std::string& path) {
  const std::unique_ptr<ReadableFile> file = files.open(path);
  if (file->size() > kMaxManifestBytes)
    fail(Code::data_loss, "it has {} bytes, more than {}", file->size(), kMaxManifestBytes);
  std::string bytes(file->size(), '\0');
  file->read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

// None for a folder whose name does not follow checkpoint_folder().
std::optional<std::uint64_t> version_of(std::string_view folder) {
  while (folder.ends_with('/')) folder.remove_suffix(1);
  folder = folder.substr(folder.rfind('/') + 1);
  const std::string_view digits = folder.substr(std::min(folder.size(), folder.find('-') + 1));
  std::uint64_t version = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), version);
  if (error != std::errc{} || folder != checkpoint_folder("", version)) return std::nullopt;
  return version;
}

bool all_at_most(std::span<const std::byte> bytes, std::byte most) {
  return std::ranges::all_of(bytes, [most](std::byte b) { return b <= most; });
}

// Copies the rows begin, begin + stride, ... below end that a part has to their places in `out`.
void copy_rows(const Tensor& part, const TensorEntry& entry, std::int64_t begin, std::int64_t end, std::int64_t stride,
               Tensor& out) {
  const bool ranges = entry.stride == 1 && stride == 1;  // then rows that follow each other do so in both
  const std::int64_t from = std::max(begin, entry.row_begin), to = std::min(end, entry.row_end);
  for (std::int64_t row = entry.row_begin, at = 0; row < to; row += entry.stride, ++at) {
    if (row < begin || (row - begin) % stride != 0) continue;
    const std::int64_t count = ranges ? to - from : 1;
    const Tensor rows = part.rows(at, at + count);
    Tensor place = out.rows((row - begin) / stride, (row - begin) / stride + count);
    if (part.dtype() == DType::string)
      std::ranges::copy(rows.values<std::string>(), place.mutable_data<std::string>());
    else
      std::memcpy(place.mutable_raw(), rows.raw(), rows.num_bytes());
    if (ranges) return;
  }
}

}  // namespace

Checkpoint::Checkpoint(FileSystem& files, std::string folder, CheckpointManifest manifest, StoredVariables variables)
    : folder_(std::move(folder)), manifest_(std::move(manifest)), variables_(std::move(variables)) {
  for (const ShardManifest& shard : manifest_.shards) {
    shards_.push_back(files.open(path(shard.shard)));
    if (const std::uint64_t size = shards_.back()->size(); size != shard.bytes)
      fail(Code::data_loss, "'{}' is damaged: it has {} bytes, expected {}", path(shard.shard), size, shard.bytes);
  }
}

const StoredVariable& Checkpoint::variable(std::string_view name) const {
  const auto found = variables_.find(name);
  if (found == variables_.end()) fail(Code::not_found, "'{}' has no variable or slot '{}'", folder_, name);
  return found->second;
}

Tensor Checkpoint::read_entry(std::uint32_t shard, const TensorEntry& entry) {
  const bool packed = entry.dtype == DType::string;
  Tensor tensor =
      packed ? Tensor(DType::u8, Shape{static_cast<std::int64_t>(entry.bytes)}) : Tensor(entry.dtype, entry.shape);
  std::uint32_t crc = 0;
  bool truth = true;
  read_chunks(*shards_[shard], entry.offset, {tensor.mutable_raw(), tensor.num_bytes()}, entry.bytes, [&](auto chunk) {
    crc = crc32c(chunk, crc);
    if (entry.dtype == DType::boolean) truth = truth && all_at_most(chunk, std::byte{1});
  });
  if (crc != entry.crc32c)
    fail(Code::data_loss, "'{}' is damaged: crc32c mismatch in {}", path(shard), describe(entry));
  if (!truth) fail(Code::data_loss, "'{}' is damaged: {} has bytes other than 0 and 1", path(shard), describe(entry));
  if (!packed) return tensor;
  try {
    return unpack_strings(entry.shape, tensor);
  } catch (const Error& error) {
    fail(error.code(), "'{}' is damaged: {}: {}", path(shard), describe(entry), error.message());
  }
}

Tensor Checkpoint::read(std::string_view name) { return read_rows(name, 0, variable(name).rows); }

Tensor Checkpoint::read_rows(std::string_view name, std::int64_t begin, std::int64_t end, std::int64_t stride) {
  const StoredVariable& stored = variable(name);
  if (begin < 0 || end < begin || end > stored.rows || stride < 1)
    fail(Code::out_of_range, "'{}' has rows [0, {}), requested [{}, {}){}", name, stored.rows, begin, end,
         stride == 1 ? "" : fmt::format(" step {}", stride));
  if (stored.listed)
    fail(Code::failed_precondition,
         "checkpoint '{}' has only some rows of '{}', which is on demand: only jobs with parameter servers resume from "
         "it",
         folder_, name);
  Shape shape = stored.shape;
  if (shape.rank() > 0)
    shape.set_dim(0, (end - begin) / stride + ((end - begin) % stride != 0));
  else if (begin == end)
    fail(Code::out_of_range, "row out of range: '{}' is a scalar", name);
  Tensor out;
  for (const StoredVariable::Part& part : stored.parts) {
    const TensorEntry& entry = manifest_.shards[part.shard].tensors[part.tensor];
    if (entry.row_begin >= end || entry.row_end <= begin) continue;
    Tensor rows = read_entry(part.shard, entry);
    if (entry.row_begin == begin && entry.row_end == end && entry.stride == stride) return rows;
    if (!out.valid()) out = Tensor(stored.dtype, shape);
    copy_rows(rows, entry, begin, end, stride, out);
  }
  return out.valid() ? out : Tensor(stored.dtype, shape);
}

Tensor Checkpoint::read_listed(std::string_view name, std::uint32_t shard) {
  for (const StoredVariable::Part& part : variable(name).parts)
    if (part.shard == shard) return read_entry(shard, manifest_.shards[shard].tensors[part.tensor]);
  fail(Code::not_found, "shard {} of '{}' has no rows of '{}'", shard, folder_, name);
}

Tensor Checkpoint::read_state(std::uint32_t shard, std::string_view name) {
  if (shard < manifest_.shards.size()) {
    for (const TensorEntry& entry : manifest_.shards[shard].tensors)
      if (entry.kind == TensorKind::state && entry.name == name) return read_entry(shard, entry);
  }
  fail(Code::not_found, "shard {} of '{}' has no state '{}'", shard, folder_, name);
}

void Checkpoint::verify() {
  for (const ShardManifest& shard : manifest_.shards) verify_shard(shard.shard);
}

void Checkpoint::verify_shard(std::uint32_t shard) {
  std::vector<std::byte> chunk(std::min<std::uint64_t>(kReadChunk, manifest_.shards[shard].bytes));
  for (const TensorEntry& entry : manifest_.shards[shard].tensors) {
    if (entry.dtype == DType::string || entry.dtype == DType::boolean) {
      read_entry(shard, entry);  // a more specific error than the checksum's
    } else {
      std::uint32_t crc = 0;
      read_chunks(*shards_[shard], entry.offset, chunk, entry.bytes, [&](auto bytes) { crc = crc32c(bytes, crc); });
      if (crc != entry.crc32c)
        fail(Code::data_loss, "'{}' is damaged: crc32c mismatch in {}", path(shard), describe(entry));
    }
    const std::uint64_t end = entry.offset + entry.bytes;
    const std::span<std::byte> padding = std::span(chunk).first(aligned(end) - end);
    shards_[shard]->read(end, padding);
    if (!all_at_most(padding, std::byte{0}))
      fail(Code::data_loss, "'{}' is damaged: bytes after {} are not zero", path(shard), describe(entry));
  }
}

Checkpoint open_checkpoint(FileSystem& files, const std::string& folder) {
  const std::string path = join_path(folder, kManifestName);
  if (!files.exists(path))
    fail(Code::not_found, "'{}' is not a checkpoint: it has no {}; its save did not complete", folder, kManifestName);
  try {
    CheckpointManifest manifest;
    StoredVariables variables;
    try {
      manifest = decode_manifest(read_manifest(files, path));
      variables = check(manifest);
      if (const auto version = version_of(folder); version && *version != manifest.id.version)
        fail(Code::data_loss, "it has version {}", manifest.id.version);
    } catch (const Error& error) {
      throw error.within(fmt::format("'{}'{}", path, error.code() == Code::data_loss ? " is damaged" : ""));
    }
    return Checkpoint(files, folder, std::move(manifest), std::move(variables));
  } catch (const Error& error) {
    rethrow_as_damage(error);
  }
}

std::vector<ListedCheckpoint> list_checkpoints(FileSystem& files, const std::string& directory) {
  std::vector<ListedCheckpoint> out;
  if (!files.exists(directory)) return out;
  for (const DirectoryEntry& entry : files.list(directory)) {
    const auto version = version_of(entry.name);
    if (!entry.is_directory || !version) continue;
    std::string folder = join_path(directory, entry.name);
    const bool committed = files.exists(join_path(folder, kManifestName));
    out.push_back({*version, std::move(folder), committed});
  }
  std::ranges::sort(out, {}, &ListedCheckpoint::version);
  return out;
}

std::optional<Checkpoint> newest_whole_checkpoint(FileSystem& files, const std::string& directory,
                                                  const CheckpointNote& note) {
  const std::vector<ListedCheckpoint> listed = list_checkpoints(files, directory);
  for (auto checkpoint = listed.rbegin(); checkpoint != listed.rend(); ++checkpoint) {
    try {
      Checkpoint opened = open_checkpoint(files, checkpoint->folder);
      opened.verify();
      return opened;
    } catch (const Error& error) {
      const bool damaged =
          error.code() == Code::data_loss || (error.code() == Code::not_found && !checkpoint->committed);
      if (!damaged) throw;
      if (note) note(checkpoint->folder, error);
    }
  }
  return std::nullopt;
}

}  // namespace troupe
