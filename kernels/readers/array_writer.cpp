#include "troupe/kernels/readers/array_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include <troupe/kernels/readers/idx_types.hpp>
#include <troupe/kernels/readers/npy.hpp>
#include <troupe/kernels/readers/tensor_file.hpp>
#include <troupe/kernels/readers/zip.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::size_t kColumnBuffer = std::size_t{64} << 10;

void check_component(const BatchComponent& component, ArrayFormat format, const std::string& path) {
  if (!component.shape.fully_known())
    invalid_argument("cannot write '{}': the shape of '{}' {}{} is not known", path, component.name,
                     name(component.dtype), component.shape.to_string());
  if (component.shape.rank() == kMaxRank)
    invalid_argument("cannot write '{}': rows of '{}' have {} dimensions, which leaves none for their number", path,
                     component.name, kMaxRank);
  if (format == ArrayFormat::idx) {
    if (idx_code(component.dtype) == 0)
      fail(Code::unimplemented, "cannot write '{}': IDX has no {} ('{}'): it has u8, i8, i16, i32, f32 and f64", path,
           name(component.dtype), component.name);
  } else {
    static_cast<void>(npy_header({.name = component.name, .dtype = component.dtype}, path));
  }
}

std::string idx_header(DType dtype, const Shape& shape, const std::string& path) {
  std::string out{'\0', '\0', static_cast<char>(idx_code(dtype)), static_cast<char>(shape.rank())};
  for (const std::int64_t dim : shape.dims()) {
    if (dim > std::numeric_limits<std::uint32_t>::max())
      invalid_argument("cannot write '{}': IDX has dimensions below 2^32, but {} is one", path, dim);
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(dim >> shift & 0xff);
  }
  return out;
}

}  // namespace

// The rows of a component, in a file of their own.
struct ArrayWriter::Column {
  Column(FileSystem& files, BatchComponent component, std::string path)
      : files(files), component(std::move(component)), path(std::move(path)), file(files.create(this->path)) {}
  ~Column() {
    file.reset();
    try {
      files.remove(path);
    } catch (const Error&) {  // what has failed before is told
    }
  }
  void add(const Tensor& row, bool big_endian) {
    const std::size_t at = buffer.size(), size = size_of(component.dtype);
    buffer.append(reinterpret_cast<const char*>(row.raw()), row.num_bytes());
    if (big_endian && size > 1)
      for (auto from = buffer.begin() + static_cast<std::ptrdiff_t>(at); from != buffer.end();
           from += static_cast<std::ptrdiff_t>(size))
        std::reverse(from, from + static_cast<std::ptrdiff_t>(size));
    if (buffer.size() >= kColumnBuffer) flush();
  }
  void flush() {
    file->append(std::as_bytes(std::span(buffer)));
    bytes += buffer.size();
    buffer.clear();
  }
  // Calls `take` with all bytes, in pieces.
  template <class Take>
  void each_piece(Take&& take) const {
    const auto in = files.open(path);
    std::vector<std::byte> piece(std::size_t{1} << 20);
    for (std::uint64_t at = 0; at < bytes;) {
      const auto part = std::span(piece).first(std::min<std::uint64_t>(piece.size(), bytes - at));
      in->read(at, part);
      take(part);
      at += part.size();
    }
  }

  FileSystem& files;
  const BatchComponent component;
  const std::string path;
  std::unique_ptr<WritableFile> file;
  std::string buffer{};
  std::uint64_t bytes = 0;
};

ArrayWriter::ArrayWriter(FileSystem& files, std::string path, ArrayFormat format, BatchSchema schema)
    : files_(files), path_(std::move(path)), format_(format), schema_(std::move(schema)) {
  check_schema(schema_);
  if (format_ != ArrayFormat::npz && schema_.size() != 1)
    invalid_argument("cannot write '{}': it holds one component, not {}: {}", path_, schema_.size(),
                     to_string(schema_));
  for (const BatchComponent& component : schema_) check_component(component, format_, path_);
  const std::string suffix = temporary_suffix();
  for (const BatchComponent& component : schema_)
    columns_.push_back(
        std::make_unique<Column>(files_, component, fmt::format("{}.rows-{}.{}", path_, suffix, columns_.size())));
}

ArrayWriter::~ArrayWriter() = default;

void ArrayWriter::append(std::span<const Tensor> element) {
  if (element.size() != schema_.size())
    invalid_argument("'{}': element {} has {} components, not {}", path_, rows_, element.size(), schema_.size());
  for (std::size_t i = 0; i < element.size(); ++i)
    if (element[i].dtype() != schema_[i].dtype || element[i].shape() != schema_[i].shape ||
        !element[i].space().on_host())
      invalid_argument("'{}': '{}' of element {} is {}{}, but those before are {}{}: arrays have rows of one shape",
                       path_, schema_[i].name, rows_, name(element[i].dtype()), element[i].shape().to_string(),
                       name(schema_[i].dtype), schema_[i].shape.to_string());
  for (std::size_t i = 0; i < element.size(); ++i) columns_[i]->add(element[i], format_ == ArrayFormat::idx);
  ++rows_;
}

std::string ArrayWriter::header(const Column& column) const {
  const Shape shape = column.component.batch_shape(static_cast<std::int64_t>(rows_));
  if (format_ == ArrayFormat::idx) return idx_header(column.component.dtype, shape, path_);
  return npy_header({.name = column.component.name, .dtype = column.component.dtype, .shape = shape}, path_);
}

void ArrayWriter::write_npz(WritableFile& file) {
  ZipWriter zip(file, path_, {});
  for (const auto& column : columns_) {
    const std::string head = header(*column);
    std::uint32_t crc = zip_crc(0, std::as_bytes(std::span(head)));
    column->each_piece([&](std::span<const std::byte> piece) { crc = zip_crc(crc, piece); });
    zip.add(column->component.name + ".npy", head, column->bytes, crc,
            [&](WritableFile& to) { column->each_piece([&](std::span<const std::byte> piece) { to.append(piece); }); });
  }
  zip.finish();
}

void ArrayWriter::finish() {
  for (const auto& column : columns_) {
    column->flush();
    column->file->close();
  }
  const auto write = [&](WritableFile& file) {
    if (format_ == ArrayFormat::npz) return write_npz(file);
    const std::string head = header(*columns_[0]);
    file.append(std::as_bytes(std::span(head)));
    columns_[0]->each_piece([&](std::span<const std::byte> piece) { file.append(piece); });
  };
  replace_file(files_, path_, write, temporary_suffix());
}

}  // namespace troupe
