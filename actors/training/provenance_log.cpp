#include "troupe/actors/training/provenance_log.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kBuffer = 64 << 10;  // bytes
constexpr std::size_t kLogChunk = 1 << 20;
constexpr std::string_view kBegin = "{\"version\":";

Json source_json(const SlotSource& source) {
  Json json{{"worker", source.worker}, {"step", source.step}, {"slot", source.slot}, {"gradients", source.gradients}};
  if (source.phase != 0) json["phase"] = source.phase;
  if (source.fate != Fate::applied) json["why"] = name(source.fate);
  return json;
}

std::string line_of(const Provenance& version) {
  Json json{{"version", version.version}};
  for (const SlotSource& source : version.sources)
    json[source.fate == Fate::applied ? "applied" : "dropped"].push_back(source_json(source));
  if (version.left_out > 0) json["more_dropped"] = version.left_out;
  return json.dump() + "\n";
}

std::optional<std::uint64_t> version_of(std::string_view line) {
  if (!line.starts_with(kBegin)) return std::nullopt;
  std::uint64_t version = 0;
  const auto [end, error] = std::from_chars(line.data() + kBegin.size(), line.data() + line.size(), version);
  if (error != std::errc()) return std::nullopt;
  return version;
}

// Calls line(text with its newline) for each line; skips an incomplete last one.
template <class Line>
void each_line(ReadableFile& file, Line&& line) {
  std::string pending;
  const std::uint64_t size = file.size();
  for (std::uint64_t at = 0; at < size;) {
    std::string chunk(static_cast<std::size_t>(std::min<std::uint64_t>(kLogChunk, size - at)), '\0');
    file.read(at, std::as_writable_bytes(std::span(chunk)));
    at += chunk.size();
    pending += chunk;
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = pending.find('\n', begin)) != std::string::npos; begin = end + 1)
      line(std::string_view(pending).substr(begin, end + 1 - begin));
    pending.erase(0, begin);
  }
}

}  // namespace

std::string ProvenanceLog::path(const std::string& directory, int shard) {
  return join_path(directory, fmt::format("provenance-ps-{:05}.jsonl", shard));
}

// Copies the lines to keep to a new file, which replaces the old one once it is complete.
ProvenanceLog::ProvenanceLog(FileSystem& files, const std::string& directory, int shard, std::uint64_t version) {
  make_directories(files, directory);
  const std::string to = path(directory, shard);
  const std::string temporary = to + ".tmp";
  file_ = files.create(temporary);
  if (version > 0 && files.exists(to)) {
    const std::unique_ptr<ReadableFile> before = files.open(to);
    each_line(*before, [&](std::string_view line) {
      const auto of = version_of(line);
      if (!of) fail(Code::data_loss, "'{}' has a line without a version: '{}'", to, line.substr(0, 80));
      if (*of > version) return;
      buffer_ += line;
      if (buffer_.size() >= kBuffer) write();
    });
  }
  flush();
  files.rename(temporary, to);
  files.sync_directory(directory);
}

void ProvenanceLog::append(const std::vector<Provenance>& versions) {
  for (const Provenance& version : versions) buffer_ += line_of(version);
  if (buffer_.size() >= kBuffer) write();
}

void ProvenanceLog::write() {
  file_->append(std::as_bytes(std::span(buffer_)));
  buffer_.clear();
}

void ProvenanceLog::flush() {
  if (!buffer_.empty()) write();
  file_->sync();
}

}  // namespace troupe
