// Models of tests of serving, and requests for them.
#pragma once

#include <future>
#include <map>
#include <string>
#include <utility>

#include "tests/patience.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/model/saved_model.hpp>
#include <troupe/actors/serving/model_server.hpp>
#include <troupe/graph/builder/builder.hpp>

namespace troupe::testing {

// "y" [?,2] is "x" [?,2] times the version, "version" [?] the version itself in each row.
inline SavedModel times_model(float version) {
  SavedModel out;
  out.graph = std::make_shared<Graph>();
  const Output x = placeholder(*out.graph, DType::f32, {kUnknown, 2}, "x");
  const Output y = mul(x, constant(*out.graph, Tensor::scalar(version)), "y");
  const Output ones = add(mul(sum(x, {1}), constant(*out.graph, Tensor::scalar(0.0f))),
                          constant(*out.graph, Tensor::scalar(version)), "version");
  out.signatures["predict"] = {.inputs = {{"x", {"x", DType::f32, Shape{kUnknown, 2}}}},
                               .outputs = {{"y", {y.name(), DType::f32, Shape{kUnknown, 2}}},
                                           {"version", {ones.name(), DType::f32, Shape{kUnknown}}}}};
  return out;
}

// "y" [?,2] is "a" [?,2] plus "b" [?,2].
inline SavedModel sum_model() {
  SavedModel out;
  out.graph = std::make_shared<Graph>();
  const Output a = placeholder(*out.graph, DType::f32, {kUnknown, 2}, "a"),
               b = placeholder(*out.graph, DType::f32, {kUnknown, 2}, "b");
  const Output y = add(a, b, "y");
  const Shape rows{kUnknown, 2};
  out.signatures["predict"] = {.inputs = {{"a", {"a", DType::f32, rows}}, {"b", {"b", DType::f32, rows}}},
                               .outputs = {{"y", {y.name(), DType::f32, rows}}}};
  return out;
}

inline void save_version(const TemporaryDirectory& directory, const std::string& model, int version) {
  std::filesystem::create_directories(directory.file(model));
  save_model(posix_file_system(), directory.file(model + "/" + std::to_string(version)),
             times_model(static_cast<float>(version)));
}

inline std::future<ServingResult> begin(const Servable& servable, ServingRequest request,
                                        std::shared_ptr<ServingCall>* call = nullptr) {
  auto promise = std::make_shared<std::promise<ServingResult>>();
  std::future<ServingResult> out = promise->get_future();
  auto begun =
      servable.start(std::move(request), [promise](ServingResult result) { promise->set_value(std::move(result)); });
  if (call) *call = std::move(begun);
  return out;
}

inline ServingResult ask(const Servable& servable, ServingRequest request) {
  std::future<ServingResult> out = begin(servable, std::move(request));
  if (out.wait_for(kPatience) == std::future_status::ready) return out.get();
  return {.error = Error(Code::internal, "no answer")};
}

inline ServingRequest rows_of(std::initializer_list<float> values) {
  return {.inputs = {{"x", Tensor::of<float>({static_cast<std::int64_t>(values.size()) / 2, 2}, values)}}};
}

}  // namespace troupe::testing
