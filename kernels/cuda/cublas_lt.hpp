// Matrix products by cuBLASLt.
#pragma once

#include <troupe/kernels/cuda/cublas_error.hpp>
#include <troupe/kernels/cuda/cuda_kernels.hpp>
#include <troupe/kernels/cuda/plan_cache.hpp>
#include <troupe/kernels/cuda/product_plan.hpp>

namespace troupe {

// Handle and plans of one device. On the device's thread only.
class CublasLt {
 public:
  explicit CublasLt(CudaDevice& device) : device_(device) {}
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;
  ~CublasLt();

  // out = ending(a b [+ out]), row-major, of at least one element and one term, in memory that does not overlap.
  // `bias`: of n elements, aligned to kBufferAlignment, for endings with one. `accumulate` adds to what `out` holds.
  // Returns false, and launches nothing, if cuBLASLt has no algorithm with this ending; without an ending throws
  // unimplemented then.
  bool multiply(KernelContext& context, const ProductKey& key, const void* a, const void* b, const void* bias,
                void* out, bool accumulate = false);

 private:
  // Descriptors, and the algorithm that cuBLASLt's heuristic names first: a function of the key, the library and the
  // GPU.
  class Plan {
   public:
    Plan(CublasLt& library, const ProductKey& key);
    Plan(Plan&& other) noexcept;
    Plan& operator=(Plan&&) = delete;
    ~Plan();
    bool found() const { return found_; }

   private:
    friend class CublasLt;
    Plan() = default;  // what is made when the other constructor throws is given back
    cublasLtMatmulDesc_t product_ = nullptr;
    cublasLtMatrixLayout_t first_ = nullptr, second_ = nullptr, out_ = nullptr;
    cublasLtMatmulAlgo_t algorithm_{};
    std::size_t workspace_ = 0;
    bool found_ = false;
  };

  cublasLtHandle_t handle();

  CudaDevice& device_;
  cublasLtHandle_t handle_ = nullptr;
  PlanCache<ProductKey, Plan> plans_;
};

// Of the options of the kernel's device.
ProductKey product_key(CudaDevice& device, DType dtype, DType out_dtype, std::int64_t m, std::int64_t n, std::int64_t k,
                       bool transpose_a, bool transpose_b);

// out = activation(a b + bias), where `bias` may be null: a b by cuBLASLt, with as much of the rest as it can do, the
// rest by a launch after it. Any sizes; sizes of 0 too.
void multiply(KernelContext& context, ProductKey key, FusedActivation activation, const void* a, const void* b,
              const void* bias, void* out);

// `t`, or a copy in aligned memory: algorithms, and with them bits, may depend on the alignment of what they read.
Tensor aligned(KernelContext& context, const Tensor& t);

// Memory for this kernel alone; may be let go of once the kernel is launched.
class Workspace {
 public:
  Workspace(KernelContext& context, std::size_t bytes);
  void* data() const { return data_; }  // null if of 0 bytes

 private:
  BufferRef buffer_;
  void* data_ = nullptr;
};

}  // namespace troupe
