#include "troupe/kernels/readers/gzip_file.hpp"

#include <zlib.h>

#include <algorithm>
#include <string>

#include <troupe/messages/error.hpp>

namespace troupe {

class GzipFile::Deflater {
 public:
  Deflater() {
    constexpr int kGzip = 16 + MAX_WBITS;
    if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK)
      fail(Code::resource_exhausted, "zlib: out of memory");
  }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;
  ~Deflater() { deflateEnd(&stream); }

  z_stream stream{};
  std::string room = std::string(64 << 10, '\0');
};

GzipFile::GzipFile(WritableFile& file) : file_(file), deflater_(std::make_unique<Deflater>()) {}
GzipFile::~GzipFile() = default;

void GzipFile::append(std::span<const std::byte> bytes) {
  constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // zlib counts in 32 bits
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kMostAtOnce));
    deflate(piece, false);
    bytes = bytes.subspan(piece.size());
  }
}

void GzipFile::finish() { deflate({}, true); }

void GzipFile::deflate(std::span<const std::byte> bytes, bool last) {
  z_stream& stream = deflater_->stream;
  std::string& room = deflater_->room;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  do {
    stream.next_out = reinterpret_cast<Bytef*>(room.data());
    stream.avail_out = static_cast<uInt>(room.size());
    ::deflate(&stream, last ? Z_FINISH : Z_NO_FLUSH);
    if (const std::size_t got = room.size() - stream.avail_out; got > 0)
      file_.append(std::as_bytes(std::span(room.data(), got)));
  } while (stream.avail_out == 0);
}

}  // namespace troupe
