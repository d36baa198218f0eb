#include "troupe/actors/model/publication.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include <troupe/actors/http/json_text.hpp>
#include <troupe/actors/model/any_model.hpp>

namespace troupe {
namespace {

using nlohmann::json;

constexpr const char* kFile = "publication.json";
constexpr std::uint64_t kMostBytes = 16 << 20;
constexpr std::size_t kBeforeKept = 16;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::optional<double> finite(std::string_view text) {
  double out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(out)) return std::nullopt;
  return out;
}

std::int64_t version_of(const json& value) {
  const auto out = value.get<std::int64_t>();
  if (out < 0) invalid_argument("version {} is negative", out);
  return out;
}

Publication parse_publication(const std::string& text) {
  Publication out;
  const json all = json::parse(text);
  if (!all.is_object()) invalid_argument("it is no object");
  if (all.contains("stable")) out.stable = version_of(all["stable"]);
  if (all.contains("canary")) out.canary = version_of(all["canary"]);
  for (const json& each : all.value("before", json::array())) out.before.push_back(version_of(each));
  for (const json& each : all.value("rejected", json::array())) out.rejected.insert(version_of(each));
  const json all_figures = all.value("figures", json::object());
  for (const auto& [version, figures] : all_figures.items()) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(version.data(), version.data() + version.size(), number);
    if (error != std::errc() || end != version.data() + version.size() || number < 0)
      invalid_argument("figures of '{}', which is no version", version);
    out.figures[number] = figures.get<Publication::Figures>();
  }
  return out;
}

void write_publication(FileSystem& files, const std::string& directory, const Publication& publication) {
  json out = json::object();
  if (publication.stable) out["stable"] = *publication.stable;
  if (publication.canary) out["canary"] = *publication.canary;
  if (!publication.before.empty()) out["before"] = publication.before;
  if (!publication.rejected.empty()) out["rejected"] = publication.rejected;
  for (const auto& [version, figures] : publication.figures) out["figures"][std::to_string(version)] = figures;
  replace_file(files, join_path(directory, kFile), json_text(out) + "\n", std::to_string(getpid()));
}

void become_stable(Publication& publication, std::int64_t version) {
  if (publication.stable) publication.before.push_back(*publication.stable);
  if (publication.before.size() > kBeforeKept) publication.before.erase(publication.before.begin());
  publication.stable = version;
}

// Above all that there are and were.
std::int64_t next_version(FileSystem& files, const std::string& directory, const Publication& publication) {
  std::int64_t last = std::max(publication.stable.value_or(0), publication.canary.value_or(0));
  if (!publication.rejected.empty()) last = std::max(last, *publication.rejected.rbegin());
  for (const std::int64_t version : publication.before) last = std::max(last, version);
  for (const DirectoryEntry& entry : files.list(directory)) {
    std::int64_t number = 0;  // of "4", "4.onnx", and of what is being written, "4.tmp-..."
    const auto [end, error] = std::from_chars(entry.name.data(), entry.name.data() + entry.name.size(), number);
    if (error == std::errc() && number >= 0 && (*end == '\0' || *end == '.')) last = std::max(last, number);
  }
  return last + 1;
}

bool same_kind(const ModelSignature::TensorSpec& a, const ModelSignature::TensorSpec& b) {
  return a.dtype == b.dtype && a.shape.rank() == b.shape.rank();
}

// Throws for what a client of the old signatures would miss in the new ones.
void check_signatures(const std::map<std::string, ModelSignature>& old, std::int64_t version,
                      const std::map<std::string, ModelSignature>& now) {
  for (const auto& [name, signature] : old) {
    const auto missed = [&](const std::string& what) {
      fail(Code::failed_precondition, "clients of version {}, which is stable, would fail: signature '{}' {}", version,
           name, what);
    };
    const auto found = now.find(name);
    if (found == now.end()) missed("is not there");
    for (const auto& [input, spec] : found->second.inputs)
      if (const auto before = signature.inputs.find(input); before == signature.inputs.end())
        missed(fmt::format("wants an input '{}' more", input));
      else if (!same_kind(before->second, spec))
        missed(fmt::format("wants its input '{}' of another dtype or rank", input));
    for (const auto& [input, spec] : signature.inputs)
      if (!found->second.inputs.contains(input)) missed(fmt::format("has no input '{}'", input));
    for (const auto& [output, spec] : signature.outputs)
      if (const auto after = found->second.outputs.find(output); after == found->second.outputs.end())
        missed(fmt::format("has no output '{}'", output));
      else if (!same_kind(after->second, spec))
        missed(fmt::format("has its output '{}' of another dtype or rank", output));
  }
}

// The new model beside the stable one.
AnswerChange check_against(FileSystem& files, const std::string& path, std::int64_t version,
                           const PublishOptions& options) {
  AnyModel any = read_any_model(files, path);
  check_signatures(any.signatures, version, options.model->signatures);
  const std::string recorded = recorded_requests_of(files, path);
  if (recorded.empty()) return {};
  SavedModel stable;
  stable.graph = std::move(any.graph);
  stable.signatures = std::move(any.signatures);
  stable.values = std::move(any.values);
  const AnswerChange out = answer_change(stable, *options.model, read_recorded_requests(files, recorded));
  if (out.share() > options.most_changed)
    fail(Code::failed_precondition,
         "{:.1f} % of the answers to recorded requests change ({} of {} rows), more than {:.1f} %", 100 * out.share(),
         out.changed, out.rows, 100 * options.most_changed);
  return out;
}

