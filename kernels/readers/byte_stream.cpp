#include "troupe/kernels/readers/byte_stream.hpp"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::size_t kWindow = 256 << 10;   // read at a time
constexpr std::size_t kAfterSeek = 4 << 10;  // at first
constexpr std::size_t kPacked = 64 << 10;    // of compressed bytes
// Of zstd: frames that need a larger window of past data are refused, as by its own tool by default.
constexpr int kZstdWindowLog = 27;

}  // namespace

std::string_view name(Compression compression) {
  switch (compression) {
    case Compression::none:
      return "none";
    case Compression::gzip:
      return "gzip";
    case Compression::zstd:
      return "zstd";
  }
  return "?";
}

class ByteStream::Source {
 public:
  Source(std::unique_ptr<ReadableFile> file, const std::string& path)
      : file_(std::move(file)), path_(path), size_(file_->size()) {}
  virtual ~Source() = default;
  // Returns how many bytes it wrote; 0: the end.
  virtual std::size_t read(std::span<char> out) = 0;

 protected:
  std::size_t read_file(std::span<char> out) {
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), size_ - at_));
    if (n > 0) file_->read(at_, std::as_writable_bytes(out.first(n)));
    at_ += n;
    return n;
  }

  std::unique_ptr<ReadableFile> file_;
  const std::string& path_;
  const std::uint64_t size_;
  std::uint64_t at_ = 0;  // the next byte of the file to read
};

class ByteStream::PlainSource final : public Source {
 public:
  using Source::Source;
  std::size_t read(std::span<char> out) override { return read_file(out); }
  std::uint64_t size() const { return size_; }
  void go_to(std::uint64_t offset) { at_ = offset; }
};

class ByteStream::GzipSource final : public Source {
 public:
  GzipSource(std::unique_ptr<ReadableFile> file, const std::string& path) : Source(std::move(file), path) {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (inflateInit2(&stream_, kGzipOnly) != Z_OK) fail(Code::resource_exhausted, "zlib: out of memory");
  }
  ~GzipSource() override { inflateEnd(&stream_); }

  std::size_t read(std::span<char> out) override {
    const auto most = static_cast<uInt>(std::min<std::size_t>(out.size(), 1u << 30));
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = most;
    while (stream_.avail_out == most && more()) {
      const int status = inflate(&stream_, Z_NO_FLUSH);
      if (status == Z_STREAM_END)
        between_ = true;
      else if (status != Z_OK && status != Z_BUF_ERROR)
        fail(Code::data_loss, "{}: before byte {}: gzip: {}", path_, at_ - stream_.avail_in,
             stream_.msg ? stream_.msg : "cannot be decompressed");
    }
    return most - stream_.avail_out;
  }

 private:
  // Whether there are compressed bytes. Data behind a member's end begins another.
  bool more() {
    if (stream_.avail_in == 0) {
      const std::size_t n = read_file(packed_);
      stream_.next_in = reinterpret_cast<Bytef*>(packed_.data());
      stream_.avail_in = static_cast<uInt>(n);
      if (n == 0 && !between_)
        fail(Code::data_loss, "{}: the file ends within compressed data, at byte {}", path_, at_);
      if (n == 0) return false;
    }
    if (between_) inflateReset(&stream_);
    between_ = false;
    return true;
  }

  z_stream stream_{};
  bool between_ = false;  // members
  std::vector<char> packed_ = std::vector<char>(kPacked);
};

