// Writes rows, one after the other, to files of arrays: .npy, .npz and IDX. How many there are need not be known.
//
//   ArrayWriter writer(files, "points.npz", ArrayFormat::npz, {{"x", DType::f32, {2}}, {"label", DType::i64, {}}});
//   for (const data::Element& element : elements) writer.append(element);
//   writer.finish();
//
// Until then the rows of each component lie in a file beside the path, "PATH.rows-SUFFIX.N", which is removed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/devices/storage/file_system.hpp>
#include <troupe/graph/data/batch_schema.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

enum class ArrayFormat : std::uint8_t { npy, npz, idx };

// Not thread-safe. Write nothing after an error.
class ArrayWriter {
 public:
  // Throws invalid_argument for unknown dimensions, more than one component unless it is npz, and for rows that have
  // too many dimensions; unimplemented for dtypes that the format does not have, naming the component.
  ArrayWriter(FileSystem& files, std::string path, ArrayFormat format, BatchSchema schema);
  // Without finish() nothing has changed at the path.
  ~ArrayWriter();
  ArrayWriter(const ArrayWriter&) = delete;
  ArrayWriter& operator=(const ArrayWriter&) = delete;

  // Throws invalid_argument for an element that does not fit the schema, naming its number.
  void append(std::span<const Tensor> element);
  // Writes the file durably and atomically. Call it once.
  void finish();
  std::uint64_t rows() const { return rows_; }

 private:
  struct Column;
  std::string header(const Column& column) const;
  void write_npz(WritableFile& file);

  FileSystem& files_;
  const std::string path_;
  const ArrayFormat format_;
  const BatchSchema schema_;
  std::uint64_t rows_ = 0;
  std::vector<std::unique_ptr<Column>> columns_;
};

}  // namespace troupe
