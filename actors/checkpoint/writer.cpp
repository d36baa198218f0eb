#include "troupe/actors/checkpoint/writer.hpp"

#include <algorithm>
#include <array>

#include <troupe/devices/storage/crc32c.hpp>
#include <troupe/messages/error.hpp>
#include <troupe/messages/packed_strings.hpp>

namespace troupe {
namespace {

constexpr std::size_t kWriteChunk = 1 << 20;  // stays in the cache between checksum and write

std::span<const std::byte> bytes_of(const Tensor& tensor) { return {tensor.raw(), tensor.num_bytes()}; }

TensorEntry entry_of(const SavedTensor& tensor) {
  const Tensor& value = tensor.value;
  if (!value.valid() || !value.space().on_host())
    invalid_argument("'{}' cannot be saved: it {}", tensor.name,
                     value.valid() ? "is not in host memory" : "has no value");
  const std::int64_t own = value.shape().rank() == 0 ? 1 : value.shape()[0];
  const std::int64_t rows = tensor.rows < 0 ? own : tensor.rows;
  if (tensor.row_begin < 0 || own > rows || tensor.row_begin > rows - own || tensor.stride < 1)
    invalid_argument("'{}' cannot be saved: {} rows from row {} exceed its {} rows", tensor.name, own, tensor.row_begin,
                     rows);
  TensorEntry entry{tensor.name,   tensor.kind, tensor.variable,  value.dtype(),
                    value.shape(), rows,        tensor.row_begin, tensor.row_begin + own};
  entry.stride = tensor.stride;
  entry.listed = tensor.listed;
  if (entry.stride > 1 || entry.listed) entry.row_end = rows;
  return entry;
}

class TensorWriter {
 public:
  TensorWriter(WritableFile& file, const SaveProgress& progress, std::uint64_t total)
      : file_(file), progress_(progress), total_(total) {}

  // Writes a tensor; sets its offset and checksum in `entry`.
  void write(const Tensor& bytes, TensorEntry& entry) {
    entry.offset = offset_;
    entry.bytes = bytes.num_bytes();
    for (auto left = bytes_of(bytes); !left.empty();) {
      const auto chunk = left.first(std::min(left.size(), kWriteChunk));
      left = left.subspan(chunk.size());
      entry.crc32c = crc32c(chunk, entry.crc32c);
      file_.append(chunk);
      done_ += chunk.size();
      if (progress_) progress_(done_, total_);
    }
    offset_ += entry.bytes;
    static constexpr std::array<std::byte, kTensorAlignment> kZeros{};
    if (const std::uint64_t padding = aligned(offset_) - offset_; padding > 0)
      file_.append(std::span(kZeros).first(padding));
    offset_ = aligned(offset_);
  }
  std::uint64_t offset() const { return offset_; }

 private:
  WritableFile& file_;
  const SaveProgress& progress_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  std::uint64_t offset_ = 0;
};

void write_tensors(WritableFile& file, std::vector<SavedTensor>& tensors, const SaveProgress& progress,
                   ShardManifest& manifest) {
  std::uint64_t total = 0;
  for (SavedTensor& tensor : tensors) {
    manifest.tensors.push_back(entry_of(tensor));
    if (tensor.value.dtype() == DType::string) tensor.value = pack_strings(tensor.value);
    total += tensor.value.num_bytes();
  }
  TensorWriter writer(file, progress, total);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    writer.write(tensors[i].value, manifest.tensors[i]);
    tensors[i].value = {};
  }
  manifest.bytes = writer.offset();
}

// Removes a leftover of an incomplete save; if it cannot be removed, it is harmless.
void remove_if_possible(FileSystem& files, const std::string& path) {
  try {
    files.remove(path);
  } catch (const Error&) {
  }
}

// The folder must be empty.
void remove_folder_if_possible(FileSystem& files, const std::string& folder) {
  try {
    files.remove_directory(folder);
  } catch (const Error&) {
  }
}

void remove_other_attempts(FileSystem& files, const std::string& folder, const CheckpointManifest& manifest) {
  try {
    for (const DirectoryEntry& entry : files.list(folder)) {
      const bool named =
          std::ranges::any_of(manifest.shards, [&](const ShardManifest& s) { return s.file == entry.name; });
      if (!named && entry.name != kManifestName && !entry.is_directory)
        remove_if_possible(files, join_path(folder, entry.name));
    }
  } catch (const Error&) {
  }
}

}  // namespace

ShardManifest write_shard(FileSystem& files, const std::string& directory, const CheckpointId& id,
                          ShardContents contents, const SaveProgress& progress) {
  const std::string folder = checkpoint_folder(directory, id.version);
  ShardManifest manifest{
      contents.shard, shard_file_name(contents.shard, contents.shards, id.attempt), 0, {}, std::move(contents.dedupe)};
  const std::string path = join_path(folder, manifest.file);
  make_directories(files, folder);
  bool created = false;
  try {
    const std::unique_ptr<WritableFile> file = files.create(path);
    created = true;
    write_tensors(*file, contents.tensors, progress, manifest);
    file->sync();
    file->close();
    files.sync_directory(folder);
  } catch (...) {
    if (created) remove_if_possible(files, path);
    remove_folder_if_possible(files, folder);
    throw;
  }
  return manifest;
}

void commit_checkpoint(FileSystem& files, const std::string& directory, const CheckpointManifest& manifest) {
  const std::string folder = checkpoint_folder(directory, manifest.id.version);
  check(manifest);
  for (const ShardManifest& shard : manifest.shards) {
    const std::string path = join_path(folder, shard.file);
    if (!files.exists(path)) fail(Code::data_loss, "'{}' is missing: do all shards save to the same directory?", path);
    if (const std::uint64_t size = files.open(path)->size(); size != shard.bytes)
      fail(Code::data_loss, "'{}' has {} bytes, but its shard wrote {}", path, size, shard.bytes);
  }
  replace_file(files, join_path(folder, kManifestName), encode_manifest(manifest),
               fmt::format("{:016x}", manifest.id.attempt));
  files.sync_directory(directory);
  remove_other_attempts(files, folder, manifest);
}

}  // namespace troupe
