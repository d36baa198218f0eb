// troupe-checkpoint diff: compares two checkpoints or two saved models.
#include <fmt/core.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "tools/checkpoint/commands.hpp"
#include <troupe/actors/http/json_text.hpp>
#include <troupe/actors/model/saved_model.hpp>
#include <troupe/messages/element_types.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::checkpoints {
namespace {

template <class T>
double distance(const T& a, const T& b) {
  if constexpr (std::is_integral_v<T>) {  // the difference of two i64 fits u64
    const auto high = static_cast<std::uint64_t>(std::max(a, b)), low = static_cast<std::uint64_t>(std::min(a, b));
    return static_cast<double>(high - low);
  } else {
    return std::abs(static_cast<double>(static_cast<std::conditional_t<sizeof(T) == 2, float, T>>(a)) -
                    static_cast<double>(static_cast<std::conditional_t<sizeof(T) == 2, float, T>>(b)));
  }
}

template <class T>
Difference compare_as(const Tensor& a, const Tensor& b) {
  Difference out;
  const auto first = a.values<T>(), second = b.values<T>();
  for (std::size_t i = 0; i < first.size(); ++i) {
    if constexpr (std::is_same_v<T, std::string>) {
      out.elements += first[i] != second[i] ? 1 : 0;
    } else if (std::memcmp(&first[i], &second[i], sizeof(T)) != 0) {
      ++out.elements;
      const double d = distance(first[i], second[i]);
      if (!out.greatest || std::isnan(d) || d > *out.greatest) out.greatest = d;
      if (std::isnan(*out.greatest)) out.greatest = std::nan("");
    }
  }
  return out;
}

class Printer {
 public:
  explicit Printer(bool json) : json_(json) {}

  // Prints what differs and how.
  void say(const std::string& name, std::string_view kind, const std::string& how, nlohmann::json details = {}) {
    ++differences_;
    nlohmann::json line = {{"event", "difference"}, {"name", name}, {"kind", kind}, {"how", how}};
    if (details.is_object()) line.update(details);
    print(line, fmt::format("{} {}: {}", kind, name, how));
  }
  void compare_tensors(const std::string& name, std::string_view kind, const Tensor& a, const Tensor& b) {
    ++compared_;
    if (a.dtype() != b.dtype() || a.shape() != b.shape()) {
      say(name, kind,
          fmt::format("{}{} and {}{}", troupe::name(a.dtype()), a.shape().to_string(), troupe::name(b.dtype()),
                      b.shape().to_string()));
      return;
    }
    const Difference difference = compare(a, b);
    if (difference.elements == 0) return;
    const std::string by = difference.greatest ? fmt::format(", by at most {}", *difference.greatest) : "";
    say(name, kind, fmt::format("{} of {} elements{}", difference.elements, a.num_elements(), by),
        {{"elements", a.num_elements()},
         {"differ", difference.elements},
         {"greatest", difference.greatest ? nlohmann::json(*difference.greatest) : nlohmann::json()}});
  }
  int end() {
    print(
        {{"event", "summary"}, {"compared", compared_}, {"differences", differences_}},
        differences_ == 0 ? fmt::format("equal: {} tensors", compared_) : fmt::format("differences: {}", differences_));
    return differences_ == 0 ? 0 : 1;
  }

 private:
  void print(const nlohmann::json& line, const std::string& text) {
    fmt::print("{}\n", json_ ? json_text(line) : text);
  }

  bool json_;
  int differences_ = 0;
  int compared_ = 0;
};

Checkpoint newest(FileSystem& files, const std::string& path) {
  const std::vector<ListedCheckpoint> listed = checkpoints_at(files, path);
  for (auto at = listed.rbegin(); at != listed.rend(); ++at)
    if (at->committed) return open_checkpoint(files, at->folder);
  fail(Code::not_found, "no committed checkpoint in '{}'", path);
}

void compare_values(const std::map<std::string, Tensor>& a, const std::map<std::string, Tensor>& b, const char* kind,
                    Printer& printer) {
  for (const auto& [name, value] : a) {
    if (const auto other = b.find(name); other == b.end())
      printer.say(name, kind, "only in the first");
    else
      printer.compare_tensors(name, kind, value, other->second);
  }
  for (const auto& [name, value] : b)
    if (!a.contains(name)) printer.say(name, kind, "only in the second");
}

int diff_models(FileSystem& files, const std::string& first, const std::string& second, bool json) {
  const LoadModelOptions whole{.verify_values = true};
  const SavedModel a = read_model(files, first, whole), b = read_model(files, second, whole);
  Printer printer(json);
  compare_values(a.values, b.values, "variable", printer);
  compare_values(a.optimizer, b.optimizer, "slot", printer);
  return printer.end();
}

void compare_states(Checkpoint& a, Checkpoint& b, Printer& printer) {
  const auto states = [](const Checkpoint& checkpoint) {
    std::set<std::pair<std::uint32_t, std::string>> out;
    for (const ShardManifest& shard : checkpoint.manifest().shards)
      for (const TensorEntry& entry : shard.tensors)
        if (entry.kind == TensorKind::state) out.insert({shard.shard, entry.name});
    return out;
  };
  const auto in_a = states(a), in_b = states(b);
  const auto title = [](const auto& state) { return fmt::format("{} of shard {}", state.second, state.first); };
  for (const auto& state : in_a) {
    if (!in_b.contains(state))
      printer.say(title(state), "state", "only in the first");
    else
      printer.compare_tensors(title(state), "state", a.read_state(state.first, state.second),
                              b.read_state(state.first, state.second));
  }
  for (const auto& state : in_b)
    if (!in_a.contains(state)) printer.say(title(state), "state", "only in the second");
}

}  // namespace

Difference compare(const Tensor& a, const Tensor& b) {
  return dispatch(ElementTypes{}, a.dtype(), [&]<class T>() { return compare_as<T>(a, b); });
}

int diff(FileSystem& files, const std::string& first, const std::string& second, bool json) {
  const bool first_model = is_saved_model(files, first), second_model = is_saved_model(files, second);
  if (first_model && second_model) return diff_models(files, first, second, json);
  if (first_model || second_model)
    invalid_argument("'{}' is a saved model but '{}' is not: compare it with another saved model",
                     first_model ? first : second, first_model ? second : first);
  Checkpoint a = newest(files, first), b = newest(files, second);
  Printer printer(json);
  for (const auto& [name, stored] : a.variables()) {
    const std::string_view kind = troupe::name(stored.kind);
    if (!b.variables().contains(name))
      printer.say(name, kind, "only in the first");
    else
      printer.compare_tensors(name, kind, a.read(name), b.read(name));
  }
  for (const auto& [name, stored] : b.variables())
    if (!a.variables().contains(name)) printer.say(name, troupe::name(stored.kind), "only in the second");
  compare_states(a, b, printer);
  return printer.end();
}

}  // namespace troupe::checkpoints
