// Matrix products by cuBLASLt.
#pragma once

#include <troupe/kernels/cuda/cublas_error.hpp>
#include <troupe/kernels/cuda/cuda_kernels.hpp>
#include <troupe/kernels/cuda/plan_cache.hpp>
#include <troupe/kernels/cuda/product_plan.hpp>

namespace troupe {

// Handle and plans of one device. Use only on the device's thread.
class CublasLt {
 public:
  explicit CublasLt(CudaDevice& device) : device_(device) {}
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;
  ~CublasLt();

  // Computes out = ending(a b [+ out]), row-major, with at least one element and one term, in memory that does not
  // overlap. `bias` has n elements, aligned to kBufferAlignment, for endings with a bias. `accumulate` adds to the
  // contents of `out`. If cuBLASLt has no algorithm for the product, launches nothing and returns false, or, without an
  // ending, throws unimplemented.
  bool multiply(KernelContext& context, const ProductKey& key, const void* a, const void* b, const void* bias,
                void* out, bool accumulate = false);

 private:
  // Descriptors and the first algorithm of cuBLASLt's heuristic: depends only on the key, the library and the GPU.
  class Plan {
   public:
    Plan(CublasLt& library, const ProductKey& key);
    Plan(Plan&& other) noexcept;
    Plan& operator=(Plan&&) = delete;
    ~Plan();
    bool found() const { return found_; }

   private:
    friend class CublasLt;
    Plan() = default;  // delegated to: the destructor frees what was created if the other constructor throws
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

// Key with the options of `device`.
ProductKey product_key(CudaDevice& device, DType dtype, DType out_dtype, std::int64_t m, std::int64_t n, std::int64_t k,
                       bool transpose_a, bool transpose_b);

// Computes out = activation(a b + bias), where `bias` may be null: cuBLASLt does a b and as much of the rest as it
// supports; a second launch does the remainder. Sizes may be 0.
void multiply(KernelContext& context, ProductKey key, FusedActivation activation, const void* a, const void* b,
              const void* bias, void* out);

// Returns `t`, or a copy in aligned memory: algorithms, and hence bits, may depend on the alignment of their inputs.
Tensor aligned(KernelContext& context, const Tensor& t);

// Scratch memory of one kernel; may be released once the kernel is launched.
class Workspace {
 public:
  Workspace(KernelContext& context, std::size_t bytes);
  void* data() const { return data_; }  // null if 0 bytes

 private:
  BufferRef buffer_;
  void* data_ = nullptr;
};

}  // namespace troupe
