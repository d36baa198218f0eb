#include "troupe/kernels/readers/idx.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/devices/storage/file_systems.hpp>
#include <troupe/devices/storage/remote/url.hpp>

namespace troupe {
namespace {

namespace fs = std::filesystem;

using Bytes = std::span<const std::uint8_t>;

// Deflate expands a byte to at most 1032 (zlib's technical notes), which bounds the size a small file may claim.
constexpr std::size_t kMaxExpansion = 1032;

std::vector<std::uint8_t> read_idx_file(const std::string& file, std::size_t max_bytes) {
  const auto in = file_system_of(file).open(file);
  const std::uint64_t size = in->size();
  if (size > max_bytes)
    fail(Code::resource_exhausted, "{}: the file has {} bytes, more than the limit of {}", shown_path(file), size,
         max_bytes);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size));
  in->read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

// Decompresses a gzip file held in memory.
class Inflater {
 public:
  explicit Inflater(Bytes input) : input_(input) {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (inflateInit2(&stream_, kGzipOnly) != Z_OK) fail(Code::resource_exhausted, "zlib: out of memory");
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream_); }

  // Decompresses until `to` is full or the input ends; returns the bytes written. Throws data_loss with zlib's reason.
  std::size_t read(std::span<std::uint8_t> to) {
    std::size_t done = 0;
    while (done < to.size() && !ended_) {
      const std::span<std::uint8_t> chunk = to.subspan(done, std::min(to.size() - done, kChunk));
      const Bytes rest = input_.subspan(used_, std::min(input_.size() - used_, kChunk));
      stream_.next_in = const_cast<std::uint8_t*>(rest.data());
      stream_.avail_in = static_cast<uInt>(rest.size());
      stream_.next_out = chunk.data();
      stream_.avail_out = static_cast<uInt>(chunk.size());
      const int status = inflate(&stream_, Z_NO_FLUSH);
      used_ += rest.size() - stream_.avail_in;
      done += chunk.size() - stream_.avail_out;
      ended_ = status == Z_STREAM_END;
      if (status == Z_BUF_ERROR) break;  // no progress possible: end of input
      if (status != Z_OK && !ended_) {
        fail(Code::data_loss, "byte {} of the compressed file: {}", used_, stream_.msg ? stream_.msg : zError(status));
      }
    }
    return done;
  }
  // True once the end of the gzip stream, including its checksum, has been read.
  bool ended() const { return ended_; }
  std::size_t used() const { return used_; }

 private:
  static constexpr std::size_t kChunk = std::size_t{1} << 30;  // zlib counts in 32 bits
  Bytes input_;
  std::size_t used_ = 0;
  bool ended_ = false;
  z_stream stream_{};
};

// Contents of an IDX file, read in order.
class Source {
 public:
  Source(const fs::path& file, Bytes bytes) : file_(file), bytes_(bytes) {
    if (bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b) {
      inflater_.emplace(bytes);
    } else if (file.extension() == ".gz") {
      damaged(0, "not gzip data (expected bytes 1f 8b), although the name ends in .gz");
    }
  }

  // Upper bound on the bytes still to come.
  std::size_t available() const {
    return inflater_ ? (bytes_.size() - inflater_->used() + 64) * kMaxExpansion : bytes_.size() - offset_;
  }

  void read(std::span<std::uint8_t> to, std::string_view what) {
    const std::size_t got = read_some(to);
    offset_ += got;
    if (got < to.size()) {
      damaged(offset_, fmt::format("unexpected end of file: {} more bytes of {} expected", to.size() - got, what));
    }
  }

  std::uint32_t read_word(std::string_view what) {
    std::array<std::uint8_t, 4> b{};
    read(b, what);
    return std::uint32_t{b[0]} << 24 | std::uint32_t{b[1]} << 16 | std::uint32_t{b[2]} << 8 | b[3];
  }

  void expect_end() {
    std::array<std::uint8_t, 1> more{};
    if (read_some(more) > 0) damaged(offset_, "more bytes follow where the file should end");
    if (!inflater_) return;
    if (!inflater_->ended()) damaged(offset_, "the gzip data is truncated: its end and checksum are missing");
    if (inflater_->used() != bytes_.size()) {
      fail(Code::data_loss, "{}: byte {} of the compressed file: {} bytes follow the end of the gzip data",
           file_.string(), inflater_->used(), bytes_.size() - inflater_->used());
    }
  }

  [[noreturn]] void damaged(std::size_t offset, std::string_view why) const {
    fail(Code::data_loss, "{}: byte {}{}: {}", file_.string(), offset, inflater_ ? " of the decompressed data" : "",
         why);
  }