Publication must_have(FileSystem& files, const std::string& directory) {
  const auto out = read_publication(files, directory);
  if (!out) fail(Code::failed_precondition, "{}: nothing has been published here", directory);
  return *out;
}

}  // namespace

std::optional<Publication> read_publication(FileSystem& files, const std::string& directory) {
  const std::string path = join_path(directory, kFile);
  if (!files.exists(path)) return std::nullopt;
  const std::string text = read_file(files, path, kMostBytes);
  try {
    return parse_publication(text);
  } catch (const std::exception& error) {
    fail(Code::data_loss, "{}: {}", path, error.what());
  }
}

std::map<std::string, std::int64_t> labels_of(const Publication& publication) {
  std::map<std::string, std::int64_t> out;
  if (publication.stable) out["stable"] = *publication.stable;
  if (publication.canary) out["canary"] = *publication.canary;
  return out;
}

PublishGate PublishGate::parse(std::string_view text) {
  const auto wrong = [&] {
    invalid_argument("expected a condition like 'val_accuracy >= 0.95' or 'val_loss <= stable + 0.01', not '{}'", text);
  };
  PublishGate out;
  out.text_ = text;
  std::size_t at = text.find(">=");
  if (at == std::string_view::npos) {
    at = text.find("<=");
    out.at_least_ = false;
  }
  if (at == std::string_view::npos) wrong();
  out.figure_ = trimmed(text.substr(0, at));
  std::string_view bound = trimmed(text.substr(at + 2));
  if (out.figure_.empty() || out.figure_.find(' ') != std::string::npos) wrong();
  constexpr std::string_view kStable = "stable";
  double sign = 1;
  if (bound.starts_with(kStable)) {
    out.of_stable_ = true;
    bound = trimmed(bound.substr(kStable.size()));
    if (bound.empty()) return out;
    if (bound.front() != '+' && bound.front() != '-') wrong();
    sign = bound.front() == '-' ? -1 : 1;
    bound = trimmed(bound.substr(1));
    if (bound.starts_with('-')) wrong();
  }
  const auto number = finite(bound);
  if (!number) wrong();
  out.bound_ = sign * *number;
  return out;
}

void PublishGate::check(const Publication::Figures& figures, const Publication::Figures* stable) const {
  const auto own = figures.find(figure_);
  if (own == figures.end()) {
    std::string there;
    for (const auto& [name, value] : figures) there += (there.empty() ? "" : ", ") + name;
    fail(Code::not_found, "'{}': there is no figure {}; there are {}", text_, figure_, there.empty() ? "none" : there);
  }
  double bound = bound_;
  std::string shown;
  if (of_stable_) {
    if (stable == nullptr || !stable->contains(figure_)) return;
    bound += stable->at(figure_);
    shown = fmt::format(", which is {}", bound);
  }
  const bool holds = at_least_ ? own->second >= bound : own->second <= bound;  // not for a figure that is no number
  if (!holds) fail(Code::failed_precondition, "'{}' does not hold: {} is {}{}", text_, figure_, own->second, shown);
}

Published publish_version(FileSystem& files, const std::string& directory, const PublishOptions& options,
                          const std::function<void(const std::string& path)>& write) {
  make_directories(files, directory);
  Publication publication = read_publication(files, directory).value_or(Publication());
  const Publication::Figures* stable = nullptr;
  if (publication.stable)
    if (const auto found = publication.figures.find(*publication.stable); found != publication.figures.end())
      stable = &found->second;
  for (const PublishGate& gate : options.gates) gate.check(options.figures, stable);

  Published out;
  if (publication.stable && options.model != nullptr)
    out.change =
        check_against(files, version_path(files, directory, *publication.stable), *publication.stable, options);

  const std::int64_t version = out.version = next_version(files, directory, publication);
  write(join_path(directory, std::to_string(version) + options.suffix));
  // Another canary is not tried any more: it was never decided upon.
  if (publication.canary) publication.rejected.insert(*publication.canary);
  publication.canary.reset();
  if (options.promote || !publication.stable)
    become_stable(publication, version);
  else
    publication.canary = version;
  for (const auto& [name, value] : options.figures)
    if (std::isfinite(value)) publication.figures[version][name] = value;  // JSON has no others
  write_publication(files, directory, publication);
  return out;
}

std::string version_path(FileSystem& files, const std::string& directory, std::int64_t version) {
  const std::string path = join_path(directory, std::to_string(version));
  if (files.exists(path)) return path;
  if (files.exists(path + ".onnx")) return path + ".onnx";
  fail(Code::not_found, "{}: there is no version {}", directory, version);
}

std::int64_t promote(FileSystem& files, const std::string& directory) {
  Publication publication = must_have(files, directory);
  if (!publication.canary) fail(Code::failed_precondition, "{}: there is no canary to promote", directory);
  const std::int64_t version = *publication.canary;
  publication.canary.reset();
  become_stable(publication, version);
  write_publication(files, directory, publication);
  return version;
}

std::int64_t rollback(FileSystem& files, const std::string& directory) {
  Publication publication = must_have(files, directory);
  std::int64_t version = 0;
  if (publication.canary) {
    version = *publication.canary;
    publication.canary.reset();
  } else {
    if (!publication.stable || publication.before.empty())
      fail(Code::failed_precondition, "{}: there is no canary, and no version before the stable one to go back to",
           directory);
    version = *publication.stable;
    publication.stable = publication.before.back();
    publication.before.pop_back();
  }
  publication.rejected.insert(version);
  write_publication(files, directory, publication);
  return version;
}

}  // namespace troupe
