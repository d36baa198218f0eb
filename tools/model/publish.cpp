// troupe-model publish, promote, rollback and versions.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "tools/model/commands.hpp"
#include <troupe/actors/http/json_text.hpp>
#include <troupe/actors/model/any_model.hpp>
#include <troupe/actors/model/publication.hpp>
#include <troupe/actors/model/replace_directory.hpp>
#include <troupe/devices/storage/file_systems.hpp>

namespace troupe::model_tool {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kPiece = 4 << 20;
constexpr int kDeepest = 16;

void copy_file(FileSystem& from_files, const std::string& from, WritableFile& to) {
  const auto file = from_files.open(from);
  std::vector<std::byte> piece(kPiece);
  const std::uint64_t size = file->size();
  for (std::uint64_t at = 0; at < size; at += piece.size()) {
    piece.resize(std::min<std::uint64_t>(kPiece, size - at));
    file->read(at, piece);
    to.append(piece);
  }
}

// Into a directory that does not exist yet, durably.
void copy_tree(FileSystem& from_files, const std::string& from, FileSystem& files, const std::string& to, int depth) {
  if (depth > kDeepest) invalid_argument("{}: folders in folders in folders, more than {}", from, kDeepest);
  files.make_directory(to);
  for (const DirectoryEntry& entry : from_files.list(from)) {
    const std::string source = join_path(from, entry.name), place = join_path(to, entry.name);
    if (entry.is_directory) {
      copy_tree(from_files, source, files, place, depth + 1);
      continue;
    }
    const auto out = files.create(place);
    copy_file(from_files, source, *out);
    out->sync();
    out->close();
  }
  files.sync_directory(to);
}

void write_version(FileSystem& from_files, const std::string& from, FileSystem& files, const std::string& to,
                   bool directory) {
  if (directory)
    return replace_directory(files, to, [&](const std::string& path) { copy_tree(from_files, from, files, path, 0); });
  replace_file(
      files, to, [&](WritableFile& out) { copy_file(from_files, from, out); }, std::to_string(getpid()));
}

void say(const Options& options, const std::string& text, const Json& json) {
  fmt::print("{}\n", options.json ? json_text(json) : text);
}

}  // namespace

int publish(FileSystem& from_files, const Options& options) {
  const std::string& from = options.paths.at(0);
  const std::string directory = without_slashes(options.paths.at(1));
  FileSystem& files = file_system_of(directory);
  AnyModel any = read_any_model(from_files, from);
  const bool is_directory = any.format != ModelFormat::onnx;
  SavedModel model;
  model.graph = std::move(any.graph);
  model.signatures = std::move(any.signatures);
  model.values = std::move(any.values);
  PublishOptions publishing{
      .most_changed = options.most_changed, .figures = options.figures, .promote = options.promote};
  if (!options.any_signature) publishing.model = &model;
  for (const std::string& gate : options.gates) publishing.gates.push_back(PublishGate::parse(gate));
  if (!is_directory) publishing.suffix = ".onnx";
  const Published published = publish_version(files, directory, publishing, [&](const std::string& path) {
    write_version(from_files, without_slashes(from), files, path, is_directory);
  });
  const std::int64_t version = published.version;
  const AnswerChange& change = published.change;
  const bool canary = read_publication(files, directory)->canary == version;
  std::string text = fmt::format("version {} of {} is {}", version, directory, canary ? "the canary" : "stable");
  Json json{{"event", "published"}, {"version", version}, {"label", canary ? "canary" : "stable"}};
  if (change.requests > 0) {
    text += fmt::format("; of {} recorded requests, {} of {} rows are answered otherwise", change.requests,
                        change.changed, change.rows);
    json["requests"] = change.requests;
    json["rows"] = change.rows;
    json["changed"] = change.changed;
  }
  say(options, text, json);
  return 0;
}

int promote(FileSystem& files, const Options& options) {
  const std::int64_t version = troupe::promote(files, options.paths.at(0));
  say(options, fmt::format("version {} of {} is stable", version, options.paths[0]),
      {{"event", "promoted"}, {"version", version}});
  return 0;
}

int rollback(FileSystem& files, const Options& options) {
  const std::int64_t version = troupe::rollback(files, options.paths.at(0));
  const auto publication = read_publication(files, options.paths[0]);
  say(options,
      fmt::format("version {} of {} is rejected, version {} is stable", version, options.paths[0],
                  publication->stable.value_or(0)),
      {{"event", "rejected"}, {"version", version}, {"stable", publication->stable.value_or(0)}});
  return 0;
}

int versions(FileSystem& files, const Options& options) {
  const std::string& directory = options.paths.at(0);
  const Publication publication = read_publication(files, directory).value_or(Publication());
  std::set<std::int64_t> all = publication.rejected;
  for (const auto& [label, version] : labels_of(publication)) all.insert(version);
  all.insert(publication.before.begin(), publication.before.end());
  if (all.empty()) fail(Code::failed_precondition, "{}: nothing has been published here", directory);
  for (const std::int64_t version : all) {
    const std::string state = publication.stable == version            ? "stable"
                              : publication.canary == version          ? "canary"
                              : publication.rejected.contains(version) ? "rejected"
                                                                       : "before";
    Json json{{"version", version}, {"state", state}};
    std::string text = fmt::format("{:<6} {:<9}", version, state);
    if (const auto figures = publication.figures.find(version); figures != publication.figures.end()) {
      json["figures"] = figures->second;
      for (const auto& [name, value] : figures->second) text += fmt::format(" {} {:.6g}", name, value);
    }
    while (text.back() == ' ') text.pop_back();
    say(options, text, json);
  }
  return 0;
}

}  // namespace troupe::model_tool
