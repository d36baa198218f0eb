// The part of cuBLASLt that the kernels use, computed on the CPU in double precision.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>
#include <vector>

#include "tests/kernels/emulated_cuda/emulated_memory.hpp"

using troupe::emulated_cuda::MemoryAccess;

struct cublasLtContext {};
struct cublasLtMatmulPreference {
  std::uint64_t workspace = 0;
};
struct cublasLtMatrixLayout {
  cudaDataType_t type;
  std::int64_t rows, columns, stride;
  std::int32_t batch = 1;
  std::int64_t batch_step = 0;
};
struct cublasLtMatmulDesc {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};

namespace {

double load(cudaDataType_t type, const void* from, std::int64_t at) {
  switch (type) {
    case CUDA_R_32F:
      return static_cast<const float*>(from)[at];
    case CUDA_R_64F:
      return static_cast<const double*>(from)[at];
    case CUDA_R_16F:
      return __half2float(static_cast<const __half*>(from)[at]);
    case CUDA_R_16BF:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(from)[at]);
  }
  return 0;
}
void store(cudaDataType_t type, void* to, std::int64_t at, double value) {
  const auto narrow = static_cast<float>(value);
  switch (type) {
    case CUDA_R_32F:
      static_cast<float*>(to)[at] = narrow;
      break;
    case CUDA_R_64F:
      static_cast<double*>(to)[at] = value;
      break;
    case CUDA_R_16F:
      static_cast<__half*>(to)[at] = __float2half_rn(narrow);
      break;
    case CUDA_R_16BF:
      static_cast<__nv_bfloat16*>(to)[at] = __float2bfloat16_rn(narrow);
      break;
  }
}
std::size_t alignment_of(cudaDataType_t type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }

// All of a matrix of the batch, as rows of the operand that it is in the product: [rows][terms].
std::vector<double> rows_of(const cublasLtMatrixLayout& layout, const void* data, std::int64_t begin, std::int64_t rows,
                            std::int64_t terms, bool rows_are_columns) {
  std::vector<double> out;
  out.reserve(static_cast<std::size_t>(rows * terms));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t t = 0; t < terms; ++t)
      out.push_back(
          load(layout.type, data, begin + (rows_are_columns ? r * layout.stride + t : t * layout.stride + r)));
  return out;
}

template <class T>
cublasStatus_t set(T& member, const void* value, std::size_t bytes) {
  if (bytes != sizeof member) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&member, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

// m, n and k of op(a) op(b) = d; no sizes if the layouts do not fit each other.
struct Sizes {
  std::int64_t m = 0, n = 0, k = 0;
};
Sizes sizes_of(const cublasLtMatmulDesc& product, const cublasLtMatrixLayout& a, const cublasLtMatrixLayout& b,
               const cublasLtMatrixLayout& d) {
  const bool ta = product.transpose_a == CUBLAS_OP_T, tb = product.transpose_b == CUBLAS_OP_T;
  const Sizes sizes{ta ? a.columns : a.rows, tb ? b.rows : b.columns, ta ? a.rows : a.columns};
  for (const cublasLtMatrixLayout& layout : {a, b, d})
    if (layout.batch != d.batch || layout.batch < 1) return {};
  for (const cublasLtMatrixLayout& layout : {a, b, d})
    if (layout.rows < 1 || layout.columns < 1 || layout.stride < layout.rows) return {};
  return (tb ? b.columns : b.rows) == sizes.k && d.rows == sizes.m && d.columns == sizes.n ? sizes : Sizes();
}

}  // namespace

const char* cublasLtGetStatusString(cublasStatus_t) { return "an emulated product that is none"; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  *product = new cublasLtMatmulDesc{compute, scale};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  delete product;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(product->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(product->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(product->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(product->bias, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t stride) {
  *layout = new cublasLtMatrixLayout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), stride};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                std::size_t bytes) {
  return attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? set(layout->batch, value, bytes)
                                                         : set(layout->batch_step, value, bytes);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    std::size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return set(preference->workspace, value, bytes);
  return bytes == sizeof(std::uint32_t) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
// One algorithm for all that there is a product of.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference,
                                              int wanted, cublasLtMatmulHeuristicResult_t* results, int* found) {
  *found = 0;
  if (wanted < 1 || c != d || sizes_of(*product, *a, *b, *d).m == 0) return CUBLAS_STATUS_INVALID_VALUE;
  const bool wide = product->compute == CUBLAS_COMPUTE_64F;
  if (wide != (a->type == CUDA_R_64F) || wide != (product->scale == CUDA_R_64F)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (a->type != b->type || (d->type != a->type && d->type != CUDA_R_32F)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (wide && product->epilogue != CUBLASLT_EPILOGUE_DEFAULT) return CUBLAS_STATUS_NOT_SUPPORTED;
  results[0] = {.algo = {1}, .workspaceSize = std::size_t{preference->workspace < 1024 ? preference->workspace : 1024}};
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t product, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t) {
  const Sizes sizes = sizes_of(*product, *a_layout, *b_layout, *d_layout);
  if (sizes.m == 0 || algorithm->chosen != 1 || c_layout->type != d_layout->type || (workspace_bytes > 0 && !workspace))
    return CUBLAS_STATUS_INVALID_VALUE;
  for (const void* data : {a, b, static_cast<const void*>(d)})
    if (reinterpret_cast<std::uintptr_t>(data) % alignment_of(a_layout->type) != 0) return CUBLAS_STATUS_INVALID_VALUE;
  const MemoryAccess access;
  if (workspace_bytes > 0) std::memset(workspace, 0x5a, workspace_bytes);
  const double factor = load(product->scale, alpha, 0), kept = load(product->scale, beta, 0);
  const bool transpose_a = product->transpose_a == CUBLAS_OP_T, transpose_b = product->transpose_b == CUBLAS_OP_T;
  for (std::int64_t index = 0; index < d_layout->batch; ++index) {
    const auto rows = rows_of(*a_layout, a, index * a_layout->batch_step, sizes.m, sizes.k, transpose_a),
               columns = rows_of(*b_layout, b, index * b_layout->batch_step, sizes.n, sizes.k, !transpose_b);
    for (std::int64_t j = 0; j < sizes.n; ++j)
      for (std::int64_t i = 0; i < sizes.m; ++i) {
        const std::int64_t at = index * d_layout->batch_step + j * d_layout->stride + i;
        double sum = 0;
        const double *x = rows.data() + i * sizes.k, *y = columns.data() + j * sizes.k;
        for (std::int64_t t = 0; t < sizes.k; ++t) sum += x[t] * y[t];
        sum *= factor;
        if (kept != 0) sum += kept * load(c_layout->type, c, at);
        if (product->epilogue == CUBLASLT_EPILOGUE_BIAS)
          sum = static_cast<float>(sum) + load(a_layout->type, product->bias, i);
        store(d_layout->type, d, at, sum);
      }
  }
  return CUBLAS_STATUS_SUCCESS;
}
