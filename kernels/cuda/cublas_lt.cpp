#include "troupe/kernels/cuda/cublas_lt.hpp"

#include <cuda_runtime_api.h>

#include <array>
#include <utility>

#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/cuda/epilogue_launch.hpp>

namespace troupe {
namespace {

// NVIDIA's recommendation for Hopper; ample for earlier GPUs.
constexpr std::uint64_t kProductWorkspaceLimit = std::uint64_t{32} << 20;

cudaDataType_t cuda_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::f64:
      return CUDA_R_64F;
    case DType::f16:
      return CUDA_R_16F;
    case DType::bf16:
      return CUDA_R_16BF;
    default:
      fail(Code::unimplemented, "products of {} are not supported on a GPU", name(dtype));
  }
}

// f16 and bf16 accumulate in f32.
cublasComputeType_t compute_type(const ProductKey& key) {
  if (key.dtype == DType::f64) return CUBLAS_COMPUTE_64F;
  return key.dtype == DType::f32 && key.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

cublasLtEpilogue_t epilogue(ProductEnding ending) {
  switch (ending) {
    case ProductEnding::none:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case ProductEnding::bias:
      return CUBLASLT_EPILOGUE_BIAS;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

template <class T>
void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check_cublas(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof(value)),
               "cublasLtMatmulDescSetAttribute");
}

void set_batch(cublasLtMatrixLayout_t layout, std::int64_t count, std::int64_t step) {
  const auto set_layout = [&]<class T>(cublasLtMatrixLayoutAttribute_t attribute, T value) {
    check_cublas(cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof(value)),
                 "cublasLtMatrixLayoutSetAttribute");
  };
  set_layout(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(count));
  set_layout(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, step);
}

struct Preference {
  Preference() { check_cublas(cublasLtMatmulPreferenceCreate(&value), "cublasLtMatmulPreferenceCreate"); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  ~Preference() { static_cast<void>(cublasLtMatmulPreferenceDestroy(value)); }
  template <class T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, const T& to) {
    check_cublas(cublasLtMatmulPreferenceSetAttribute(value, attribute, &to, sizeof(to)),
                 "cublasLtMatmulPreferenceSetAttribute");
  }
  cublasLtMatmulPreference_t value = nullptr;
};

}  // namespace

CublasLt::Plan::Plan(Plan&& other) noexcept
    : product_(std::exchange(other.product_, nullptr)),
      first_(std::exchange(other.first_, nullptr)),
      second_(std::exchange(other.second_, nullptr)),
      out_(std::exchange(other.out_, nullptr)),
      algorithm_(other.algorithm_),
      workspace_(other.workspace_),
      found_(other.found_) {}

CublasLt::Plan::~Plan() {
  if (product_) static_cast<void>(cublasLtMatmulDescDestroy(product_));
  for (cublasLtMatrixLayout_t layout : {first_, second_, out_})
    if (layout) static_cast<void>(cublasLtMatrixLayoutDestroy(layout));
}

CublasLt::Plan::Plan(CublasLt& library, const ProductKey& key) : Plan() {
  const cudaDataType_t scale = key.dtype == DType::f64 ? CUDA_R_64F : CUDA_R_32F;
  check_cublas(cublasLtMatmulDescCreate(&product_, compute_type(key), scale), "cublasLtMatmulDescCreate");
  const ColumnMajor matrices = column_major(key);
  set(product_, CUBLASLT_MATMUL_DESC_TRANSA,
      static_cast<std::int32_t>(matrices.transpose_first ? CUBLAS_OP_T : CUBLAS_OP_N));
  set(product_, CUBLASLT_MATMUL_DESC_TRANSB,
      static_cast<std::int32_t>(matrices.transpose_second ? CUBLAS_OP_T : CUBLAS_OP_N));
  if (key.ending != ProductEnding::none) {
    set(product_, CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<std::uint32_t>(epilogue(key.ending)));
    // The heuristic reads only the alignment of the bias from the pointer.
    set(product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, reinterpret_cast<const void*>(kBufferAlignment));
  }
  const auto layout = [](cublasLtMatrixLayout_t& to, DType dtype, const ColumnMajor::Matrix& matrix) {
    check_cublas(cublasLtMatrixLayoutCreate(&to, cuda_type(dtype), static_cast<std::uint64_t>(matrix.rows),
                                            static_cast<std::uint64_t>(matrix.columns), matrix.stride),
                 "cublasLtMatrixLayoutCreate");
  };
  layout(first_, key.dtype, matrices.first);
  layout(second_, key.dtype, matrices.second);
  layout(out_, key.out_dtype, matrices.out);
  if (key.batch != 1) {
    set_batch(first_, key.batch, key.b_step);
    set_batch(second_, key.batch, key.a_step);
    set_batch(out_, key.batch, key.m * key.n);
  }

  Preference preference;
  preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kProductWorkspaceLimit);
  // Add partial sums in a separate step, in fixed order and full precision; not in place in arrival order, which would
  // also round each to the output dtype.
  if (key.deterministic || size_of(key.out_dtype) == 2)
    preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    preference.set(attribute, key.alignment);

  std::array<cublasLtMatmulHeuristicResult_t, 4> results{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(library.handle(), product_, first_, second_, out_, out_, preference.value,
                                     static_cast<int>(results.size()), results.data(), &count);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) check_cublas(status, "cublasLtMatmulAlgoGetHeuristic");
  if (status != CUBLAS_STATUS_SUCCESS) count = 0;
  for (int i = 0; i < count && !found_; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<std::size_t>(i)];
    if (result.state != CUBLAS_STATUS_SUCCESS) continue;
    algorithm_ = result.algo;
    workspace_ = result.workspaceSize;
    found_ = true;
  }
}

