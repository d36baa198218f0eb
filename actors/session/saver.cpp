#include "troupe/actors/session/saver.hpp"

#include <algorithm>

#include <troupe/actors/checkpoint/reader.hpp>
#include <troupe/actors/checkpoint/writer.hpp>
#include <troupe/devices/storage/file_systems.hpp>
#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/builder/hash_table.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/name_pattern.hpp>
#include <troupe/graph/optimizers/optimizers.hpp>
#include <troupe/messages/ids.hpp>
#include <troupe/scheduler/training/job_state.hpp>

namespace troupe {
namespace {

constexpr const char* kSaverMode = "session";  // instead of a job's
constexpr const char* kSkippedSteps = "skipped";

// A hash table: what is saved of it, and through what it is restored.
struct SavedTable {
  std::string name;
  VariableInfo keys, values;  // names, dtypes and shapes of the two tensors
  Outputs entries;            // both, read
  Output new_keys, new_values, import;
};

SavedTable saved_table(Graph& graph, const MutableHashTable& table) {
  SavedTable out{.name = table.handle().source().name};
  const auto describe = [&](const char* part, DType dtype, const Shape& each) {
    VariableInfo info;
    info.name = out.name + part;
    info.dtype = dtype;
    info.shape = Shape{kUnknown}.concatenated(each);
    return info;
  };
  out.keys = describe("-keys", table.key_dtype(), Shape{});
  out.values = describe("-values", table.value_dtype(), table.value_shape());
  const auto plain = graph.without_defaults();
  const auto entries = table.export_entries(graph.unique_name(out.name + "/saved"));
  out.entries = {entries.keys, entries.values};
  out.new_keys = placeholder(graph, out.keys.dtype, out.keys.shape, graph.unique_name(out.keys.name));
  out.new_values = placeholder(graph, out.values.dtype, out.values.shape, graph.unique_name(out.values.name));
  out.import = table.import_entries(out.new_keys, out.new_values, graph.unique_name(out.name + "/restored"));
  return out;
}

struct Chosen {
  std::vector<VariableInfo> variables;
  std::vector<SavedTable> tables;
};

Chosen chosen(Graph& graph, const SaverOptions& options) {
  std::vector<VariableInfo> all = variables(graph);
  std::vector<MutableHashTable> tables = hash_tables(graph);
  const auto name_of = [](const MutableHashTable& table) { return table.handle().source().name; };
  for (const std::string& pattern : options.only)
    if (std::ranges::none_of(all, [&](const VariableInfo& v) { return matches(pattern, v.name); }) &&
        std::ranges::none_of(tables, [&](const MutableHashTable& t) { return matches(pattern, name_of(t)); }))
      invalid_argument("no variable matches '{}'", pattern);
  const auto left_out = [&](const std::string& name) {
    const auto fits = [&](const std::string& pattern) { return matches(pattern, name); };
    return (!options.only.empty() && std::ranges::none_of(options.only, fits)) ||
           std::ranges::any_of(options.except, fits);
  };
  std::erase_if(all, [&](const VariableInfo& v) { return left_out(v.name); });
  std::erase_if(tables, [&](const MutableHashTable& t) { return left_out(name_of(t)); });
  if (all.empty() && tables.empty()) invalid_argument("there is no variable to save");
  Chosen out{.variables = std::move(all), .tables = {}};
  for (const MutableHashTable& table : tables) out.tables.push_back(saved_table(graph, table));
  return out;
}

// A job does not save how often its optimizer has updated: it follows from the step.
std::optional<Tensor> update_count(Checkpoint& from, const std::string& variable) {
  if (!is_update_count(variable) || from.manifest().job.mode == kSaverMode) return std::nullopt;
  std::int64_t skipped = 0;
  for (const ShardManifest& shard : from.manifest().shards)
    skipped = std::max(skipped, from.read_state(shard.shard, kSkippedSteps).item<std::int64_t>());
  return Tensor::scalar(static_cast<std::int64_t>(from.manifest().id.version) - skipped);
}

Tensor stored_value(Checkpoint& from, const VariableInfo& v) {
  if (auto count = update_count(from, v.name)) return *count;
  const auto stored = from.variables().find(v.name);
  if (stored == from.variables().end())
    fail(Code::failed_precondition,
         "'{}' has no variable '{}': restore with a saver that leaves it out, or from saves of this program",
         from.folder(), v.name);
  if (stored->second.dtype != v.dtype || !v.shape.compatible_with(stored->second.shape))
    fail(Code::failed_precondition, "'{}': '{}' is {}{}, but the session's is {}{}: the save is of another program",
         from.folder(), v.name, name(stored->second.dtype), stored->second.shape.to_string(), name(v.dtype),
         v.shape.to_string());
  return from.read(v.name);
}

// Targets and feeds that set variables in one step.
struct Assignments {
  Feeds feeds;
  Outputs targets;
};

Assignments assignments_of(Graph& graph, const std::map<std::string, Tensor>& values) {
  std::map<std::string, VariableInfo> known;
  for (VariableInfo& v : variables(graph)) known.emplace(v.name, std::move(v));
  Assignments out;
  for (const auto& [name, value] : values) {
    const auto at = known.find(name);
    if (at == known.end()) fail(Code::not_found, "the graph has no variable '{}'", name);
    const VariableInfo& v = at->second;
    if (value.dtype() != v.dtype || !v.shape.compatible_with(value.shape()))
      invalid_argument("the value for '{}' is {}{}, but the variable is {}{}", name, troupe::name(value.dtype()),
                       value.shape().to_string(), troupe::name(v.dtype), v.shape.to_string());
    if (v.initial_value.node < 0 || v.initializer.empty())
      invalid_argument("variable '{}' has no initializer, through which its value could be set", name);
    out.feeds.emplace_back(Output{&graph, v.initial_value.node, v.initial_value.index}, value);
    out.targets.push_back(graph.output(graph.get(v.initializer)));
  }
  return out;
}

}  // namespace

class Saver::Impl {
 public:
  Impl(Session& session, Graph& graph, SaverOptions options, FileSystem& files)
      : session_(session), graph_(graph), options_(std::move(options)), files_(files) {
    if (options_.directory.empty()) invalid_argument("a saver needs a directory");
    if (options_.keep < 1) invalid_argument("at least one save must be kept, not {}", options_.keep);
    chosen_ = chosen(graph, options_);
    Outputs reads;
    for (const VariableInfo& v : chosen_.variables) reads.push_back(find_variable(graph, v.name).read());
    for (const SavedTable& table : chosen_.tables)
      reads.insert(reads.end(), table.entries.begin(), table.entries.end());
    if (!chosen_.tables.empty()) session.extend(graph);
    read_ = session.callable({}, reads);
  }

