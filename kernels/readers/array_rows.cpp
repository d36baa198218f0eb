#include "troupe/kernels/readers/array_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/kernels/readers/byte_stream.hpp>
#include <troupe/kernels/readers/idx_types.hpp>
#include <troupe/kernels/readers/npy.hpp>
#include <troupe/kernels/readers/npz.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::uint64_t kMostRowBytes = std::uint64_t{1} << 30, kMostWholeBytes = std::uint64_t{1} << 30;
// Deflate expands a byte to at most 1032 (zlib's technical notes).
constexpr std::uint64_t kArrayExpansion = 1032;
constexpr std::size_t kRowPiece = std::size_t{1} << 20;  // of a row, read at a time from a deflated member

void check_rows(const StoredArray& array) {
  if (array.info.shape.rank() == 0)
    invalid_argument("'{}': is a scalar: an array whose rows are elements has at least one dimension", array.what);
  const Shape row = array.row_shape();
  try {
    static_cast<void>(checked_bytes(array.info.dtype, row));
  } catch (const Error& error) {
    fail(Code::data_loss, "'{}': a row: {}", array.what, error.message());
  }
  if (array.rows() > 0 && row.num_elements() == 0)
    invalid_argument("'{}': its rows {} have no elements", array.what, row.to_string());
  if (array.rows() > 0 && array.row_bytes() > kMostRowBytes)
    fail(Code::resource_exhausted, "'{}': a row {} has {} bytes; the limit is {}", array.what, row.to_string(),
         array.row_bytes(), kMostRowBytes);
}

// Rows at their place in a file, or behind each other in a compressed one.
class StreamedRows final : public RowReader {
 public:
  StreamedRows(FileSystem& files, const StoredArray& array)
      : array_(array), row_bytes_(array.row_bytes()), bytes_(files, array.path) {
    bytes_.seek(array.begin);
  }
  void seek(std::uint64_t row) override {
    pending_ = 0;
    bytes_.seek(array_.begin + row * row_bytes_);
  }
  std::string_view next() override {
    bytes_.skip(pending_);
    pending_ = 0;
    const std::string_view seen = bytes_.peek(row_bytes_);
    if (seen.size() < row_bytes_)
      fail(Code::data_loss, "'{}': ends at byte {}, within a row of {} bytes", array_.what,
           bytes_.offset() + seen.size(), row_bytes_);
    pending_ = row_bytes_;
    return seen.substr(0, row_bytes_);
  }
  void finish() override {
    bytes_.skip(pending_);
    pending_ = 0;
    // Else the header has been compared with the file, and an archive has other members behind this one.
    if (bytes_.compression() != Compression::none && !bytes_.at_end())
      fail(Code::data_loss, "'{}': byte {}: more bytes follow where the array should end", array_.what,
           bytes_.offset());
  }

 private:
  const StoredArray& array_;
  const std::size_t row_bytes_;
  ByteStream bytes_;
  std::size_t pending_ = 0;
};

class DeflatedRows final : public RowReader {
 public:
  DeflatedRows(FileSystem& files, const StoredArray& array)
      : array_(array), shown_(shown_path(array.path)), file_(files.open(array.path)) {
    begin();
  }
  void seek(std::uint64_t row) override {
    if (row < row_) begin();
    while (row_ < row) next();
  }
  std::string_view next() override {
    read(array_.row_bytes());
    ++row_;
    return row_view();
  }
  void finish() override { member_->finish(); }

 private:
  void begin() {
    member_.emplace(*file_, *array_.deflated, shown_);
    read(array_.begin);
    row_ = 0;
  }
  std::string_view row_view() const { return {buffer_.data(), buffer_.size()}; }
  // Memory grows as bytes come.
  void read(std::size_t bytes) {
    buffer_.resize(std::min(bytes, std::max(buffer_.size(), kRowPiece)));
    for (std::size_t done = 0; done < bytes;) {
      const std::size_t piece = std::min(bytes - done, kRowPiece);
      if (buffer_.size() < done + piece) buffer_.resize(std::min(bytes, 2 * buffer_.size()));
      member_->read(std::as_writable_bytes(std::span(buffer_).subspan(done, piece)));
      done += piece;
    }
  }

