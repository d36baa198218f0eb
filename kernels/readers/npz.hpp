// NumPy's archives of arrays, .npz: zip archives of .npy files (npy.hpp), stored or deflated, with records of 32 or 64
// bits. Arrays are named without the ending; other members are not listed.
//
// Files are untrusted: every field is checked before use, and memory is bounded by what the file's size can unpack to.
// Errors: those of the file system, data_loss for a malformed file or a wrong checksum; they name the file, the array
// and what was expected.
#pragma once

#include <memory>

#include <troupe/kernels/readers/tensor_file.hpp>

namespace troupe {

struct ZipEntry;

// An open file. Thread-safe no more than its ReadableFile.
class NpzFile {
 public:
  // Reads the directory, and the header of each array.
  NpzFile(FileSystem& files, const std::string& path);
  NpzFile(std::unique_ptr<ReadableFile> file, std::string path);
  NpzFile(NpzFile&&) noexcept;
  NpzFile& operator=(NpzFile&&) noexcept;
  ~NpzFile();

  const std::vector<TensorInfo>& tensors() const { return infos_; }  // in the order of the directory
  // Reads one array. Throws not_found; unimplemented for a dtype that Troupe does not have.
  Tensor read(std::string_view name);

 private:
  std::string path_;
  std::unique_ptr<ReadableFile> file_;
  std::vector<TensorInfo> infos_;
  std::vector<ZipEntry> entries_;  // of each tensor
};

struct NpzOptions {
  bool compress = false;
  bool zip64 = false;  // records of 64 bits also where 32 bits would do; where needed they are always used
};
// Writes durably and atomically; equal arguments make equal bytes. Throws invalid_argument for names that come twice,
// unimplemented for dtypes that NumPy does not have (bf16, strings).
void write_npz(FileSystem& files, const std::string& path, const TensorSource& source, NpzOptions options = {});
void write_npz(FileSystem& files, const std::string& path, std::span<const NamedTensor> tensors,
               NpzOptions options = {});

}  // namespace troupe
