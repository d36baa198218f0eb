// Files of Hugging Face's safetensors (https://github.com/huggingface/safetensors, README "Format"):
//   8 bytes little-endian: n; n bytes of JSON: {"name": {"dtype": "F32", "shape": [2,3], "data_offsets": [0,24]}, ...,
//   "__metadata__": {"key": "text", ...}}; the elements, row-major and little-endian, at these offsets behind it.
//
// Files are untrusted: every field is checked before use, and memory is bounded by the size of the file. Errors:
// those of the file system, data_loss for a malformed file; they name the file, the tensor and what was expected.
#pragma once

#include <map>
#include <memory>

#include <troupe/kernels/readers/tensor_file.hpp>

namespace troupe {

// An open file. Thread-safe no more than its ReadableFile.
class SafetensorsFile {
 public:
  // Reads the header.
  SafetensorsFile(FileSystem& files, const std::string& path);
  SafetensorsFile(std::unique_ptr<ReadableFile> file, std::string path);

  const std::vector<TensorInfo>& tensors() const { return infos_; }  // by place in the file
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // Maps the file where its file system can (ReadableFile::map): read() then gives views of it, of the tensors that
  // begin at a multiple of 64 bytes. Returns whether the file is mapped.
  bool map();

  // Reads one tensor. Throws not_found; unimplemented for a dtype that Troupe does not have (8-bit floats).
  Tensor read(std::string_view name);

 private:
  std::string path_;
  std::unique_ptr<ReadableFile> file_;
  std::vector<TensorInfo> infos_;
  std::vector<std::uint64_t> begins_;  // of each tensor in the file
  BufferRef mapped_;                   // the file; none: not mapped
  std::map<std::string, std::string> metadata_;
};

using SafetensorsMetadata = std::map<std::string, std::string>;

// Writes durably and atomically. Elements begin at a multiple of 64 bytes, as the header ends with spaces. First come
// the tensors of a multiple of 64 bytes, so that they can be mapped; the format has no gaps. In both parts they lie by
// size of their elements, then by bytes, the greatest first, then by name: each is aligned to its elements. Equal
// arguments make equal bytes. Throws invalid_argument for names that come twice or are "__metadata__", text that is not
// UTF-8, tensors of strings.
void write_safetensors(FileSystem& files, const std::string& path, const TensorSource& source,
                       const SafetensorsMetadata& metadata = {});
void write_safetensors(FileSystem& files, const std::string& path, std::span<const NamedTensor> tensors,
                       const SafetensorsMetadata& metadata = {});

}  // namespace troupe