 private:
  std::size_t read_some(std::span<std::uint8_t> to) {
    if (inflater_) {
      try {
        return inflater_->read(to);
      } catch (const Error& e) {
        throw e.within(file_.string());
      }
    }
    const std::size_t count = std::min(to.size(), bytes_.size() - offset_);
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset_), count, to.begin());
    return count;
  }

  const fs::path& file_;
  Bytes bytes_;
  std::size_t offset_ = 0;
  std::optional<Inflater> inflater_;
};

Shape read_header(Source& source) {
  const std::uint32_t magic = source.read_word("the magic number");
  const std::uint32_t type = magic >> 8;
  const std::uint32_t rank = magic & 0xff;
  if (type != 0x08 || rank < 1 || rank > static_cast<std::uint32_t>(kMaxRank)) {
    source.damaged(0,
                   fmt::format("the magic number is {:08x}, expected 000008NN (an IDX file of unsigned bytes) with NN "
                               "from 01 to {:02x} dimensions",
                               magic, kMaxRank));
  }
  Shape shape = Shape::unknown(static_cast<int>(rank));
  for (int i = 0; i < shape.rank(); ++i) shape.set_dim(i, source.read_word(fmt::format("dimension {}", i)));
  return shape;
}

fs::path find_file(const fs::path& directory, const std::string& base, const std::string& kind) {
  std::string tried;
  for (const char separator : {'-', '.'}) {
    for (const char* ending : {"", ".gz"}) {
      const std::string name = base + separator + kind + ending;
      const fs::path file = directory / name;
      if (file_system_of(file.string()).exists(file.string())) return file;
      tried += (tried.empty() ? "" : ", ") + name;
    }
  }
  fail(Code::not_found, "{}: MNIST file {} not found; tried {}", directory.string(), base, tried);
}

Dataset load_pair(const fs::path& directory, const std::string& prefix) {
  const fs::path image_file = find_file(directory, prefix + "-images", "idx3-ubyte");
  const fs::path label_file = find_file(directory, prefix + "-labels", "idx1-ubyte");
  const Tensor images = read_idx(image_file);
  if (images.shape().rank() != 3 || images.shape()[1] != 28 || images.shape()[2] != 28) {
    fail(Code::data_loss, "{}: byte 4: dimensions are {}, expected [n,28,28]", image_file.string(),
         images.shape().to_string());
  }
  const Tensor labels = read_idx(label_file);
  if (labels.shape().rank() != 1 || labels.shape()[0] != images.shape()[0]) {
    fail(Code::data_loss, "{}: byte 4: dimensions are {}, expected [{}] to match the {} images in {}",
         label_file.string(), labels.shape().to_string(), images.shape()[0], images.shape()[0], image_file.string());
  }
  Dataset dataset{images.reshaped(images.shape().with_appended(1)), Tensor(DType::i32, labels.shape())};
  const auto values = labels.values<std::uint8_t>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] > 9) {
      fail(Code::data_loss, "{}: byte {}: label {} is {}, expected 0 to 9", label_file.string(), i + 8, i, values[i]);
    }
    dataset.labels.mutable_data<std::int32_t>()[i] = values[i];
  }
  return dataset;
}

}  // namespace

Tensor read_idx(const fs::path& path, std::size_t max_bytes) {
  constexpr std::size_t kHeaderRoom = 4096;
  const std::size_t max_file = std::min(max_bytes, std::numeric_limits<std::size_t>::max() / 2) + kHeaderRoom;
  const std::vector<std::uint8_t> bytes = read_idx_file(path.string(), max_file);
  const fs::path file = shown_path(path.string());
  Source source(file, bytes);
  const Shape shape = read_header(source);
  std::size_t size = 0;
  try {
    size = checked_bytes(DType::u8, shape);
  } catch (const Error& e) {
    source.damaged(4, e.message());
  }
  if (size > max_bytes) {
    fail(Code::resource_exhausted, "{}: byte 4: dimensions {} need {} bytes, more than the limit of {}", file.string(),
         shape.to_string(), size, max_bytes);
  }
  if (size > source.available()) {
    source.damaged(4, fmt::format("dimensions {} need {} bytes, but the file holds at most {}", shape.to_string(), size,
                                  source.available()));
  }
  Tensor tensor(DType::u8, shape);
  source.read({tensor.mutable_data<std::uint8_t>(), size}, "elements");
  source.expect_end();
  return tensor;
}

DataSplits load_mnist(const fs::path& directory) {
  if (scheme_of(directory.string()).empty() && !fs::is_directory(directory)) {
    fail(Code::not_found, "{}: no such directory; pass the directory with the MNIST files", directory.string());
  }
  return {load_pair(directory, "train"), load_pair(directory, "t10k")};
}

}  // namespace troupe