  const StoredArray& array_;
  const std::string shown_;
  const std::unique_ptr<ReadableFile> file_;
  std::optional<ZipMember> member_;
  std::uint64_t row_ = 0;
  std::vector<char> buffer_;
};

class RowsInMemory final : public RowReader {
 public:
  explicit RowsInMemory(const StoredArray& array) : array_(array) {}
  void seek(std::uint64_t row) override { row_ = row; }
  std::string_view next() override {
    const std::size_t bytes = array_.row_bytes();
    return {reinterpret_cast<const char*>(array_.whole.raw()) + bytes * row_++, bytes};
  }

 private:
  const StoredArray& array_;
  std::uint64_t row_ = 0;
};

// Takes what a header of NumPy's says. Returns whether the array is stored by columns.
bool take_npy_header(StoredArray& array, const NpyHeader& header) {
  const std::string component = std::move(array.info.name);
  array.info = header.info;
  array.info.name = component;
  check_npy_dtype(array.info, array.what);
  array.begin = header.header_bytes;
  array.big_endian = header.big_endian;
  const bool by_columns = header.column_major && array.info.shape.rank() > 1 && header.element_bytes > 0;
  if (by_columns && header.element_bytes > kMostWholeBytes)
    fail(Code::resource_exhausted,
         "'{}': {} bytes are stored by columns (fortran_order); the limit is {}: save numpy.ascontiguousarray(x)",
         array.what, header.element_bytes, kMostWholeBytes);
  return by_columns;
}

void keep_in_memory(StoredArray& array, Tensor tensor) {
  array.whole = std::move(tensor);
  array.big_endian = false;
  array.deflated.reset();
  array.in_order_because.clear();
}

}  // namespace

std::size_t StoredArray::row_bytes() const {
  return static_cast<std::size_t>(row_shape().num_elements()) * size_of(info.dtype);
}

StoredArray npy_array(FileSystem& files, const std::string& path, const std::string& component) {
  const std::string shown = shown_path(path);
  StoredArray array{.path = path, .what = shown, .info = {.name = component}};
  ByteStream bytes(files, path);
  const auto read = [&](std::span<std::byte> out) {
    const std::string_view seen = bytes.peek(out.size());
    if (seen.size() < out.size())
      fail(Code::data_loss, "'{}': not an .npy file: it ends at byte {}", shown, bytes.offset() + seen.size());
    std::memcpy(out.data(), seen.data(), out.size());
    bytes.skip(out.size());
  };
  std::optional<std::uint64_t> size;
  if (bytes.compression() == Compression::none) size = files.open(path)->size();
  const bool by_columns = take_npy_header(array, read_npy_header(read, size, shown));
  if (!size) array.in_order_because = fmt::format("'{}' is compressed ({})", shown, name(bytes.compression()));
  check_rows(array);
  if (by_columns && !size)
    fail(Code::unimplemented,
         "'{}': is compressed and stored by columns (fortran_order): decompress it, or save numpy.ascontiguousarray(x)",
         shown);
  if (by_columns) keep_in_memory(array, read_npy(files, path));
  return array;
}

std::vector<StoredArray> npz_arrays(FileSystem& files, const std::string& path, const std::vector<std::string>& names) {
  const std::string shown = shown_path(path);
  NpzFile archive(files, path);
  std::vector<std::string> wanted = names;
  if (wanted.empty())
    for (const TensorInfo& info : archive.tensors()) wanted.push_back(info.name);
  const auto file = files.open(path);
  const std::vector<ZipEntry> entries = read_zip_directory(*file, shown);
  std::vector<StoredArray> out;
  for (const std::string& name : wanted) {
    static_cast<void>(index_of(archive.tensors(), name, shown));
    const auto entry = std::ranges::find(entries, name + ".npy", &ZipEntry::name);
    StoredArray array{.path = path, .what = shown + ":" + entry->name, .info = {.name = name}};
    ZipMember member(*file, *entry, shown);
    const auto read = [&](std::span<std::byte> bytes) { member.read(bytes); };
    const bool by_columns = take_npy_header(array, read_npy_header(read, entry->size, array.what));
    if (member.stored()) {
      array.begin += member.packed_begin();
    } else {
      array.deflated = *entry;
      array.in_order_because = fmt::format("'{}' is deflated", array.what);
    }
    check_rows(array);
    if (by_columns) keep_in_memory(array, archive.read(name));
    out.push_back(std::move(array));
  }
  return out;
}

