// Writes zip archives.
#include <algorithm>

#include <troupe/kernels/readers/zip.hpp>
#include <troupe/kernels/readers/zip_records.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

using namespace zip;

constexpr std::uint16_t kSizesFollow = 8, kUtf8 = 0x800;
constexpr std::uint64_t kNarrowVersion = 20, kWideVersion = 45;
constexpr std::uint64_t kFirstDate = 0x21;  // 1980-01-01, the format's first day

// Greater than what deflate makes of any `size` bytes: it stores them in blocks with 5 bytes each.
std::uint64_t packed_bound(std::uint64_t size) { return size + size / 1000 + 64; }

// version, flags, method, time and date.
void put_kind(std::string& out, const ZipEntry& entry, bool wide) {
  put<2>(out, wide ? kWideVersion : kNarrowVersion);
  put<2>(out, entry.flags);
  put<2>(out, entry.method);
  put<2>(out, 0);
  put<2>(out, kFirstDate);
}

std::string local_record(const ZipEntry& entry, bool wide) {
  std::string out;
  put<4>(out, kLocal);
  put_kind(out, entry, wide);
  put<4>(out, entry.crc);
  put<4>(out, wide ? kWide32 : entry.packed);
  put<4>(out, wide ? kWide32 : entry.size);
  put<2>(out, entry.name.size());
  put<2>(out, wide ? 20 : 0);
  out += entry.name;
  if (wide) {
    put<2>(out, kWideField);
    put<2>(out, 16);
    put<8>(out, entry.size);
    put<8>(out, entry.packed);
  }
  return out;
}

}  // namespace

std::uint32_t zip_crc(std::uint32_t crc, std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

ZipWriter::ZipWriter(WritableFile& file, std::string path, ZipOptions options)
    : file_(file), path_(std::move(path)), options_(options) {}

void ZipWriter::append(const std::string& bytes) {
  file_.append(std::as_bytes(std::span(bytes)));
  at_ += bytes.size();
}

ZipEntry ZipWriter::begin_member(const std::string& name, std::uint64_t size, bool& wide) const {
  if (name.empty() || name.size() > kWide16)
    invalid_argument("cannot write '{}': a name of {} bytes: 1 to {} are possible", path_, name.size(), kWide16);
  const bool ascii = std::ranges::all_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  ZipEntry entry{.name = name, .begin = at_, .flags = static_cast<std::uint16_t>(ascii ? 0 : kUtf8)};
  wide = options_.wide || packed_bound(size) >= kWide32;
  return entry;
}

void ZipWriter::add(const std::string& name, std::string_view head, std::uint64_t size, std::uint32_t crc,
                    FunctionRef<void(WritableFile&)> write) {
  bool wide = false;
  ZipEntry entry = begin_member(name, head.size() + size, wide);
  entry.crc = crc;
  entry.packed = entry.size = head.size() + size;
  append(local_record(entry, wide));
  file_.append(std::as_bytes(std::span(head)));
  write(file_);
  at_ += entry.size;
  members_.push_back({.entry = std::move(entry), .wide = wide});
}

void ZipWriter::add(const std::string& name, std::span<const std::byte> head, std::span<const std::byte> body) {
  const std::uint64_t size = head.size() + body.size();
  bool wide = false;
  ZipEntry entry = begin_member(name, size, wide);
  if (options_.compress) {
    entry.method = kDeflated;
    entry.flags |= kSizesFollow;
    append(local_record(entry, wide));
    append_deflated(entry, head, body);
    std::string descriptor;
    put<4>(descriptor, kDescriptor);
    put<4>(descriptor, entry.crc);
    for (const std::uint64_t value : {entry.packed, entry.size})
      wide ? put<8>(descriptor, value) : put<4>(descriptor, value);
    append(descriptor);
  } else {
    entry.crc = zip_crc(zip_crc(0, head), body);
    entry.packed = entry.size = size;
    append(local_record(entry, wide));
    for (const auto& piece : {head, body}) file_.append(piece);
    at_ += size;
  }
  members_.push_back({.entry = std::move(entry), .wide = wide});
}

void ZipWriter::append_deflated(ZipEntry& entry, std::span<const std::byte> head, std::span<const std::byte> body) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    fail(Code::resource_exhausted, "zlib: out of memory");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, deflateEnd);
  std::vector<std::byte> packed(std::size_t{256} << 10);
  const auto pump = [&](int flush) {
    do {
      stream.next_out = reinterpret_cast<Bytef*>(packed.data());
      stream.avail_out = static_cast<uInt>(packed.size());
      deflate(&stream, flush);
      const std::size_t got = packed.size() - stream.avail_out;
      file_.append(std::span(packed).first(got));
      entry.packed += got;
    } while (stream.avail_out == 0);
  };
  for (auto rest : {head, body})
    while (!rest.empty()) {
      const auto piece = rest.first(std::min(rest.size(), std::size_t{1} << 20));
      entry.crc = zip_crc(entry.crc, piece);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(piece.data()));
      stream.avail_in = static_cast<uInt>(piece.size());
      pump(Z_NO_FLUSH);
      rest = rest.subspan(piece.size());
    }
  pump(Z_FINISH);
  entry.size = head.size() + body.size();
  at_ += entry.packed;
}

std::string ZipWriter::directory_record(const Written& member) const {
  const ZipEntry& entry = member.entry;
  const bool wide = member.wide || entry.begin >= kWide32;
  std::string out;
  put<4>(out, kMember);
  put<2>(out, wide ? kWideVersion : kNarrowVersion);
  put_kind(out, entry, wide);
  put<4>(out, entry.crc);
  put<4>(out, wide ? kWide32 : entry.packed);
  put<4>(out, wide ? kWide32 : entry.size);
  put<2>(out, entry.name.size());
  put<2>(out, wide ? 28 : 0);
  for (int i = 0; i < 3; ++i) put<2>(out, 0);  // comment, disk, internal attributes
  put<4>(out, 0);                              // external attributes
  put<4>(out, wide ? kWide32 : entry.begin);
  out += entry.name;
  if (wide) {
    put<2>(out, kWideField);
    put<2>(out, 24);
    for (const std::uint64_t value : {entry.size, entry.packed, entry.begin}) put<8>(out, value);
  }
  return out;
}

void ZipWriter::finish() {
  const std::uint64_t begin = at_, count = members_.size();
  for (const Written& member : members_) append(directory_record(member));
  const std::uint64_t size = at_ - begin, wide_end = at_;
  const bool wide = options_.wide || count >= kWide16 || size >= kWide32 || begin >= kWide32;
  std::string out;
  if (wide) {
    put<4>(out, kWideEnd);
    put<8>(out, kWideEndBytes - 12);
    put<2>(out, kWideVersion);
    put<2>(out, kWideVersion);
    put<8>(out, 0);  // disks
    for (const std::uint64_t value : {count, count, size, begin}) put<8>(out, value);
    put<4>(out, kLocator);
    put<4>(out, 0);
    put<8>(out, wide_end);
    put<4>(out, 1);  // disks
  }
  put<4>(out, kEnd);
  put<4>(out, 0);  // disks
  for (int i = 0; i < 2; ++i) put<2>(out, wide ? kWide16 : count);
  put<4>(out, wide ? kWide32 : size);
  put<4>(out, wide ? kWide32 : begin);
  put<2>(out, 0);  // comment
  append(out);
}

}  // namespace troupe
