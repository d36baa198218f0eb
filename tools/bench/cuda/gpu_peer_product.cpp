// cuBLASLt called directly, as in its documentation: the heuristic's first algorithm, any reduction scheme.
#include "tools/bench/cuda/gpu_peer_parts.hpp"
#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/cuda/cublas_error.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::uint64_t kWorkspace = std::uint64_t{64} << 20;

cudaDataType_t type_of(DType dtype) {
  return dtype == DType::f32 ? CUDA_R_32F : dtype == DType::f16 ? CUDA_R_16F : CUDA_R_16BF;
}

std::size_t bytes_of(DType dtype, std::int64_t rows, std::int64_t columns) {
  return static_cast<std::size_t>(rows * columns) * size_of(dtype);
}

class Product final : public StreamCall {
 public:
  Product(int ordinal, DType dtype, bool tf32, std::int64_t m, std::int64_t n, std::int64_t k)
      : StreamCall(ordinal),
        a_(bytes_of(dtype, m, k), dtype),
        b_(bytes_of(dtype, k, n), dtype),
        c_(bytes_of(dtype, m, n)),
        workspace_(kWorkspace) {
    check_cublas(cublasLtCreate(&handle_), "cublasLtCreate");
    check_cublas(
        cublasLtMatmulDescCreate(&product_, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "cublasLtMatmulDescCreate");
    // Column-major: c^T = b^T a^T.
    const auto layout = [&](cublasLtMatrixLayout_t& to, std::int64_t rows, std::int64_t columns) {
      check_cublas(cublasLtMatrixLayoutCreate(&to, type_of(dtype), static_cast<std::uint64_t>(rows),
                                              static_cast<std::uint64_t>(columns), rows),
                   "cublasLtMatrixLayoutCreate");
    };
    layout(b_layout_, n, k);
    layout(a_layout_, k, m);
    layout(c_layout_, n, m);
    cublasLtMatmulPreference_t preference = nullptr;
    check_cublas(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    cublasStatus_t status = cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                                 &kWorkspace, sizeof(kWorkspace));
    cublasLtMatmulHeuristicResult_t result{};
    int count = 0;
    if (status == CUBLAS_STATUS_SUCCESS)
      status = cublasLtMatmulAlgoGetHeuristic(handle_, product_, b_layout_, a_layout_, c_layout_, c_layout_, preference,
                                              1, &result, &count);
    static_cast<void>(cublasLtMatmulPreferenceDestroy(preference));
    check_cublas(status, "cublasLtMatmulAlgoGetHeuristic");
    if (count == 0 || result.state != CUBLAS_STATUS_SUCCESS)
      fail(Code::unimplemented, "cuBLASLt has no algorithm for {} x {} x {}", m, k, n);
    algorithm_ = result.algo;
  }
  ~Product() override {
    for (cublasLtMatrixLayout_t layout : {a_layout_, b_layout_, c_layout_})
      static_cast<void>(cublasLtMatrixLayoutDestroy(layout));
    static_cast<void>(cublasLtMatmulDescDestroy(product_));
    static_cast<void>(cublasLtDestroy(handle_));
  }

 private:
  void enqueue() override {
    const float one = 1, zero = 0;
    check_cublas(cublasLtMatmul(handle_, product_, &one, b_.data(), b_layout_, a_.data(), a_layout_, &zero, c_.data(),
                                c_layout_, c_.data(), c_layout_, &algorithm_, workspace_.data(), kWorkspace, stream()),
                 "cublasLtMatmul");
  }

  PeerMemory a_, b_, c_, workspace_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t a_layout_ = nullptr, b_layout_ = nullptr, c_layout_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
};

}  // namespace

std::unique_ptr<GpuCall> peer_product(int ordinal, DType dtype, bool tf32, std::int64_t m, std::int64_t n,
                                      std::int64_t k) {
  return std::make_unique<Product>(ordinal, dtype, tf32, m, n, k);
}

}  // namespace troupe
