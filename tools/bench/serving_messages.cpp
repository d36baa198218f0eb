// Requests and answers of gRPC for models of serving_models.hpp.
#include <fmt/format.h>

#include <cstring>

#include "apps/serve/proto/serving.pb.h"
#include "tools/bench/kernel_step.hpp"
#include "tools/bench/serving_models.hpp"

namespace troupe::bench {
namespace {

namespace tf = ::tensorflow;

constexpr double kMessageTolerance = 1e-3;

}  // namespace

std::string grpc_request(const std::string& model, const Tensor& x) {
  tf::serving::PredictRequest request;
  request.mutable_model_spec()->set_name(model);
  tf::TensorProto& input = (*request.mutable_inputs())["x"];
  input.set_dtype(x.dtype() == DType::i32 ? tf::DT_INT32 : tf::DT_FLOAT);
  for (const std::int64_t size : x.shape().dims()) input.mutable_tensor_shape()->add_dim()->set_size(size);
  input.set_tensor_content(x.raw(), x.num_bytes());
  return request.SerializeAsString();
}

std::string wrong_grpc_answer(std::string_view message, const Tensor& y) {
  tf::serving::PredictResponse response;
  if (!response.ParseFromArray(message.data(), static_cast<int>(message.size()))) return "no PredictResponse";
  const auto found = response.outputs().find("y");
  if (found == response.outputs().end()) return "an answer without an output 'y'";
  const tf::TensorProto& output = found->second;
  Tensor values(DType::f32, y.shape());
  const bool content = !output.tensor_content().empty();
  const std::size_t bytes =
      content ? output.tensor_content().size() : sizeof(float) * static_cast<std::size_t>(output.float_val_size());
  if (output.dtype() != tf::DT_FLOAT || bytes != values.num_bytes())
    return fmt::format("{} bytes of dtype {}, where {} of DT_FLOAT are expected", bytes,
                       static_cast<int>(output.dtype()), values.num_bytes());
  const void* const from = content ? static_cast<const void*>(output.tensor_content().data())
                                   : static_cast<const void*>(output.float_val().data());
  std::memcpy(values.mutable_raw(), from, bytes);
  try {
    check_close(values, y.values<float>().data(), kMessageTolerance);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

}  // namespace troupe::bench