CublasLt::~CublasLt() {
  if (handle_) static_cast<void>(cublasLtDestroy(handle_));
}

cublasLtHandle_t CublasLt::handle() {
  if (!handle_) check_cublas(cublasLtCreate(&handle_), "cublasLtCreate");
  return handle_;
}

bool CublasLt::multiply(KernelContext& context, const ProductKey& key, const void* a, const void* b, const void* bias,
                        void* out, bool accumulate) {
  const Plan& plan = plans_.get(key, [&] {
    device_.not_recorded("looking for the plan of a product");
    return Plan(*this, key);
  });
  if (!plan.found()) {
    if (key.ending != ProductEnding::none) return false;
    fail(Code::unimplemented, "cuBLASLt has no algorithm for a product of {}: {} x {} x {}{}{}", name(key.dtype), key.m,
         key.k, key.n, key.transpose_a ? ", a transposed" : "", key.transpose_b ? ", b transposed" : "");
  }
  if (key.ending != ProductEnding::none) set(plan.product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  const Workspace workspace(context, plan.workspace_);
  const float factors[] = {1.0f, accumulate ? 1.0f : 0.0f};
  const double wide_factors[] = {factors[0], factors[1]};
  const bool wide = key.dtype == DType::f64;
  const void* const alpha = wide ? static_cast<const void*>(&wide_factors[0]) : &factors[0];
  const void* const beta = wide ? static_cast<const void*>(&wide_factors[1]) : &factors[1];
  check_cublas(cublasLtMatmul(handle(), plan.product_, alpha, b, plan.first_, a, plan.second_, beta, out, plan.out_,
                              out, plan.out_, &plan.algorithm_, workspace.data(), plan.workspace_, device_.stream()),
               "cublasLtMatmul");
  return true;
}

ProductKey product_key(CudaDevice& device, DType dtype, DType out_dtype, std::int64_t m, std::int64_t n, std::int64_t k,
                       bool transpose_a, bool transpose_b) {
  return {.dtype = dtype,
          .out_dtype = out_dtype,
          .transpose_a = transpose_a,
          .transpose_b = transpose_b,
          .tf32 = device.options().tf32,
          .deterministic = device.options().deterministic,
          .m = m,
          .n = n,
          .k = k};
}

void multiply(KernelContext& context, ProductKey key, FusedActivation activation, const void* a, const void* b,
              const void* bias, void* out) {
  if (key.m == 0 || key.n == 0 || key.batch == 0) return;
  CudaDevice& device = cuda_device(context);
  FusedProduct shares = share_out(key.dtype, key.k, bias != nullptr, activation);
  if (key.k == 0) {
    const auto bytes = static_cast<std::size_t>(key.batch * key.m * key.n) * size_of(key.out_dtype);
    check_cuda(cudaMemsetAsync(out, 0, bytes, device.stream()), "cudaMemsetAsync");
  } else {
    auto& library = device.state<CublasLt>();
    key.ending = shares.ending;
    if (!library.multiply(context, key, a, b, bias, out)) {
      shares = all_after(bias != nullptr, activation);
      key.ending = ProductEnding::none;
      library.multiply(context, key, a, b, nullptr, out);
    }
  }
  if (shares.anything_after())
    check_cuda(launch_bias_activation(key.out_dtype, shares.activation_after, out, shares.bias_after ? bias : nullptr,
                                      key.batch * key.m, key.n, device.stream()),
               "bias and activation");
}

Tensor aligned(KernelContext& context, const Tensor& t) {
  if (t.aligned() || t.num_bytes() == 0) return t;
  Tensor copy = context.device().allocator().tensor(t.dtype(), t.shape());
  check_cuda(cudaMemcpyAsync(copy.mutable_raw(), t.raw(), t.num_bytes(), cudaMemcpyDeviceToDevice,
                             cuda_device(context).stream()),
             "cudaMemcpyAsync");
  return copy;
}

// cuBLAS and cuDNN need more alignment than buffers guarantee.
Workspace::Workspace(KernelContext& context, std::size_t bytes) {
  if (bytes == 0) return;
  constexpr std::uintptr_t kAlignment = 256;
  buffer_ = context.device().allocator().allocate(bytes + kAlignment);
  const auto address = reinterpret_cast<std::uintptr_t>(buffer_->data());
  data_ = reinterpret_cast<void*>((address + kAlignment - 1) / kAlignment * kAlignment);
}

}  // namespace troupe
