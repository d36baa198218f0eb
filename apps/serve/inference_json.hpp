// Bodies of the Open Inference Protocol, version 2, over HTTP: POST /v2/models/NAME/infer.
//
//   {"id": "...", "inputs": [{"name", "shape", "datatype", "data": [...]}], "outputs": [{"name"}], "parameters": {}}
//     ->  {"model_name", "model_version", "id", "outputs": [{"name", "shape", "datatype", "data": [...]}]}
//
// "data" is flat or nested like the shape. With the binary tensor extension the JSON has as many bytes as the header
// Inference-Header-Content-Length says; after it stand the little-endian elements of each tensor with the parameter
// "binary_data_size", in their order; strings (BYTES) follow their length as u32.
//
// Sources: https://github.com/kserve/open-inference-protocol, and Triton's protocol/extension_binary_data.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/serve/json_limits.hpp"
#include <troupe/messages/tensor.hpp>

namespace troupe {

inline constexpr const char* kInferenceHeaderLength = "Inference-Header-Content-Length";

struct InferenceRequest {
  std::string id{};
  std::map<std::string, Tensor> inputs{};
  std::vector<std::string> outputs{};    // those that are wanted; none: all
  bool all_binary = false;               // outputs of which nothing else is said are binary
  std::map<std::string, bool> binary{};  // by output
  std::uint64_t timeout_us = 0;          // microseconds, the parameter "timeout"; 0: none
};

// `json_bytes`: the header's value; nullopt: the whole body is JSON. Throws invalid_argument, naming the place, for
// what is no such body, and resource_exhausted beyond the limits.
InferenceRequest parse_inference(std::string body, std::optional<std::size_t> json_bytes,
                                 const JsonLimits& limits = {});

struct InferenceAnswer {
  std::string body{};
  std::optional<std::size_t> json_bytes{};  // if tensors follow: the header's value
};
InferenceAnswer print_inference(const std::string& model, std::int64_t version, const InferenceRequest& request,
                                const std::map<std::string, Tensor>& outputs);

// "FP32" of f32; "" of what the protocol does not have.
std::string_view inference_datatype(DType dtype);
std::optional<DType> parse_inference_datatype(std::string_view name);

// A tensor's elements as bytes: little-endian; strings follow their length as u32. Errors begin with `place`. Throws
// invalid_argument, before memory is taken, for bytes that do not fit the shape.
Tensor tensor_of_inference_bytes(DType dtype, const Shape& shape, std::string_view bytes, const std::string& place);
void append_inference_bytes(std::string& out, const Tensor& tensor);

}  // namespace troupe
