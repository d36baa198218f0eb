#include "troupe/kernels/readers/zip.hpp"

#include <algorithm>

#include <troupe/kernels/readers/zip_records.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

using namespace zip;

constexpr std::uint64_t kMaxZipDirectory = std::uint64_t{256} << 20;
constexpr std::uint64_t kMaxZipComment = 0xffff;
// Deflate expands a byte to at most 1032 (zlib's technical notes), which bounds the size that a small file may claim.
constexpr std::uint64_t kZipExpansion = 1032;
constexpr std::size_t kZipPiece = std::size_t{64} << 10;
constexpr std::uint16_t kEncrypted = 1;

template <class... Args>
[[noreturn]] void damaged_zip(const std::string& path, fmt::format_string<Args...> format, Args&&... args) {
  fail(Code::data_loss, "'{}': zip archive: {}", path, fmt::format(format, std::forward<Args>(args)...));
}

std::string zip_bytes(ReadableFile& file, std::uint64_t offset, std::uint64_t count) {
  std::string out(count, '\0');
  file.read(offset, std::as_writable_bytes(std::span(out)));
  return out;
}

struct ZipDirectory {
  std::uint64_t count = 0, size = 0, begin = 0;
};

// Replaces the directory's place, of which 32 bits do not tell all, by that in the record of 64 bits.
ZipDirectory wide_zip_directory(ReadableFile& file, const std::string& path, std::uint64_t end_record) {
  if (end_record < kLocatorBytes) damaged_zip(path, "the locator of its 64-bit record is missing");
  const std::string locator = zip_bytes(file, end_record - kLocatorBytes, kLocatorBytes);
  if (number<4>(locator, 0) != kLocator) damaged_zip(path, "the locator of its 64-bit record is missing");
  const std::uint64_t at = number<8>(locator, 8), last = end_record - kLocatorBytes;
  if (last < kWideEndBytes || at > last - kWideEndBytes)
    damaged_zip(path, "the 64-bit record at byte {} is outside the file", at);
  const std::string record = zip_bytes(file, at, kWideEndBytes);
  if (number<4>(record, 0) != kWideEnd) damaged_zip(path, "no 64-bit record at byte {}", at);
  return {.count = number<8>(record, 32), .size = number<8>(record, 40), .begin = number<8>(record, 48)};
}

ZipDirectory find_zip_directory(ReadableFile& file, const std::string& path) {
  const std::uint64_t size = file.size(), tail_size = std::min(size, kEndBytes + kMaxZipComment);
  const std::string tail = zip_bytes(file, size - tail_size, tail_size);
  for (std::uint64_t from_end = kEndBytes; from_end <= tail_size; ++from_end) {
    const std::size_t at = tail_size - from_end;
    if (number<4>(tail, at) != kEnd || number<2>(tail, at + 20) != from_end - kEndBytes) continue;
    ZipDirectory out{
        .count = number<2>(tail, at + 10), .size = number<4>(tail, at + 12), .begin = number<4>(tail, at + 16)};
    const std::uint64_t end_record = size - from_end;
    if (out.count == kWide16 || out.size == kWide32 || out.begin == kWide32)
      out = wide_zip_directory(file, path, end_record);
    if (out.begin > end_record || out.size > end_record - out.begin)
      damaged_zip(path, "its directory of {} bytes at byte {} is outside the file", out.size, out.begin);
    if (out.size > kMaxZipDirectory)
      fail(Code::resource_exhausted, "'{}': zip archive: its directory has {} bytes; the limit is {}", path, out.size,
           kMaxZipDirectory);
    return out;
  }
  damaged_zip(path, "no end record in {} bytes: not a zip archive, or cut short", size);
}

// Fields that 32 bits do not hold are in the extra field of id 1, in this order.
void widen_zip_entry(ZipEntry& entry, std::string_view extra, const std::string& path) {
  std::string_view wide;
  while (extra.size() >= 4 && wide.data() == nullptr) {
    const std::uint64_t id = number<2>(extra, 0), size = number<2>(extra, 2);
    if (size > extra.size() - 4) damaged_zip(path, "an extra field of '{}' does not end", entry.name);
    if (id == kWideField) wide = extra.substr(4, size);
    extra.remove_prefix(4 + size);
  }
  for (std::uint64_t* field : {&entry.size, &entry.packed, &entry.begin}) {
    if (*field != kWide32) continue;
    if (wide.size() < 8) damaged_zip(path, "the 64-bit sizes of '{}' are missing", entry.name);
    *field = number<8>(wide, 0);
    wide.remove_prefix(8);
  }
}

void check_zip_entry(const ZipEntry& entry, std::uint64_t directory, const std::string& path) {
  if (entry.begin > directory || entry.packed > directory - entry.begin)
    damaged_zip(path, "'{}' ends outside the members", entry.name);
  if (entry.method == kStored && entry.packed != entry.size)
    damaged_zip(path, "'{}' is stored, but has {} bytes packed and {} unpacked", entry.name, entry.packed, entry.size);
  if (entry.method == kDeflated && entry.size / kZipExpansion > entry.packed)
    damaged_zip(path, "{} bytes of '{}' cannot unpack to {}", entry.packed, entry.name, entry.size);
}

}  // namespace

