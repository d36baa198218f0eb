// Reader of IDX files, the format of MNIST (http://yann.lecun.com/exdb/mnist), plain or compressed with gzip:
//   two zero bytes, a type (0x08: unsigned byte), the number of dimensions, each dimension as 32 bits
//   big-endian, elements.
//
// Files are untrusted: every field is checked before use, and every size before allocation. Errors (those of
// FileSystem, data_loss for a malformed file) name the file, the byte and what was expected. Paths may be of any scheme
// (file_system_of()).
#pragma once

#include <cstddef>
#include <filesystem>

#include <troupe/kernels/readers/dataset.hpp>

namespace troupe {

inline constexpr std::size_t kMaxIdxBytes = std::size_t{1} << 32;  // of elements, by default

// Returns the elements of a file of unsigned bytes: u8, in the shape given by the file. Compression is detected from
// the contents.
Tensor read_idx(const std::filesystem::path& file, std::size_t max_bytes = kMaxIdxBytes);

// Loads the four files of MNIST (or of a data set in the same format) from `directory`: train-images-idx3-ubyte,
// train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte; each may end in .gz, and may be spelled
// train-images.idx3-ubyte. Images must be 28 x 28, labels 0 to 9, and their numbers must match.
DataSplits load_mnist(const std::filesystem::path& directory);

}  // namespace troupe
