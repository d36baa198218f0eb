#include "tools/model/runner.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <random>

#include <troupe/actors/model/values.hpp>
#include <troupe/messages/element_types.hpp>

namespace troupe::model_tool {

std::string title(ModelFormat format) {
  return format == ModelFormat::troupe ? "a model of Troupe"
         : format == ModelFormat::onnx ? "a model of ONNX"
                                       : "a model of TensorFlow";
}

std::string type_text(const ModelSignature::TensorSpec& spec) {
  return fmt::format("{}{}", name(spec.dtype), spec.shape.to_string());
}

std::string specs_text(const std::map<std::string, ModelSignature::TensorSpec>& specs) {
  std::string out;
  for (const auto& [key, spec] : specs) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", key, type_text(spec));
  return out.empty() ? "nothing" : out;
}

Runner::Runner(Task& task, const AnyModel& model, const std::string& signature, bool inference)
    : name_(signature_named(model, signature)) {
  SessionOptions session;
  if (inference) session.inference = InferencePasses{};
  const LoadedModel loaded({.graph = model.graph, .signatures = model.signatures, .values = model.values},
                           {.task = &task, .session = session});
  call_ = loaded.callable(name_);
}

void Runner::check_inputs(const NamedTensors& inputs, const std::string& source) const {
  const std::string takes = fmt::format("signature '{}' takes {}", name_, specs_text(signature().inputs));
  for (const auto& [key, spec] : signature().inputs) {
    const auto found = inputs.find(key);
    if (found == inputs.end()) invalid_argument("{} has no '{}': {}", source, key, takes);
    const Tensor& value = found->second;
    if (value.dtype() != spec.dtype || !spec.shape.compatible_with(value.shape()))
      invalid_argument("{}: '{}' is {}{}, but must be {}: {}", source, key, name(value.dtype()),
                       value.shape().to_string(), type_text(spec), takes);
  }
  for (const auto& [key, value] : inputs)
    if (!signature().inputs.contains(key)) invalid_argument("{} has '{}', which is no input: {}", source, key, takes);
}

NamedTensors Runner::run(const NamedTensors& inputs) const {
  std::vector<Tensor> feeds;
  for (const auto& [key, spec] : signature().inputs) feeds.push_back(inputs.at(key));
  std::vector<Tensor> found = call_(std::move(feeds));
  NamedTensors out;
  std::size_t i = 0;
  for (const auto& [key, spec] : signature().outputs) out[key] = std::move(found[i++]);
  return out;
}

NamedTensors random_inputs(const ModelSignature& signature, std::int64_t batch, std::int64_t size) {
  std::mt19937 random(1);
  NamedTensors out;
  for (const auto& [key, spec] : signature.inputs) {
    if (!spec.shape.has_rank()) invalid_argument("input '{}' is of any rank: pass values with --inputs", key);
    Shape shape = spec.shape;
    for (int d = 0; d < shape.rank(); ++d)
      if (shape[d] == kUnknown) shape.set_dim(d, d == 0 ? batch : size);
    if (spec.dtype == DType::list || spec.dtype == DType::resource)
      fail(Code::unimplemented, "input '{}' is a {}, which has no values in files", key, name(spec.dtype));
    Tensor value(spec.dtype, shape);
    dispatch(ElementTypes{}, spec.dtype, [&]<class T>() {
      for (T& element : value.mutable_values<T>()) {
        const auto bits = static_cast<std::uint32_t>(random());
        if constexpr (std::is_same_v<T, std::string>)
          element = bits % 2 ? "one word" : "another";
        else if constexpr (std::is_same_v<T, bool>)
          element = bits % 2 == 0;
        else if constexpr (std::is_same_v<T, std::uint8_t>)
          element = static_cast<T>(bits % 256);
        else if constexpr (std::is_integral_v<T>)
          element = static_cast<T>(bits % 2);
        else
          element = T(static_cast<float>(bits >> 8) / static_cast<float>(1 << 23) - 1.0f);
      }
    });
    out[key] = std::move(value);
  }
  return out;
}

NamedTensors inputs_of(FileSystem& files, const Options& options, const Runner& runner, std::int64_t batch) {
  if (options.inputs.empty()) return random_inputs(runner.signature(), batch, options.size);
  NamedTensors out = load_values(files, options.inputs);
  runner.check_inputs(out, fmt::format("'{}'", options.inputs));
  return out;
}

double difference_of(const NamedTensors& found, const NamedTensors& wanted) {
  double largest = 0;
  for (const auto& [key, b] : wanted) {
    const auto same = found.find(key);
    if (same == found.end()) fail(Code::failed_precondition, "output '{}' is missing", key);
    const Tensor& a = same->second;
    if (a.dtype() != b.dtype() || a.shape() != b.shape())
      fail(Code::failed_precondition, "output '{}' is {}{}, not {}{}", key, name(a.dtype()), a.shape().to_string(),
           name(b.dtype()), b.shape().to_string());
    dispatch(ElementTypes{}, a.dtype(), [&]<class T>() {
      const auto x = a.values<T>(), y = b.values<T>();
      for (std::size_t i = 0; i < x.size(); ++i) {
        if constexpr (std::is_integral_v<T> || std::is_same_v<T, std::string>) {
          if (x[i] != y[i]) fail(Code::failed_precondition, "output '{}': element {} of {} differs", key, i, x.size());
        } else {
          const auto p = static_cast<double>(static_cast<Compute<T>>(x[i])),
                     q = static_cast<double>(static_cast<Compute<T>>(y[i]));
          if (p == q || (std::isnan(p) && std::isnan(q))) continue;
          const double difference = std::abs(p - q) / (1 + std::abs(q));
          largest = std::max(largest, std::isnan(difference) ? HUGE_VAL : difference);
        }
      }
    });
  }
  return largest;
}

Stage::Stage(const std::string& what) : shown_(::isatty(STDERR_FILENO) == 1) {
  if (!shown_) return;
  fmt::print(stderr, "\r\x1b[K{} ...", what);
  std::fflush(stderr);
}
Stage::~Stage() {
  if (!shown_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
}

}  // namespace troupe::model_tool
