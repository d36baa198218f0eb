#include "kernels/cuda/conv_cudnn.hpp"

#include <algorithm>

#include "devices/cuda/cuda_error.hpp"
#include "kernels/cuda/conv_graph.hpp"
#include "kernels/cuda/conv_launch.hpp"
#include "kernels/cuda/cublas_lt.hpp"

namespace troupe {
namespace {

constexpr std::int64_t kWorkspaceLimit = std::int64_t{1} << 30;

// cuDNN's suggestions for a graph, the best first.
std::vector<CudnnDescriptor> suggestions(const CudnnDescriptor& graph, cudnnBackendHeurMode_t mode) {
  CudnnDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  const cudnnStatus_t status = heuristic.try_finalize();
  if (status != CUDNN_STATUS_SUCCESS) {
    if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) return {};
    check_cudnn(status, "cudnnBackendFinalize of a heuristic");
  }
  std::int64_t count = 0;
  check_cudnn(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
              "cudnnBackendGetAttribute");
  std::vector<CudnnDescriptor> configurations;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) raw.push_back(configurations.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  if (count == 0) return configurations;
  check_cudnn(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raw.data()),
              "cudnnBackendGetAttribute");
  configurations.erase(configurations.begin() + std::min<std::int64_t>(count, static_cast<std::int64_t>(configurations.size())), configurations.end());
  return configurations;
}

std::vector<cudnnBackendNumericalNote_t> notes_of(const CudnnDescriptor& configuration) {
  const CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  std::int64_t count = 0;
  check_cudnn(cudnnBackendGetAttribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw),
              "cudnnBackendGetAttribute");
  std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  check_cudnn(cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                       static_cast<std::int64_t>(notes.size()), &count, notes.data()),
              "cudnnBackendGetAttribute");
  notes.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(count, 0, CUDNN_NUMERICAL_NOTE_TYPE_COUNT)));
  return notes;
}

ImageWindow padding_window(const ConvGeometry& bare, const ConvGeometry& padded) {
  return {.images = bare.batch,
          .channels = bare.in_channels,
          .from_height = bare.rows.input,
          .from_width = bare.columns.input,
          .to_height = padded.rows.input,
          .to_width = padded.columns.input,
          .top = -bare.rows.before,
          .left = -bare.columns.before};
}

ImageWindow cropping_window(const ConvGeometry& bare, const ConvGeometry& padded) {
  return {.images = bare.batch,
          .channels = bare.in_channels,
          .from_height = padded.rows.input,
          .from_width = padded.columns.input,
          .to_height = bare.rows.input,
          .to_width = bare.columns.input,
          .top = bare.rows.before,
          .left = bare.columns.before};
}

}  // namespace

bool engine_fits(const ConvKey& key, const std::vector<cudnnBackendNumericalNote_t>& notes) {
  return std::none_of(notes.begin(), notes.end(), [&](cudnnBackendNumericalNote_t note) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE: return key.dtype == DType::f32 && !key.tf32;
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC: return key.deterministic;
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
      case CUDNN_NUMERICAL_NOTE_FFT:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13: return true;
      default: return false;
    }
  });
}

CudnnConvolutions::~CudnnConvolutions() {
  plans_.clear();
  if (handle_) static_cast<void>(cudnnDestroy(handle_));
}

cudnnHandle_t CudnnConvolutions::handle() {
  if (!handle_) {
    check_cudnn(cudnnCreate(&handle_), "cudnnCreate");
    check_cudnn(cudnnSetStream(handle_, device_.stream()), "cudnnSetStream");
  }
  return handle_;
}

bool CudnnConvolutions::find(const ConvKey& key, Plan& plan) {
  const ConvOperations operations(key);
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const CudnnDescriptor& operation : operations.all()) raw.push_back(operation.get());
  CudnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle());
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(raw.size()), raw.data());
  graph.finalize();
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (const CudnnDescriptor& configuration : suggestions(graph, mode)) {
      if (!engine_fits(key, notes_of(configuration))) continue;
      auto execution = std::make_unique<CudnnDescriptor>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      execution->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle());
      execution->set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
      const cudnnStatus_t status = execution->try_finalize();
      if (gpu_failed(status)) check_cudnn(status, "cudnnBackendFinalize of a plan");
      if (status != CUDNN_STATUS_SUCCESS) continue;
      std::int64_t count = 0, workspace = 0;
      check_cudnn(cudnnBackendGetAttribute(execution->get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &workspace),
                  "cudnnBackendGetAttribute");
      if (workspace > kWorkspaceLimit) continue;
      plan = {std::move(execution), key.geometry, workspace};
      return true;
    }
  return false;
}

CudnnConvolutions::Plan CudnnConvolutions::make(const ConvKey& key) {
  Plan plan;
  // What is asked for beyond a plain convolution may be refused in any way; a plain one only as unsupported.
  const auto tried = [&](const ConvKey& attempt, bool plain) {
    try {
      return find(attempt, plan);
    } catch (const Error& error) {
      if (error.code() == Code::unimplemented || (!plain && error.code() == Code::internal)) return false;
      throw;
    }
  };
  const bool even = pads_evenly(key.geometry);
  if (tried(key, even && !key.bias) || even) return plan;
  ConvKey bare = key;
  bare.geometry = padded(key.geometry);
  tried(bare, !key.bias);
  return plan;
}

bool CudnnConvolutions::run(KernelContext& context, const ConvKey& key, void* image, void* filter, void* result, void* bias) {
  const Plan& plan = plans_.get(key, [&] { return make(key); });
  if (!plan.execution) return false;
  if (plan.geometry == key.geometry) {
    execute(context, key, plan, image, filter, result, bias);
    return true;
  }
  const std::size_t element = size_of(key.dtype);
  const Workspace copy(context, static_cast<std::size_t>(plan.geometry.batch * plan.geometry.image_size()) * element);
  const bool writes_image = key.direction == ConvDirection::backward_input;
  if (!writes_image)
    check_cuda(launch_image_window(element, padding_window(key.geometry, plan.geometry), image, copy.data(), device_.stream()), "padding for a convolution");
  execute(context, key, plan, copy.data(), filter, result, bias);
  if (writes_image)
    check_cuda(launch_image_window(element, cropping_window(key.geometry, plan.geometry), copy.data(), image, device_.stream()), "padding of a convolution");
  return true;
}

void CudnnConvolutions::execute(KernelContext& context, const ConvKey& key, const Plan& plan, void* image, void* filter, void* result, void* bias) {
  const Workspace workspace(context, static_cast<std::size_t>(plan.workspace));
  const std::int64_t ids[] = {static_cast<std::int64_t>(ConvTensor::image), static_cast<std::int64_t>(ConvTensor::filter),
                              static_cast<std::int64_t>(ConvTensor::result), static_cast<std::int64_t>(ConvTensor::bias)};
  void* const data[] = {image, filter, result, bias};
  void* const memory = workspace.data();
  const std::int64_t count = key.bias ? 4 : 3;
  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, data);
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &memory);
  pack.finalize();
  check_cudnn(cudnnBackendExecute(handle(), plan.execution->get(), pack.get()), "cudnnBackendExecute of a convolution");
}

}  // namespace troupe
