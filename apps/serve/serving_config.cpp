#include "apps/serve/serving_config.hpp"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "apps/serve/proto/serving_config.pb.h"
#include <troupe/devices/storage/file_systems.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

namespace proto = ::tensorflow::serving;

constexpr std::uint64_t kLongestFile = 64 << 20;
// Messages within messages: an Any may have further ones without end.
constexpr int kDeepestText = 32;

std::string text_of(const std::string& path) { return read_file(file_system_of(path), path, kLongestFile); }

// Of model_platform: what a directory has is seen in it.
constexpr std::array<std::string_view, 4> kPlatforms = {"", "tensorflow", "onnx", "troupe"};

// Keeps the first error.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  explicit FirstError(std::string path) : path_(std::move(path)) {}
  void AddError(int line, int column, const std::string& message) override {
    if (!text.empty()) return;
    text = line < 0 ? fmt::format("{}: {}", path_, message)
                    : fmt::format("{}:{}:{}: {}", path_, line + 1, column + 1, message);
  }
  std::string text;

 private:
  const std::string path_;
};

template <class Message>
Message parse_text(const std::string& text, const std::string& path) {
  FirstError error(path);
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(kDeepestText);
  Message out;
  if (!parser.ParseFromString(text, &out))
    invalid_argument("{}", error.text.empty() ? path + ": this is no text of TensorFlow Serving" : error.text);
  return out;
}

VersionPolicy policy_of(const proto::FileSystemStoragePathSourceConfig::ServableVersionPolicy& policy) {
  if (policy.has_all()) return AllVersions{};
  if (policy.has_specific()) {
    SpecificVersions out;
    for (const std::int64_t version : policy.specific().versions()) out.versions.push_back(version);
    if (out.versions.empty()) invalid_argument("model_version_policy.specific lists no versions");
    return out;
  }
  return LatestVersions{std::max<std::size_t>(policy.latest().num_versions(), 1)};
}

ServedModel model_of(const proto::ModelConfig& config) {
  if (std::ranges::find(kPlatforms, config.model_platform()) == kPlatforms.end())
    fail(Code::unimplemented, "model_platform '{}': there are tensorflow, onnx and troupe", config.model_platform());
  ServedModel out{
      .name = config.name(), .path = config.base_path(), .versions = policy_of(config.model_version_policy())};
  if (out.name.empty()) invalid_argument("it has no name");
  if (out.path.empty()) invalid_argument("it has no base_path");
  for (const auto& [label, version] : config.version_labels()) out.labels.emplace(label, version);
  return out;
}

}  // namespace

std::vector<ServedModel> models_of(const proto::ModelServerConfig& config) {
  if (config.has_custom_model_config())
    fail(Code::unimplemented, "custom_model_config: list models in model_config_list");
  std::vector<ServedModel> out;
  std::set<std::string> names;
  for (const proto::ModelConfig& model : config.model_config_list().config()) try {
      out.push_back(model_of(model));
      if (!names.insert(out.back().name).second) invalid_argument("another has its name");
    } catch (const Error& error) {
      throw error.within(fmt::format("model {} ('{}')", out.size() + 1, model.name()));
    }
  return out;
}

std::vector<ServedModel> read_serving_config(const std::string& path) {
  return parse_serving_config(text_of(path), path);
}

std::vector<ServedModel> parse_serving_config(const std::string& text, const std::string& path) {
  const auto config = parse_text<proto::ModelServerConfig>(text, path);
  try {
    std::vector<ServedModel> out = models_of(config);
    if (out.empty())
      invalid_argument("it lists no models: model_config_list {{ config {{ name: ... base_path: ... }} }}");
    return out;
  } catch (const Error& error) {
    throw error.within(path);
  }
}

BatchQueue::Options read_batching_parameters(const std::string& path) {
  const auto given = parse_text<proto::BatchingParameters>(text_of(path), path);
  BatchQueue::Options out{.above = kBatchAbove};
  const auto whole = [](const auto& value, std::int64_t low, const char* name) {
    if (value.value() < low) invalid_argument("{}: {} is below {}", name, value.value(), low);
    return value.value();
  };
  try {
    if (given.has_max_batch_size()) out.most_rows = whole(given.max_batch_size(), 1, "max_batch_size");
    if (given.has_batch_timeout_micros()) {
      const std::int64_t timeout = whole(given.batch_timeout_micros(), 0, "batch_timeout_micros");
      if (timeout > 60 * kSecond / kMicrosecond) invalid_argument("batch_timeout_micros: {} is over a minute", timeout);
      out.timeout = timeout * kMicrosecond;
    }
    if (given.has_num_batch_threads())
      out.at_once = static_cast<std::size_t>(whole(given.num_batch_threads(), 1, "num_batch_threads"));
    for (const std::int64_t size : given.allowed_batch_sizes()) out.allowed_sizes.push_back(size);
    if (given.has_max_enqueued_batches()) {
      const std::int64_t batches = whole(given.max_enqueued_batches(), 1, "max_enqueued_batches");
      if (batches > std::numeric_limits<std::int64_t>::max() / out.most_rows)
        invalid_argument("max_enqueued_batches: {} batches of {} rows are too many", batches, out.most_rows);
      out.most_waiting = batches * out.most_rows;
    }
    static_cast<void>(BatchQueue(out));
    return out;
  } catch (const Error& error) {
    throw error.within(path);
  }
}

}  // namespace troupe
