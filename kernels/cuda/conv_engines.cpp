#include "troupe/kernels/cuda/conv_engines.hpp"

#include <algorithm>

#include <troupe/kernels/cuda/conv_graph.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kConvolutionWorkspaceLimit = std::int64_t{1} << 30;

// cuDNN's suggestions for a graph, best first.
std::vector<CudnnDescriptor> suggestions(const CudnnDescriptor& graph, cudnnBackendHeurMode_t mode,
                                         const CudnnTarget& target) {
  CudnnDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (target.properties) heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.properties);
  const cudnnStatus_t status = heuristic.try_finalize();
  if (status != CUDNN_STATUS_SUCCESS) {
    if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) return {};
    check_cudnn(status, "cudnnBackendFinalize of a heuristic");
  }
  std::int64_t count = 0;
  check_cudnn(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                                       &count, nullptr),
              "cudnnBackendGetAttribute");
  std::vector<CudnnDescriptor> configurations;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i)
    raw.push_back(configurations.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  if (count == 0) return configurations;
  check_cudnn(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                       count, &count, raw.data()),
              "cudnnBackendGetAttribute");
  configurations.erase(
      configurations.begin() + std::min<std::int64_t>(count, static_cast<std::int64_t>(configurations.size())),
      configurations.end());
  return configurations;
}

std::vector<cudnnBackendNumericalNote_t> notes_of(const CudnnDescriptor& configuration) {
  const CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  std::int64_t count = 0;
  check_cudnn(cudnnBackendGetAttribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                       1, &count, &raw),
              "cudnnBackendGetAttribute");
  std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  check_cudnn(cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                       static_cast<std::int64_t>(notes.size()), &count, notes.data()),
              "cudnnBackendGetAttribute");
  notes.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(count, 0, CUDNN_NUMERICAL_NOTE_TYPE_COUNT)));
  return notes;
}

}  // namespace

bool engine_fits(const ConvKey& key, const std::vector<cudnnBackendNumericalNote_t>& notes) {
  if (key.relu && std::find(notes.begin(), notes.end(), CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP) == notes.end())
    return false;
  return std::none_of(notes.begin(), notes.end(), [&](cudnnBackendNumericalNote_t note) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        return key.dtype == DType::f32 && !key.tf32;
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
        return key.deterministic;
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
      case CUDNN_NUMERICAL_NOTE_FFT:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
        return true;
      default:
        return false;
    }
  });
}

void for_each_plan(const ConvKey& key, const CudnnTarget& target, FunctionRef<bool(ConvPlan)> take) {
  const ConvOperations operations(key);
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const CudnnDescriptor& operation : operations.all()) raw.push_back(operation.get());
  CudnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (target.handle) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target.handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(raw.size()),
            raw.data());
  graph.finalize();
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (const CudnnDescriptor& configuration : suggestions(graph, mode, target)) {
      if (!engine_fits(key, notes_of(configuration))) continue;
      auto execution = std::make_shared<CudnnDescriptor>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      if (target.handle) execution->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle);
      if (target.properties) execution->set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties);
      execution->set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
      const cudnnStatus_t status = execution->try_finalize();
      if (gpu_failed(status)) check_cudnn(status, "cudnnBackendFinalize of a plan");
      if (status != CUDNN_STATUS_SUCCESS) continue;
      std::int64_t count = 0, workspace = 0;
      check_cudnn(cudnnBackendGetAttribute(execution->get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                           1, &count, &workspace),
                  "cudnnBackendGetAttribute");
      if (workspace <= kConvolutionWorkspaceLimit && take({std::move(execution), key.geometry, workspace})) return;
    }
}

ConvPlan plan_convolution(const ConvKey& key, const CudnnTarget& target) {
  ConvPlan plan;
  // An attempt with bias, ReLU or uneven padding may also be rejected with an internal error; a plain one only with
  // unimplemented.
  const auto tried = [&](const ConvKey& attempt, bool plain) {
    try {
      for_each_plan(attempt, target, [&](ConvPlan found) {
        plan = std::move(found);
        return true;
      });
      return plan.execution != nullptr;
    } catch (const Error& error) {
      if (error.code() == Code::unimplemented || (!plain && error.code() == Code::internal)) return false;
      throw;
    }
  };
  const bool even = pads_evenly(key.geometry);
  const bool common = key.geometry.plain() && !key.geometry.dilated();
  if (tried(key, common && even && !key.bias) || even || !key.geometry.plain()) return plan;
  ConvKey bare = key;
  bare.geometry = padded(key.geometry);
  tried(bare, !key.bias);
  return plan;
}

void execute_convolution(const ConvKey& key, const ConvPlan& plan, cudnnHandle_t handle, const ConvMemory& memory,
                         void* workspace) {
  const std::int64_t ids[] = {
      static_cast<std::int64_t>(ConvTensor::image), static_cast<std::int64_t>(ConvTensor::filter),
      static_cast<std::int64_t>(ConvTensor::result), static_cast<std::int64_t>(ConvTensor::bias)};
  void* const data[] = {memory.image, memory.filter, memory.result, memory.bias};
  const std::int64_t count = key.bias ? 4 : 3;
  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, data);
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  pack.finalize();
  check_cudnn(cudnnBackendExecute(handle, plan.execution->get(), pack.get()), "cudnnBackendExecute of a convolution");
}

}  // namespace troupe
