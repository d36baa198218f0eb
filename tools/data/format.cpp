// Which format a file has.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tools/data/input.hpp"
#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/kernels/readers/idx_types.hpp>
#include <troupe/kernels/readers/tfrecord.hpp>
#include <troupe/messages/command_line.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::data_tool {
namespace {

constexpr std::array<std::string_view, 10> kNames = {"tfrecord", "csv", "tsv", "jsonl", "text",
                                                     "fixed",    "npy", "npz", "idx",   "images"};

struct Ending {
  std::string_view text;
  Format format;
};
constexpr std::array kEndings = {Ending{".tfrecord", Format::tfrecord}, Ending{".tfrecords", Format::tfrecord},
                                 Ending{".tfr", Format::tfrecord},      Ending{".csv", Format::csv},
                                 Ending{".tsv", Format::tsv},           Ending{".tab", Format::tsv},
                                 Ending{".jsonl", Format::jsonl},       Ending{".ndjson", Format::jsonl},
                                 Ending{".txt", Format::text},          Ending{".npy", Format::npy},
                                 Ending{".npz", Format::npz},           Ending{".idx", Format::idx}};

bool is_tfrecord(std::string_view bytes) {
  constexpr std::size_t kLength = 8;
  if (bytes.size() < kLength + 4) return false;
  std::uint32_t crc = 0;
  for (std::size_t i = 4; i-- > 0;) crc = crc << 8 | static_cast<unsigned char>(bytes[kLength + i]);
  return crc == masked_crc32c(bytes.substr(0, kLength));
}

bool is_idx(std::string_view bytes) {
  const auto known = [&](const IdxType& type) { return type.code == static_cast<unsigned char>(bytes[2]); };
  return bytes.size() >= 8 && bytes[0] == 0 && bytes[1] == 0 && std::ranges::any_of(kIdxTypes, known) && bytes[3] > 0 &&
         bytes[3] <= kMaxRank;
}

bool is_text(std::string_view bytes) {
  return std::ranges::none_of(bytes, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\n' && c != '\r' && c != '\t') || byte == 0x7f;
  });
}

}  // namespace

std::string_view name(Format format) { return kNames.at(static_cast<std::size_t>(format)); }

Format parse_format(std::string_view text) {
  const auto found = std::ranges::find(kNames, text);
  if (found == kNames.end())
    invalid_argument("unknown format '{}': pass {}", text,
                     alternatives(std::vector<std::string>(kNames.begin(), kNames.end())));
  return static_cast<Format>(found - kNames.begin());
}

std::string without_compression(std::string_view path) {
  for (const std::string_view ending : {".gz", ".gzip", ".zst", ".zstd"})
    if (path.ends_with(ending)) return std::string(path.substr(0, path.size() - ending.size()));
  return std::string(path);
}

std::optional<Format> format_of_name(std::string_view path) {
  const std::string bare = without_compression(shown_path(path));
  const std::string_view file = std::string_view(bare).substr(bare.rfind('/') + 1);
  for (const Ending& ending : kEndings)
    if (file.ends_with(ending.text)) return ending.format;
  if (file.find(".tfrecord-") != file.npos) return Format::tfrecord;  // "train.tfrecord-00000-of-00008"
  if (file.ends_with("-ubyte") && file.find("idx") != file.npos) return Format::idx;
  return std::nullopt;
}

Format format_of_content(FileSystem& files, const std::string& path) {
  constexpr std::size_t kSeen = 4096;
  ByteStream stream(files, path);
  const std::string_view all = stream.peek(kSeen), bytes = all.substr(0, kSeen);
  if (bytes.starts_with("\x93NUMPY")) return Format::npy;
  if (bytes.starts_with("PK\x03\x04")) return Format::npz;
  if (is_tfrecord(bytes)) return Format::tfrecord;
  if (is_idx(bytes)) return Format::idx;
  if (bytes.starts_with("\xff\xd8\xff") || bytes.starts_with("\x89PNG"))
    invalid_argument("'{}' is an image: pass a folder that has a folder of images for each class", path);
  if (!bytes.empty() && is_text(bytes)) {
    const std::string_view line = bytes.substr(0, bytes.find('\n'));
    const std::size_t first = line.find_first_not_of(" \t");
    if (first != line.npos && line[first] == '{') return Format::jsonl;
    if (line.find('\t') != line.npos) return Format::tsv;
    return line.find(',') != line.npos ? Format::csv : Format::text;
  }
  invalid_argument(
      "'{}': neither its name nor its first bytes say what it is: pass --format, or --record-bytes N for "
      "records of a fixed size",
      path);
}

}  // namespace troupe::data_tool
