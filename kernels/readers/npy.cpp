#include "troupe/kernels/readers/npy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr std::uint64_t kNpyPreamble = 8;         // magic and version
constexpr std::uint64_t kMaxNpyHeader = 1 << 20;  // of text; NumPy's own limit is 10,000 bytes
constexpr std::uint64_t kNpyAlignment = 64;       // of the elements in the file

struct NpyType {
  std::string_view text;  // without the order of bytes
  DType dtype;
};
constexpr std::array kNpyTypes = {NpyType{"f4", DType::f32}, NpyType{"f8", DType::f64}, NpyType{"f2", DType::f16},
                                  NpyType{"i1", DType::i8},  NpyType{"u1", DType::u8},  NpyType{"i2", DType::i16},
                                  NpyType{"i4", DType::i32}, NpyType{"i8", DType::i64}, NpyType{"u2", DType::u16},
                                  NpyType{"u4", DType::u32}, NpyType{"u8", DType::u64}, NpyType{"b1", DType::boolean}};

// The header is a literal of Python: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
class LiteralReader {
 public:
  LiteralReader(std::string_view text, const std::string& what) : text_(text), what_(what) {}

  NpyHeader read() {
    NpyHeader out;
    bool has_type = false, has_order = false, has_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr" && !has_type) {
        has_type = true;
        read_type(out);
      } else if (key == "fortran_order" && !has_order) {
        has_order = true;
        out.column_major = boolean();
      } else if (key == "shape" && !has_shape) {
        has_shape = true;
        out.info.shape = shape();
      } else {
        damaged("an unexpected key '{}'", key);
      }
      if (!accept(',') && !is_next('}')) damaged("no ',' or '}}' at character {}", at_);
    }
    skip_space();
    if (at_ != text_.size()) damaged("more text behind the header's '}}'");
    if (!has_type || !has_order || !has_shape) damaged("it needs 'descr', 'fortran_order' and 'shape'");
    return out;
  }

 private:
  template <class... Args>
  [[noreturn]] void damaged(fmt::format_string<Args...> format, Args&&... args) const {
    fail(Code::data_loss, "'{}': .npy header: {}", what_, fmt::format(format, std::forward<Args>(args)...));
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  bool is_next(char c) {
    skip_space();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool accept(char c) {
    const bool found = is_next(c);
    if (found) ++at_;
    return found;
  }
  void expect(char c) {
    if (!accept(c)) damaged("no '{}' at character {}", c, at_);
  }
  std::string string() {
    const char quote = is_next('"') ? '"' : '\'';
    expect(quote);
    const std::size_t end = text_.find(quote, at_);
    if (end == text_.npos) damaged("a string at character {} does not end", at_);
    const std::string out(text_.substr(at_, end - at_));
    at_ = end + 1;
    return out;
  }
  bool boolean() {
    skip_space();
    for (const std::string_view word : {"True", "False"})
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return word == "True";
      }
    damaged("'fortran_order' is neither True nor False");
  }
  Shape shape() {
    std::vector<std::int64_t> dims;
    expect('(');
    while (!accept(')')) {
      skip_space();
      std::int64_t dim = 0;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), dim);
      if (error != std::errc() || dim < 0) damaged("no dimension at character {}", at_);
      at_ = static_cast<std::size_t>(end - text_.data());
      accept('L');  // as Python 2 wrote long integers
      dims.push_back(dim);
      if (dims.size() > static_cast<std::size_t>(kMaxRank))
        damaged("more dimensions than Troupe has: at most {}", kMaxRank);
      if (!accept(',') && !is_next(')')) damaged("no ',' or ')' at character {}", at_);
    }
    return Shape(std::span<const std::int64_t>(dims));
  }
  void read_type(NpyHeader& out) {
    if (!is_next('\'') && !is_next('"'))
      fail(Code::unimplemented, "'{}': arrays of records are not supported: save their fields as arrays", what_);
    const std::string text = string();
    out.info.stored_type = text;
    if (text.size() < 2) damaged("the dtype '{}' is none of NumPy's", text);
    const auto type = std::ranges::find(kNpyTypes, std::string_view(text).substr(1), &NpyType::text);
    const char order = text[0];
    if (type == kNpyTypes.end()) return;
    if (order != '<' && order != '>' && order != '|' && order != '=')
      damaged("the dtype '{}' is none of NumPy's", text);
    out.info.dtype = type->dtype;
    out.big_endian = order == '>' && size_of(type->dtype) > 1;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  const std::string& what_;
};

void swap_npy_bytes(Tensor& tensor) {
  const std::size_t size = size_of(tensor.dtype());
  std::byte* at = tensor.mutable_raw();
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i, at += size) std::reverse(at, at + size);
}

// x has the elements of a tensor of `shape` with the first dimension varying fastest.
Tensor npy_row_major(const Tensor& x, const Shape& shape) {
  Tensor y(x.dtype(), shape);
  const int rank = shape.rank();
  const std::size_t size = size_of(x.dtype());
  std::array<std::int64_t, kMaxRank> strides{}, at{};
  std::int64_t stride = 1;
  for (int d = 0; d < rank; ++d) {
    strides[static_cast<std::size_t>(d)] = stride;
    stride *= shape[d];
  }
  std::int64_t from = 0;
  for (std::int64_t i = 0; i < x.num_elements(); ++i) {
    std::copy_n(x.raw() + static_cast<std::size_t>(from) * size, size,
                y.mutable_raw() + static_cast<std::size_t>(i) * size);
    for (int d = rank - 1; d >= 0; --d) {
      const auto k = static_cast<std::size_t>(d);
      from += strides[k];
      if (++at[k] < shape[d]) break;
      from -= strides[k] * shape[d];
      at[k] = 0;
    }
  }
  return y;
}

}  // namespace

