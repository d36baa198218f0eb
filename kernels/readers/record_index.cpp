#include "troupe/kernels/readers/record_index.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <string_view>

#include <troupe/devices/storage/crc32c.hpp>
#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/kernels/readers/tensor_file.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::string_view kIndexMagic = "TrpIndex";
constexpr std::uint64_t kIndexVersion = 1, kEnds = 64 << 10;
constexpr std::size_t kIndexHead = 32;  // up to the second checksum

static_assert(std::endian::native == std::endian::little);

template <class T>
void append_number(std::string& out, T number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

template <class T>
T number_at(std::string_view bytes, std::size_t at) {
  T number;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

struct FileEnds {
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;
  bool operator==(const FileEnds&) const = default;
};

FileEnds ends_of(FileSystem& files, const std::string& path) {
  const auto file = files.open(path);
  const std::uint64_t bytes = file->size();
  std::vector<std::byte> part(static_cast<std::size_t>(std::min(bytes, kEnds)));
  file->read(0, part);
  const std::uint32_t first = crc32c(std::span<const std::byte>(part));
  file->read(bytes - part.size(), part);
  return {bytes, crc32c(std::span<const std::byte>(part), first)};
}

// Object stores and servers of signed URLs may refuse what is not there.
bool may_have_index(FileSystem& files, const std::string& path) {
  try {
    return files.exists(index_path(path));
  } catch (const Error& error) {
    if (error.code() != Code::permission_denied) throw;
    return false;
  }
}

}  // namespace

std::string index_path(const std::string& path) { return with_suffix(path, ".index"); }

RecordIndex build_index(FileSystem& files, const std::string& path, const RecordFormat& format) {
  if (const Compression compression = ByteStream(files, path).compression(); compression != Compression::none)
    fail(Code::failed_precondition,
         "{}: is compressed ({}): its records cannot be read alone; decompress it, or read it in order",
         shown_path(path), name(compression));
  const auto records = format.open(files, path);
  RecordIndex index;
  std::string_view record;
  for (std::uint64_t at = records->position(); records->next(record); at = records->position())
    index.offsets.push_back(at);
  if (records->skipped() > 0)
    fail(Code::data_loss, "{}: {} records are damaged: an index needs all of them", shown_path(path),
         records->skipped());
  return index;
}

void write_index(FileSystem& files, const std::string& path, const RecordFormat& format, const RecordIndex& index) {
  std::string rest;
  append_number(rest, std::uint64_t{format.name.size()});
  rest += format.name;
  append_number(rest, std::uint64_t{index.offsets.size()});
  for (const std::uint64_t offset : index.offsets) append_number(rest, offset);
  const FileEnds ends = ends_of(files, path);
  std::string head(kIndexMagic);
  append_number(head, kIndexVersion);
  append_number(head, ends.bytes);
  append_number(head, ends.crc);
  append_number(head, crc32c(rest));
  replace_file(files, index_path(path), head + rest, temporary_suffix());
}

RecordIndex read_index(FileSystem& files, const std::string& path, const RecordFormat& format) {
  const std::string where = index_path(path);
  const FileEnds ends = ends_of(files, path);
  // A record has at least a byte.
  const std::uint64_t most = kIndexHead + 16 + (1 << 10) + 8 * std::min(ends.bytes, std::uint64_t{1} << 40);
  const std::string bytes = read_file(files, where, most);
  const auto damaged = [&](std::string_view what) {
    fail(Code::data_loss, "{}: {}: remove it, and it is made again", shown_path(where), what);
  };
  if (bytes.size() < kIndexHead + 16 || !bytes.starts_with(kIndexMagic)) damaged("is no index");
  if (const auto version = number_at<std::uint64_t>(bytes, 8); version > kIndexVersion)
    fail(Code::unimplemented,
         "{}: version {} is of a later Troupe; this one reads up to {}: remove it, and it is made again",
         shown_path(where), version, kIndexVersion);
  if (number_at<std::uint64_t>(bytes, 8) != kIndexVersion) damaged("has no version");
  const std::string_view rest = std::string_view(bytes).substr(kIndexHead);
  if (number_at<std::uint32_t>(bytes, 28) != crc32c(rest)) damaged("has a wrong checksum");
  const auto stale = [&](std::string_view what) {
    fail(Code::failed_precondition, "{}: {}: remove it, and it is made again", shown_path(where), what);
  };
  if (FileEnds{number_at<std::uint64_t>(bytes, 16), number_at<std::uint32_t>(bytes, 24)} != ends)
    stale("is not of the file as it is now");
  const auto name_bytes = number_at<std::uint64_t>(rest, 0);
  if (name_bytes > rest.size() - 16) damaged("has a name that is too long");
  if (rest.substr(8, name_bytes) != format.name)
    stale(fmt::format("counts {}, not {}", rest.substr(8, name_bytes), format.name));
  const std::string_view offsets = rest.substr(8 + name_bytes + 8);
  const auto count = number_at<std::uint64_t>(rest, 8 + name_bytes);
  if (offsets.size() % 8 != 0 || count != offsets.size() / 8) damaged("has another number of records than it says");
  RecordIndex index;
  index.offsets.resize(count);
  if (count > 0) std::memcpy(index.offsets.data(), offsets.data(), offsets.size());
  if (!std::ranges::is_sorted(index.offsets) || (count > 0 && index.offsets.back() >= ends.bytes))
    damaged("has records where the file has none");
  return index;
}

RecordIndex index_of_records(FileSystem& files, const std::string& path, const RecordFormat& format) {
  if (may_have_index(files, path)) return read_index(files, path, format);
  RecordIndex index = build_index(files, path, format);
  try {
    write_index(files, path, format, index);
  } catch (const Error& error) {
    if (error.code() != Code::permission_denied && error.code() != Code::resource_exhausted &&
        error.code() != Code::unimplemented && error.code() != Code::unavailable)
      throw;
  }
  return index;
}

}  // namespace troupe
