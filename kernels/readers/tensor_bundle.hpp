// Tensor bundles: the files in which TensorFlow keeps the values of variables, of checkpoints and SavedModels
// (tensorflow/core/protobuf/tensor_bundle.proto and tensorflow/core/util/tensor_bundle). Of a bundle "a/b":
//
//   a/b.index                  a table (leveldb_table.hpp): from "" to a BundleHeader, from names to BundleEntries
//   a/b.data-00000-of-00002    shards: elements, row-major and little-endian, where the entries say
//
// Strings are in a shard as their lengths (varints), the masked CRC-32C of these, and their bytes.
//
// Files are untrusted: every field is checked before use, and memory is bounded by the size of the files. Errors: those
// of the file system, data_loss for malformed files, unimplemented; they name the file, the offset or the tensor, and
// what was expected.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/kernels/readers/tensor_file.hpp>

namespace troupe {

// An open bundle. Thread-safe no more than its files.
class TensorBundle {
 public:
  // Reads the index of "PREFIX.index"; shards are opened when they are first read. `files` must outlive it.
  TensorBundle(FileSystem& files, std::string prefix);

  const std::vector<TensorInfo>& tensors() const { return infos_; }  // by name
  bool has(std::string_view name) const;

  // Reads one tensor and checks its checksum. Throws not_found; unimplemented for a dtype that Troupe does not have
  // and for tensors that are saved in slices.
  Tensor read(std::string_view name);

 private:
  struct Entry {
    std::uint64_t shard = 0, offset = 0, size = 0;
    std::uint32_t crc = 0;
    bool sliced = false;
  };
  void add(const std::string& name, std::string_view entry, const std::string& index);
  std::uint64_t read_header(std::string_view header, const std::string& index) const;
  std::string shard_path(std::uint64_t shard) const;
  ReadableFile& shard(std::uint64_t number);
  Tensor read_strings(const TensorInfo& info, const Entry& entry, const std::string& file,
                      std::string_view bytes) const;

  FileSystem& files_;
  std::string prefix_;
  std::uint64_t num_shards_ = 0;
  std::vector<TensorInfo> infos_;
  std::vector<Entry> entries_;
  std::map<std::uint64_t, std::unique_ptr<ReadableFile>> shards_;
};

// Writes a bundle of one shard, each file durably and atomically, the index last. Names that come twice or are "" and
// dtypes that TensorFlow lacks are invalid arguments.
void write_tensor_bundle(FileSystem& files, const std::string& prefix, const TensorSource& source);

}  // namespace troupe