NpyHeader read_npy_header(ReadBytes read, std::optional<std::uint64_t> known_size, const std::string& what) {
  const std::uint64_t size = known_size.value_or(std::numeric_limits<std::uint64_t>::max());
  std::array<std::uint8_t, 12> start{};
  const auto bytes = std::as_writable_bytes(std::span(start));
  if (size < 10) fail(Code::data_loss, "'{}': not an .npy file: it has {} bytes", what, size);
  read(bytes.first(10));
  if (!std::equal(kNpyMagic.begin(), kNpyMagic.end(), reinterpret_cast<const char*>(start.data())))
    fail(Code::data_loss, "'{}': byte 0: not an .npy file: its magic number is missing", what);
  const int version = start[6];
  if (version < 1 || version > 3)
    fail(Code::unimplemented, "'{}': byte 6: .npy version {}.{}; Troupe reads 1 to 3", what, version, start[7]);
  std::uint64_t length = start[8] | start[9] << 8, before = kNpyPreamble + 2;
  if (version > 1) {
    if (size < 12) fail(Code::data_loss, "'{}': not an .npy file: it has {} bytes", what, size);
    read(bytes.subspan(10, 2));
    length |= static_cast<std::uint64_t>(start[10]) << 16 | static_cast<std::uint64_t>(start[11]) << 24;
    before += 2;
  }
  if (length > kMaxNpyHeader || length > size - before)
    fail(Code::data_loss, "'{}': byte 8: a header of {} bytes does not fit a file of {} (at most {})", what, length,
         size, kMaxNpyHeader);
  std::string text(length, '\0');
  read(std::as_writable_bytes(std::span(text)));
  NpyHeader header = LiteralReader(text, what).read();
  header.header_bytes = before + length;
  if (header.info.dtype == DType::invalid) return header;
  try {
    header.element_bytes = checked_bytes(header.info.dtype, header.info.shape);
  } catch (const Error& error) {
    fail(Code::data_loss, "'{}': .npy header: {}", what, error.message());
  }
  if (known_size && header.element_bytes != size - header.header_bytes)
    fail(Code::data_loss, "'{}': byte {}: {}{} needs {} bytes, but {} follow the header", what, header.header_bytes,
         header.info.stored_type, header.info.shape.to_string(), header.element_bytes, size - header.header_bytes);
  return header;
}

void check_npy_dtype(const TensorInfo& info, const std::string& what) {
  if (info.dtype == DType::invalid)
    fail(Code::unimplemented, "'{}': Troupe has no dtype for NumPy's '{}': convert the array{}", what, info.stored_type,
         info.stored_type.ends_with("V2") ? "; bf16 can be in safetensors" : "");
}

Tensor read_npy_elements(const NpyHeader& header, ReadBytes read, const std::string& what) {
  const TensorInfo& info = header.info;
  check_npy_dtype(info, what);
  const bool transposed = header.column_major && info.shape.rank() > 1;
  Tensor tensor(info.dtype, info.shape);
  read({tensor.mutable_raw(), tensor.num_bytes()});
  if (header.big_endian) swap_npy_bytes(tensor);
  check_booleans(tensor, what, info.name);
  return transposed ? npy_row_major(tensor, info.shape) : tensor;
}

std::string npy_header(const TensorInfo& info, const std::string& what) {
  const auto type = std::ranges::find(kNpyTypes, info.dtype, &NpyType::dtype);
  if (type == kNpyTypes.end())
    fail(Code::unimplemented, "cannot write '{}': NumPy has no dtype for tensor '{}' of {}{}", what, info.name,
         name(info.dtype), info.dtype == DType::bf16 ? ": use safetensors, or cast it to f32" : "");
  std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                 size_of(info.dtype) == 1 ? '|' : '<', type->text, fmt::join(info.shape.dims(), ", "),
                                 info.shape.rank() == 1 ? "," : "");
  // Spaces and a line's end, so that the elements are aligned. kMaxRank dimensions fit version 1.
  const std::size_t before = kNpyPreamble + 2;
  text.append(kNpyAlignment - 1 - (before + text.size()) % kNpyAlignment, ' ');
  text += '\n';
  std::string out(kNpyMagic);
  out += {1, 0, static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return out + text;
}

Tensor read_npy(FileSystem& files, const std::string& path) {
  const std::unique_ptr<ReadableFile> file = files.open(path);
  std::uint64_t at = 0;
  const auto read = [&](std::span<std::byte> out) {
    file->read(at, out);
    at += out.size();
  };
  const std::string shown = shown_path(path);
  const NpyHeader header = read_npy_header(read, file->size(), shown);
  return read_npy_elements(header, read, shown);
}

void write_npy(FileSystem& files, const std::string& path, const Tensor& tensor) {
  const std::string header = npy_header({.name = path, .dtype = tensor.dtype(), .shape = tensor.shape()}, path);
  if (!tensor.space().on_host()) invalid_argument("cannot write '{}': the tensor is not on the host", path);
  const auto write = [&](WritableFile& file) {
    file.append(std::as_bytes(std::span(header)));
    file.append({tensor.raw(), tensor.num_bytes()});
  };
  replace_file(files, path, write, temporary_suffix());
}

}  // namespace troupe
