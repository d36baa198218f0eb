// NumPy's array files, .npy (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html): a magic string, a
// version, a text header with dtype, order and shape, the elements.
//
// Reads versions 1 to 3, both orders of bytes and both of dimensions; writes version 1, little-endian and
// row-major. bf16 and strings have no dtype of NumPy's own, complex numbers, times and records none of
// Troupe's: unimplemented. Files are untrusted: every field is checked before use. Errors name the file, the byte and
// what was expected: those of the file system, data_loss for a malformed file.
#pragma once

#include <optional>

#include <troupe/kernels/readers/tensor_file.hpp>

namespace troupe {

Tensor read_npy(FileSystem& files, const std::string& path);
// Writes durably and atomically.
void write_npy(FileSystem& files, const std::string& path, const Tensor& tensor);

// Bytes in order, from a file or a decompressor.
using ReadBytes = FunctionRef<void(std::span<std::byte> out)>;

struct NpyHeader {
  TensorInfo info{};  // without a name
  bool big_endian = false;
  bool column_major = false;
  std::uint64_t header_bytes = 0;   // before the elements
  std::uint64_t element_bytes = 0;  // of all of them; 0 for a dtype that Troupe does not have
};
// `what` is the name in errors. `size`: the bytes of header and elements, which must be all there are; nullopt:
// unknown, of a file that is compressed.
NpyHeader read_npy_header(ReadBytes read, std::optional<std::uint64_t> size, const std::string& what);
// Throws unimplemented for a dtype that Troupe does not have, naming it.
void check_npy_dtype(const TensorInfo& info, const std::string& what);
// The elements, behind the header.
Tensor read_npy_elements(const NpyHeader& header, ReadBytes read, const std::string& what);
// Throws unimplemented for a dtype that NumPy does not have.
std::string npy_header(const TensorInfo& info, const std::string& what);

}  // namespace troupe