std::vector<ZipEntry> read_zip_directory(ReadableFile& file, const std::string& path) {
  const ZipDirectory directory = find_zip_directory(file, path);
  const std::string bytes = zip_bytes(file, directory.begin, directory.size);
  std::string_view rest = bytes;
  std::vector<ZipEntry> out;
  while (!rest.empty()) {
    if (rest.size() < kMemberBytes || number<4>(rest, 0) != kMember)
      damaged_zip(path, "entry {} of its directory is damaged", out.size());
    const std::uint64_t name = number<2>(rest, 28), extra = number<2>(rest, 30), comment = number<2>(rest, 32);
    if (name + extra + comment > rest.size() - kMemberBytes)
      damaged_zip(path, "entry {} of its directory does not end", out.size());
    ZipEntry entry{.name = std::string(rest.substr(kMemberBytes, name)),
                   .begin = number<4>(rest, 42),
                   .packed = number<4>(rest, 20),
                   .size = number<4>(rest, 24),
                   .crc = static_cast<std::uint32_t>(number<4>(rest, 16)),
                   .flags = static_cast<std::uint16_t>(number<2>(rest, 8)),
                   .method = static_cast<std::uint16_t>(number<2>(rest, 10))};
    widen_zip_entry(entry, rest.substr(kMemberBytes + name, extra), path);
    check_zip_entry(entry, directory.begin, path);
    out.push_back(std::move(entry));
    rest.remove_prefix(kMemberBytes + name + extra + comment);
  }
  if (out.size() != directory.count)
    damaged_zip(path, "its directory has {} entries, but {} are announced", out.size(), directory.count);
  return out;
}

ZipMember::ZipMember(ReadableFile& file, const ZipEntry& entry, const std::string& path)
    : file_(file), entry_(entry), path_(path) {
  if ((entry.flags & kEncrypted) != 0)
    fail(Code::unimplemented, "'{}': '{}' is encrypted, which is not supported", path, entry.name);
  if (entry.method != kStored && entry.method != kDeflated)
    fail(Code::unimplemented, "'{}': '{}' is packed by method {}; supported are 0 (stored) and 8 (deflated)", path,
         entry.name, entry.method);
  if (entry.begin > file.size() || file.size() - entry.begin < kLocalBytes)
    damaged_zip(path, "the header of '{}' is outside the file", entry.name);
  const std::string header = zip_bytes(file, entry.begin, kLocalBytes);
  if (number<4>(header, 0) != kLocal) damaged_zip(path, "no header of '{}' at byte {}", entry.name, entry.begin);
  at_ = entry.begin + kLocalBytes + number<2>(header, 26) + number<2>(header, 28);
  if (at_ > file.size() || entry.packed > file.size() - at_)
    damaged_zip(path, "'{}' ends outside the file", entry.name);
  end_ = at_ + entry.packed;
  if (entry.method != kDeflated) return;
  stream_.emplace();
  if (inflateInit2(&*stream_, -MAX_WBITS) != Z_OK) fail(Code::resource_exhausted, "zlib: out of memory");
  input_.resize(std::min<std::uint64_t>(kZipPiece, entry.packed));
}

ZipMember::~ZipMember() {
  if (stream_) inflateEnd(&*stream_);
}

void ZipMember::read(std::span<std::byte> out) {
  if (out.size() > entry_.size - done_)
    damaged_zip(path_, "'{}' ends at byte {}: {} more expected", entry_.name, entry_.size,
                out.size() - (entry_.size - done_));
  if (stream_) {
    const std::size_t got = inflate_some(out);
    if (got < out.size())
      damaged_zip(path_, "'{}' unpacks to {} bytes, but should to {}", entry_.name, done_ + got, entry_.size);
  } else {
    read_stored(out);
  }
  done_ += out.size();
}

void ZipMember::read_stored(std::span<std::byte> out) {
  constexpr std::size_t kChecked = std::size_t{1} << 20;  // read, then summed while in the cache
  while (!out.empty()) {
    const auto piece = out.first(std::min(out.size(), kChecked));
    file_.read(at_, piece);
    crc_ = static_cast<std::uint32_t>(crc32_z(crc_, reinterpret_cast<const Bytef*>(piece.data()), piece.size()));
    at_ += piece.size();
    out = out.subspan(piece.size());
  }
}

std::size_t ZipMember::inflate_some(std::span<std::byte> out) {
  z_stream& stream = *stream_;
  std::size_t done = 0;
  while (done < out.size() && !stream_ended_) {
    if (stream.avail_in == 0 && at_ < end_) {
      const auto piece = std::span(input_).first(std::min<std::uint64_t>(input_.size(), end_ - at_));
      file_.read(at_, piece);
      at_ += piece.size();
      stream.next_in = reinterpret_cast<Bytef*>(piece.data());
      stream.avail_in = static_cast<uInt>(piece.size());
    }
    const auto piece = out.subspan(done, std::min(out.size() - done, std::size_t{1} << 20));
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    const int status = inflate(&stream, Z_NO_FLUSH);
    const std::size_t got = piece.size() - stream.avail_out;
    crc_ = static_cast<std::uint32_t>(crc32_z(crc_, reinterpret_cast<const Bytef*>(piece.data()), got));
    done += got;
    stream_ended_ = status == Z_STREAM_END;
    if (status == Z_BUF_ERROR && at_ == end_) break;  // the packed bytes end early
    if (status != Z_OK && status != Z_BUF_ERROR && !stream_ended_)
      damaged_zip(path_, "'{}' cannot be unpacked: {}", entry_.name, stream.msg ? stream.msg : zError(status));
  }
  return done;
}

void ZipMember::finish() {
  std::array<std::byte, 1> more{};
  if (done_ != entry_.size || (stream_ && inflate_some(more) > 0))
    damaged_zip(path_, "more bytes follow in '{}' where it should end", entry_.name);
  if (stream_ && (!stream_ended_ || at_ != end_ || stream_->avail_in > 0))
    damaged_zip(path_, "the packed bytes of '{}' do not end where they should", entry_.name);
  if (crc_ != entry_.crc)
    damaged_zip(path_, "'{}' has checksum {:08x}, expected {:08x}", entry_.name, crc_, entry_.crc);
}

}  // namespace troupe
