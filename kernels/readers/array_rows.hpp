// Arrays in files whose rows are elements: where each lies, and readers of its rows.
//
// Rows are read from their place in the file where that is known: .npy, stored members of .npz, IDX. Compressed files
// and deflated members are read from their beginning. Files are untrusted: a header's sizes are compared with the file,
// and memory grows only as bytes come.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/devices/storage/file_system.hpp>
#include <troupe/kernels/readers/tensor_file.hpp>
#include <troupe/kernels/readers/zip.hpp>

namespace troupe {

struct StoredArray {
  std::string path{};
  std::string what{};  // in errors: "a.npy", "a.npz:x.npy"
  TensorInfo info{};   // named as its component; of rank 1 at least
  bool big_endian = false;
  std::uint64_t begin = 0;             // of the elements, in the file or in its member
  std::string in_order_because{};      // empty: any row can be read alone
  std::optional<ZipEntry> deflated{};  // the member that has it
  Tensor whole{};                      // of an array stored by columns, which is in memory

  std::uint64_t rows() const { return static_cast<std::uint64_t>(info.shape[0]); }
  Shape row_shape() const { return info.shape.sub(1, info.shape.rank()); }
  std::size_t row_bytes() const;
};

// Errors: those of the file system; data_loss for malformed files; unimplemented for dtypes that Troupe does not have;
// resource_exhausted for rows above 1 GiB, and for arrays stored by columns (Fortran's order) above 1 GiB;
// invalid_argument for arrays without rows, or rows without elements.
StoredArray npy_array(FileSystem& files, const std::string& path, const std::string& component);
// Those of these names, in this order; without names all, in the order of the archive.
std::vector<StoredArray> npz_arrays(FileSystem& files, const std::string& path, const std::vector<std::string>& names);
// IDX files have unsigned and signed bytes, i16, i32, f32 and f64, big-endian.
StoredArray idx_array(FileSystem& files, const std::string& path, const std::string& component);

// Reads rows in order from the one it was told. Not thread-safe.
class RowReader {
 public:
  virtual ~RowReader() = default;
  virtual void seek(std::uint64_t row) = 0;
  // The bytes of the next row as they are stored; valid until the next call.
  virtual std::string_view next() = 0;
  // After the last row: throws data_loss unless the file ends there, and its checksum is right.
  virtual void finish() {}
};

// `array` must outlive the reader.
std::unique_ptr<RowReader> open_rows(FileSystem& files, const StoredArray& array);
// Copies a row to `out` in this machine's order of bytes. Throws data_loss for bool that is neither 0 nor 1.
void copy_row(const StoredArray& array, std::uint64_t row, std::string_view bytes, std::byte* out);

}  // namespace troupe
