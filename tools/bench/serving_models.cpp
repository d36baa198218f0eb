#include "tools/bench/serving_models.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tools/bench/kernel_step.hpp"
#include <troupe/actors/model/loaded_model.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>

namespace troupe::bench {
namespace {

constexpr const char* kSignature = "predict";
constexpr double kServedTolerance = 1e-3;
constexpr std::size_t kMostKnown = 256;
constexpr std::int64_t kVersionColumns = 4;

ModelSignature::TensorSpec spec_of(const Output& output) {
  return {.tensor = output.name(), .dtype = output.dtype(), .shape = output.shape()};
}

Shape any_rows_of(const Tensor& x) {
  std::vector<std::int64_t> dims(x.shape().dims().begin(), x.shape().dims().end());
  dims.at(0) = kUnknown;
  return Shape(dims);
}

Tensor computed(const SavedModel& model, const Tensor& x) {
  Task task{{.threads = 1, .gpus = {.count = 0}}};
  return LoadedModel(model, {.task = &task}).run(kSignature, {{"x", x}}).at("y");
}

ServedExample example(Graph& graph, const Output& x, const Output& y, Parameters values, const Tensor& rows) {
  ServedExample out;
  out.model = {.graph = graph.clone(),
               .signatures = {{kSignature, {.inputs = {{"x", spec_of(x)}}, .outputs = {{"y", spec_of(y)}}}}},
               .values = std::move(values)};
  out.x = rows;
  out.y = computed(out.model, rows);
  return out;
}

std::string number_text(const Tensor& x, std::size_t at) {
  if (x.dtype() == DType::i32) return std::to_string(x.values<std::int32_t>()[at]);
  return fmt::format("{:.6f}", x.values<float>()[at]);
}

std::string differs(const std::vector<float>& values, const Tensor& y) {
  const auto expected = y.values<float>();
  if (values.size() != expected.size())
    return fmt::format("{} numbers, where {} are expected", values.size(), expected.size());
  try {
    check_close(Tensor::of<float>(y.shape(), values), expected.data(), kServedTolerance);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

void append_numbers(const nlohmann::json& value, std::vector<float>& out) {
  if (value.is_array()) {
    for (const auto& one : value) append_numbers(one, out);
  } else {
    out.push_back(value.get<float>());
  }
}

// Of one row: the version that all its numbers agree on.
std::int64_t version_of_row(const nlohmann::json& row, const float* x) {
  const auto version = row.at("version").get<std::int64_t>();
  for (std::int64_t i = 0; i < kVersionColumns; ++i) {
    const auto v = static_cast<float>(version);
    if (row.at("y").at(static_cast<std::size_t>(i)).get<float>() != x[i] * v + v)
      fail(Code::internal, "a row is of two versions: {}", row.dump());
  }
  return version;
}

}  // namespace

ServedExample example_of(const Sequential& layers, const Tensor& rows) {
  Graph graph;
  const Output x = placeholder(graph, rows.dtype(), any_rows_of(rows), "x");
  VariablePool pool;
  LayerContext context{.graph = graph, .variables = pool};
  const Output y = identity(layers.apply(context, x), "y");
  const Output start = initializer(graph);
  Task task{{.threads = 1, .gpus = {.count = 0}}};
  Session session(task, graph);
  session.run_targets({start});
  Parameters values;
  for (const VariableInfo& v : variables(graph)) values[v.name] = session.run(find_variable(graph, v.name).read());
  return example(graph, x, y, std::move(values), rows);
}

ServedExample square_matrix(std::int64_t size) {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {kUnknown, size}, "x");
  const VariableRef w = variable(graph, {.name = "w", .shape = {size, size}});
  const Output y = identity(matmul(x, w.read()), "y");
  Tensor values(DType::f32, {size, size});
  std::uint32_t bits = 1;
  for (float& value : values.mutable_values<float>()) {
    bits = bits * 1664525 + 1013904223;
    value = static_cast<float>(bits >> 8) * 0x1p-24f - 0.5f;
  }
  return example(graph, x, y, {{"w", values}}, random_tensor({1, size}, 1));
}

SavedModel model_of_version(std::int64_t version) {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {kUnknown, kVersionColumns}, "x");
  const VariableRef times = variable(graph, {.name = "times", .shape = {kVersionColumns}});
  const VariableRef plus = variable(graph, {.name = "plus", .shape = {kVersionColumns}});
  const Output y = add(mul(x, times.read()), plus.read(), "y");
  const auto v = static_cast<float>(version);
  const Output zeros = mul(sum(x, {1}), constant(graph, Tensor::scalar(0.0f)));
  const Output number = add(zeros, constant(graph, Tensor::scalar(v)), "version");
  const Tensor weights = Tensor::of<float>({kVersionColumns}, std::vector<float>(kVersionColumns, v));
  return {
      .graph = graph.clone(),
      .signatures = {{kSignature,
                      {.inputs = {{"x", spec_of(x)}}, .outputs = {{"y", spec_of(y)}, {"version", spec_of(number)}}}}},
      .values = {{"times", weights}, {"plus", weights}}};
}

std::string rest_body(const Tensor& x) {
  const std::int64_t rows = x.shape()[0];
  const auto size = static_cast<std::size_t>(x.num_elements() / rows);
  std::string out = R"({"instances": [)";
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    out += row == 0 ? "[" : ", [";
    for (std::size_t i = 0; i < size; ++i) out += (i == 0 ? "" : ", ") + number_text(x, row * size + i);
    out += "]";
  }
  return out + "]}";
}

std::string wrong_rest_answer(std::string_view body, const Tensor& y) {
  try {
    std::vector<float> values;
    append_numbers(nlohmann::json::parse(body).at("predictions"), values);
    return differs(values, y);
  } catch (const nlohmann::json::exception& error) {
    return fmt::format("{}: {}", error.what(), body.substr(0, 200));
  }
}

std::string wrong_version_answer(std::string_view body, const Tensor& x, std::int64_t first, std::int64_t last) {
  try {
    const auto rows = nlohmann::json::parse(body).at("predictions");
    if (rows.size() != static_cast<std::size_t>(x.shape()[0]))
      return fmt::format("{} rows, where {} are expected", rows.size(), x.shape()[0]);
    const float* const values = x.values<float>().data();
    const std::int64_t version = version_of_row(rows[0], values);
    for (std::size_t row = 1; row < rows.size(); ++row)
      if (version_of_row(rows[row], values + row * kVersionColumns) != version)
        return fmt::format("rows are of several versions: {}", body.substr(0, 200));
    if (version < first || version > last)
      return fmt::format("of version {}, where {} to {} are there", version, first, last);
    return "";
  } catch (const nlohmann::json::exception& error) {
    return fmt::format("{}: {}", error.what(), body.substr(0, 200));
  } catch (const Error& error) {
    return error.message();
  }
}

std::string KnownAnswers::wrong(std::string_view answer) {
  if (std::ranges::find(right_, answer) != right_.end()) return "";
  std::string what = check_(answer);
  if (what.empty() && right_.size() < kMostKnown) right_.emplace_back(answer);
  return what;
}

}  // namespace troupe::bench