class ByteStream::ZstdSource final : public Source {
 public:
  ZstdSource(std::unique_ptr<ReadableFile> file, const std::string& path)
      : Source(std::move(file), path), stream_(ZSTD_createDStream(), &ZSTD_freeDStream) {
    if (!stream_) fail(Code::resource_exhausted, "zstd: out of memory");
    ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kZstdWindowLog);
  }

  std::size_t read(std::span<char> out) override {
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    while (to.pos == 0) {
      if (in_.pos == in_.size && !pending_) {
        in_ = {packed_.data(), read_file(packed_), 0};
        if (in_.size == 0 && !between_)
          fail(Code::data_loss, "{}: the file ends within compressed data, at byte {}", path_, at_);
        if (in_.size == 0) return 0;
      }
      const std::size_t status = ZSTD_decompressStream(stream_.get(), &to, &in_);
      if (ZSTD_isError(status))
        fail(Code::data_loss, "{}: before byte {}: zstd: {}", path_, at_ - (in_.size - in_.pos),
             ZSTD_getErrorName(status));
      between_ = status == 0;
      pending_ = to.pos == to.size && !between_;
    }
    return to.pos;
  }

 private:
  std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream_;
  ZSTD_inBuffer in_{};
  bool between_ = false;  // frames
  bool pending_ = false;  // output may be left without more input
  std::vector<char> packed_ = std::vector<char>(kPacked);
};

ByteStream::ByteStream(FileSystem& files, std::string path)
    : files_(&files), path_(std::move(path)), shown_(shown_path(path_)) {
  open();
}
ByteStream::~ByteStream() = default;

void ByteStream::open() {
  constexpr std::string_view kGzip = "\x1f\x8b", kZstd = "\x28\xb5\x2f\xfd";
  auto file = files_->open(path_);
  char first[4] = {};
  const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(sizeof first, file->size()));
  file->read(0, std::as_writable_bytes(std::span(first, n)));
  const std::string_view magic(first, n);
  compression_ = magic.starts_with(kGzip)   ? Compression::gzip
                 : magic.starts_with(kZstd) ? Compression::zstd
                                            : Compression::none;
  switch (compression_) {
    case Compression::none:
      source_ = std::make_unique<PlainSource>(std::move(file), shown_);
      break;
    case Compression::gzip:
      source_ = std::make_unique<GzipSource>(std::move(file), shown_);
      break;
    case Compression::zstd:
      source_ = std::make_unique<ZstdSource>(std::move(file), shown_);
      break;
  }
  begin_ = end_ = 0;
  offset_ = 0;
  ended_ = false;
  at_once_ = kWindow;
}

std::string_view ByteStream::peek(std::size_t wanted) {
  while (end_ - begin_ < wanted && !ended_) {
    if (begin_ > 0 && (begin_ == end_ || window_.size() - begin_ < wanted)) {
      std::memmove(window_.data(), window_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    // Grows as bytes come: a length in a damaged file must not allocate.
    if (end_ == window_.size()) window_.resize(std::max(kWindow, 2 * window_.size()));
    const std::size_t room = window_.size() - end_, most = std::max(at_once_, wanted - (end_ - begin_));
    const std::size_t n = source_->read(std::span(window_).subspan(end_, std::min(room, most)));
    at_once_ = std::min(kWindow, 2 * at_once_);
    end_ += n;
    ended_ = n == 0;
  }
  return {window_.data() + begin_, end_ - begin_};
}

void ByteStream::skip(std::size_t bytes) {
  if (bytes > end_ - begin_) fail(Code::internal, "{}: {} bytes passed over of {} seen", shown_, bytes, end_ - begin_);
  begin_ += bytes;
  offset_ += bytes;
}

void ByteStream::seek(std::uint64_t offset) {
  if (compression_ == Compression::none) {
    auto& plain = static_cast<PlainSource&>(*source_);
    if (offset > plain.size())
      fail(Code::data_loss, "{}: has {} bytes, but must have at least {}", shown_, plain.size(), offset);
    if (offset >= offset_ && offset - offset_ <= end_ - begin_) return skip(static_cast<std::size_t>(offset - offset_));
    plain.go_to(offset);
    begin_ = end_ = 0;
    ended_ = false;
    offset_ = offset;
    at_once_ = kAfterSeek;
    return;
  }
  if (offset < offset_) open();
  while (offset_ < offset) {
    const std::size_t seen = peek(1).size();
    if (seen == 0) fail(Code::data_loss, "{}: has {} bytes, but must have at least {}", shown_, offset_, offset);
    skip(static_cast<std::size_t>(std::min<std::uint64_t>(seen, offset - offset_)));
  }
}

}  // namespace troupe
