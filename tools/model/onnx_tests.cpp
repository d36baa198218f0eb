// troupe-model test: folders with model.onnx and test_data_set_N/{input,output}_K.pb.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/model/commands.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/http/json_text.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/formats/onnx/onnx.hpp>
#include <troupe/messages/element_types.hpp>
#include <troupe/messages/tensor_list.hpp>

namespace troupe::model_tool {
namespace {

namespace fs = std::filesystem;

// ONNX's tolerance: |found - wanted| <= kAbsolute + kRelative |wanted|.
constexpr double kRelative = 1e-3, kAbsolute = 1e-7;
constexpr std::uint64_t kMaxValueBytes = 1 << 30;

template <class T>
bool close(const T& found, const T& wanted) {
  if constexpr (std::is_same_v<T, std::string>) {
    return found == wanted;
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return close(found.bits, wanted.bits);  // as ONNX does, whose data are truncated: it has no bf16 but its bits
  } else {
    const auto a = static_cast<double>(static_cast<Compute<T>>(found)),
               b = static_cast<double>(static_cast<Compute<T>>(wanted));
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    return a == b || std::abs(a - b) <= kAbsolute + kRelative * std::abs(b);
  }
}

// Why the values differ; "" if they do not.
std::string difference(const Tensor& found, const Tensor& wanted) {
  if (found.dtype() == DType::list && wanted.dtype() == DType::list) {
    const auto a = list_items(found), b = list_items(wanted);
    if (a.size() != b.size()) return fmt::format("has {} items, not {}", a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i)
      if (const std::string why = difference(a[i], b[i]); !why.empty()) return fmt::format("item {} {}", i, why);
    return "";
  }
  if (found.dtype() != wanted.dtype() || found.shape() != wanted.shape())
    return fmt::format("is {}{}, not {}{}", name(found.dtype()), found.shape().to_string(), name(wanted.dtype()),
                       wanted.shape().to_string());
  return dispatch(ElementTypes{}, found.dtype(), [&]<class T>() -> std::string {
    const auto a = found.values<T>(), b = wanted.values<T>();
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (close(a[i], b[i])) continue;
      const Tensor one = Tensor::of<T>(Shape{}, a.subspan(i, 1)), other = Tensor::of<T>(Shape{}, b.subspan(i, 1));
      return fmt::format("element {} of {} is {}, not {}", i, a.size(), one.to_string(), other.to_string());
    }
    return "";
  });
}

// The values of files PREFIX_0.pb, PREFIX_1.pb, ...
std::vector<Tensor> values_in(const fs::path& folder, const std::string& prefix, const std::vector<OnnxValue>& of) {
  std::vector<Tensor> out;
  for (std::size_t i = 0;; ++i) {
    const fs::path path = folder / fmt::format("{}_{}.pb", prefix, i);
    if (!fs::exists(path)) return out;
    if (i >= of.size()) invalid_argument("{}: the model has only {} {}s", path.filename().string(), of.size(), prefix);
    out.push_back(parse_onnx_value(read_file(posix_file_system(), path.string(), kMaxValueBytes), of[i].type));
  }
}

struct Outcome {
  std::string result;  // passed, failed, unsupported
  std::string why{};
};

// Whether one set of data passes; "" if it does.
std::string run_set(Session& session, const OnnxModel& model, const fs::path& folder) {
  const std::vector<Tensor> inputs = values_in(folder, "input", model.inputs),
                            wanted = values_in(folder, "output", model.outputs);
  Feeds feeds;
  for (std::size_t i = 0; i < inputs.size(); ++i) feeds.emplace_back(model.inputs[i].output, inputs[i]);
  Outputs fetches;
  for (std::size_t i = 0; i < wanted.size(); ++i) fetches.push_back(model.outputs[i].output);
  const std::vector<Tensor> found = session.run(feeds, fetches);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (const std::string why = difference(found[i], wanted[i]); !why.empty())
      return fmt::format("{}: output {} '{}' {}", folder.filename().string(), i, model.outputs[i].name, why);
  return "";
}

constexpr OnnxImportOptions kConstants{.weights = OnnxImportOptions::Weights::constants};

// The model that this one is written as.
OnnxModel written_and_read(const OnnxModel& model) {
  return parse_onnx(to_onnx(*model.graph, {.inputs = model.inputs, .outputs = model.outputs}), kConstants);
}

Outcome run_test(Task& task, const fs::path& folder, bool again) {
  try {
    OnnxModel model = import_onnx((folder / "model.onnx").string(), kConstants);
    if (again) model = written_and_read(model);
    Session session(task, *model.graph);
    int sets = 0;
    for (; fs::exists(folder / fmt::format("test_data_set_{}", sets)); ++sets)
      if (std::string why = run_set(session, model, folder / fmt::format("test_data_set_{}", sets)); !why.empty())
        return {"failed", std::move(why)};
    return sets > 0 ? Outcome{"passed"} : Outcome{"failed", "there is no test_data_set_0"};
  } catch (...) {
    const Error error = current_error();
    return {error.code() == Code::unimplemented ? "unsupported" : "failed", error.message()};
  }
}

}  // namespace

int test(FileSystem&, const Options& options) {
  std::vector<fs::path> tests;
  for (const std::string& folder : options.paths) {
    if (!fs::is_directory(folder)) fail(Code::not_found, "'{}' is not a folder", folder);
    if (fs::exists(fs::path(folder) / "model.onnx")) tests.emplace_back(folder);
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.is_directory() && fs::exists(entry.path() / "model.onnx")) tests.push_back(entry.path());
  }
  if (tests.empty()) fail(Code::not_found, "no folder with a model.onnx in {}", options.paths.front());
  std::ranges::sort(tests);

  Task task({.threads = options.threads});
  std::map<std::string, int> counts{{"passed", 0}, {"failed", 0}, {"unsupported", 0}};
  for (const fs::path& folder : tests) {
    const Outcome outcome = run_test(task, folder, options.again);
    ++counts[outcome.result];
    const std::string name = folder.filename().string();
    if (options.json)
      fmt::print("{}\n",
                 json_text({{"event", "test"}, {"name", name}, {"result", outcome.result}, {"why", outcome.why}}));
    else if (outcome.result != "passed")
      fmt::print("{} {}: {}\n", outcome.result, name, outcome.why);
  }
  if (options.json)
    fmt::print("{}\n", json_text({{"event", "final"},
                                  {"passed", counts["passed"]},
                                  {"failed", counts["failed"]},
                                  {"unsupported", counts["unsupported"]}}));
  else
    fmt::print("{} passed, {} failed, {} unsupported\n", counts["passed"], counts["failed"], counts["unsupported"]);
  return counts["failed"] + counts["unsupported"] == 0 ? 0 : 1;
}

}  // namespace troupe::model_tool