  void save(std::uint64_t step) {
    check_newest(step);
    std::vector<std::string> names;
    for (const VariableInfo& v : chosen_.variables) names.push_back(v.name);
    for (const SavedTable& table : chosen_.tables) names.insert(names.end(), {table.keys.name, table.values.name});
    std::vector<Tensor> values = read_({});
    ShardContents contents;
    for (std::size_t i = 0; i < names.size(); ++i)
      contents.tensors.push_back({.name = names[i], .value = std::move(values[i])});
    CheckpointManifest manifest;
    manifest.id = {step, random_id()};
    manifest.job.mode = kSaverMode;
    manifest.job.extra = JobState{.step = step}.to_string();
    manifest.shards = {write_shard(files_, options_.directory, manifest.id, std::move(contents))};
    commit_checkpoint(files_, options_.directory, manifest);
    remove_old_checkpoints(files_, options_.directory, options_.keep, step);
  }

  std::optional<std::uint64_t> restore_newest(std::map<std::string, std::string>& passed_over) {
    auto from = newest_whole_checkpoint(
        files_, options_.directory,
        [&](const std::string& folder, const Error& reason) { passed_over[folder] = reason.message(); });
    return from ? std::optional(restore(*from)) : std::nullopt;
  }
  std::uint64_t restore_from(const std::string& folder) {
    Checkpoint from = open_checkpoint(files_, folder);
    return restore(from);
  }

 private:
  std::uint64_t restore(Checkpoint& from) {
    std::map<std::string, Tensor> values;
    for (const VariableInfo& v : chosen_.variables) values.emplace(v.name, stored_value(from, v));
    Assignments assignments = assignments_of(graph_, values);
    for (const SavedTable& table : chosen_.tables) {
      Tensor keys = stored_value(from, table.keys), entries = stored_value(from, table.values);
      if (keys.num_elements() != entries.shape().dim(0))
        fail(Code::failed_precondition, "'{}': table '{}' has {} keys, but {} values: the save is of another program",
             from.folder(), table.name, keys.num_elements(), entries.shape().dim(0));
      assignments.feeds.emplace_back(table.new_keys, std::move(keys));
      assignments.feeds.emplace_back(table.new_values, std::move(entries));
      assignments.targets.push_back(table.import);
    }
    session_.run(assignments.feeds, {}, assignments.targets);
    return from.manifest().id.version;
  }

  // A later save would be taken for the newest, and this one be removed as old.
  void check_newest(std::uint64_t step) {
    const std::vector<ListedCheckpoint> listed = list_checkpoints(files_, options_.directory);
    const auto is_later = [&](const ListedCheckpoint& c) { return c.committed && c.version > step; };
    if (std::ranges::none_of(listed, is_later)) return;
    if (const auto newest = newest_whole_checkpoint(files_, options_.directory);
        newest && newest->manifest().id.version > step)
      fail(Code::failed_precondition,
           "cannot save step {} in '{}', which holds step {}: restore() first, or use another directory", step,
           options_.directory, newest->manifest().id.version);
  }

  Session& session_;
  Graph& graph_;
  SaverOptions options_;
  FileSystem& files_;
  Chosen chosen_;
  Callable read_;
};

Saver::Saver(Session& session, Graph& graph, SaverOptions options, FileSystem& files)
    : impl_(std::make_unique<Impl>(session, graph, std::move(options), files)) {}
Saver::Saver(Session& session, Graph& graph, SaverOptions options)
    : Saver(session, graph, options, file_system_of(options.directory)) {}

Saver::~Saver() = default;

void Saver::save(std::uint64_t step) { impl_->save(step); }

std::optional<std::uint64_t> Saver::restore() {
  passed_over_.clear();
  return impl_->restore_newest(passed_over_);
}

std::uint64_t Saver::restore(const std::string& folder) { return impl_->restore_from(folder); }

void assign_variables(Session& session, Graph& graph, const std::map<std::string, Tensor>& values) {
  const Assignments assignments = assignments_of(graph, values);
  if (!assignments.targets.empty()) session.run(assignments.feeds, {}, assignments.targets);
}

}  // namespace troupe