StoredArray idx_array(FileSystem& files, const std::string& path, const std::string& component) {
  const std::string shown = shown_path(path);
  StoredArray array{.path = path, .what = shown, .info = {.name = component}, .big_endian = true};
  ByteStream bytes(files, path);
  const auto word = [&](std::string_view what) {
    const std::string_view seen = bytes.peek(4);
    if (seen.size() < 4)
      fail(Code::data_loss, "'{}': byte {}: the file ends within {}", shown, bytes.offset() + seen.size(), what);
    std::uint32_t out = 0;
    for (int i = 0; i < 4; ++i) out = out << 8 | static_cast<unsigned char>(seen[static_cast<std::size_t>(i)]);
    bytes.skip(4);
    return out;
  };
  const std::uint32_t magic = word("the magic number"), rank = magic & 0xff;
  const auto type = std::ranges::find(kIdxTypes, magic >> 8, &IdxType::code);
  if (type == kIdxTypes.end() || rank < 1 || rank > static_cast<std::uint32_t>(kMaxRank))
    fail(Code::data_loss,
         "'{}': byte 0: the magic number is {:08x}, expected 0000TTNN: TT a type (08, 09, 0b to 0e) and NN from 01 to "
         "{:02x} dimensions",
         shown, magic, kMaxRank);
  array.info.dtype = type->dtype;
  array.info.stored_type = fmt::format("{:02x}", type->code);
  array.info.shape = Shape::unknown(static_cast<int>(rank));
  for (int d = 0; d < array.info.shape.rank(); ++d) array.info.shape.set_dim(d, word(fmt::format("dimension {}", d)));
  array.begin = bytes.offset();
  std::uint64_t size = 0;
  try {
    size = checked_bytes(array.info.dtype, array.info.shape);
  } catch (const Error& error) {
    fail(Code::data_loss, "'{}': byte 4: {}", shown, error.message());
  }
  const std::uint64_t file_size = files.open(path)->size();
  const std::string dims = std::string(name(array.info.dtype)) + array.info.shape.to_string();
  if (bytes.compression() == Compression::none) {
    if (size != file_size - array.begin)
      fail(Code::data_loss, "'{}': byte {}: {} needs {} bytes, but {} follow the header", shown, array.begin, dims,
           size, file_size - array.begin);
  } else {
    array.in_order_because = fmt::format("'{}' is compressed ({})", shown, name(bytes.compression()));
    if (bytes.compression() == Compression::gzip && size / kArrayExpansion > file_size)
      fail(Code::data_loss, "'{}': byte 4: {} needs {} bytes, but {} compressed ones cannot unpack to that", shown,
           dims, size, file_size);
  }
  check_rows(array);
  return array;
}

std::unique_ptr<RowReader> open_rows(FileSystem& files, const StoredArray& array) {
  if (array.whole.valid()) return std::make_unique<RowsInMemory>(array);
  if (array.deflated) return std::make_unique<DeflatedRows>(files, array);
  return std::make_unique<StreamedRows>(files, array);
}

void copy_row(const StoredArray& array, std::uint64_t row, std::string_view bytes, std::byte* out) {
  std::memcpy(out, bytes.data(), bytes.size());
  const std::size_t size = size_of(array.info.dtype);
  if (array.big_endian && size > 1)
    for (std::size_t at = 0; at < bytes.size(); at += size) std::reverse(out + at, out + at + size);
  if (array.info.dtype != DType::boolean) return;
  for (std::size_t at = 0; at < bytes.size(); ++at)
    if (static_cast<unsigned char>(bytes[at]) > 1)
      fail(Code::data_loss, "'{}': element {} of row {} is {}, neither 0 nor 1", array.what, at, row,
           static_cast<unsigned>(static_cast<unsigned char>(bytes[at])));
}

}  // namespace troupe
