// Products of bytes and weights of 8 bits. 32-bit sums are exact; what follows them is float:
//
//   y = activation(sum x_scale w_scale[c] + bias[c] + (residual - residual_zero) residual_scale)
//
// as f32, or as round(y / y_scale) + y_zero in i8 or u8: to nearest even, saturated. By oneDNN where the CPU adds
// products of bytes without saturation (VNNI, AMX), elsewhere by plain loops. The two round float terms in different
// places: bytes differ by at most one step, where a result is in the middle between two, f32 by a few units in the last
// place of the largest term.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <troupe/kernels/cpu/kept_layout.hpp>
#include <troupe/kernels/cpu/onednn.hpp>
#include <troupe/messages/attributes.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// Attributes of a quantised product; `x` is the name of its bytes: "x" or "a".
struct QuantizedProduct {
  QuantizedProduct(const Attributes& attributes, const std::string& x, const Tensor& weight_scale, const Tensor& bias);

  double x_scale = 1, y_scale = 1;
  std::int32_t x_zero = 0, y_zero = 0;
  DType y = DType::f32;
  bool relu = false;
  double residual_scale = 1;  // in steps of y
  std::int32_t residual_zero = 0;
  // For each channel of y: what a sum is in steps of y, and the bias in units of sums.
  std::vector<float> scale{}, bias{};
};

// Bytes that are added to a result; none if `data` is null.
struct Residual {
  DType dtype = DType::invalid;
  const void* data = nullptr;
};

// Rows of sums [rows, channels] as results, without a library.
void finish_sums(const QuantizedProduct& product, const std::int32_t* sums, std::int64_t rows, Residual residual,
                 void* y);

// What the memory of constant weights is: a filter, outputs first, or a matrix.
inline constexpr std::int64_t kKeptFilter = -1, kKeptMatrix = -2;

// Primitives of one node, by the sizes of their images or matrices. Thread-safe: a primitive is lent to one thread at a
// time.
class QuantizedPrimitives {
 public:
  using Key = std::array<std::int64_t, 4>;

  // `kept`: of the weights if they are constant, else null. `meaning` tells what its memory is weights of.
  QuantizedPrimitives(std::shared_ptr<KeptLayout> kept, std::int64_t meaning)
      : kept_(std::move(kept)), meaning_(meaning) {}

  // A primitive and the weights in the layout that it reads, which live as long as this object.
  struct Made {
    onednn::Primitive primitive{};
    const void* weights = nullptr;
  };
  // Calls use(Made&) with a primitive for `key`, made by make() if none is idle. Returns false if oneDNN has none
  // (make() throws dnnl::error).
  template <class MakeOne, class Use>
  bool with(const Key& key, MakeOne make, Use use) {
    std::unique_ptr<Made> made;
    {
      const std::lock_guard lock(mutex_);
      Entry& entry = entries_[key];
      if (entry.none) return false;
      if (!entry.idle.empty()) {
        made = std::move(entry.idle.back());
        entry.idle.pop_back();
      }
    }
    if (!made) {
      try {
        const OpenMpGuard guard;  // oneDNN plans for the current number of threads
        made = make();
      } catch (const dnnl::error&) {
        const std::lock_guard lock(mutex_);
        entries_[key].none = true;
        return false;
      }
    }
    use(*made);
    const std::lock_guard lock(mutex_);
    if (entries_.size() > kMostKeys) entries_.clear();
    entries_[key].idle.push_back(std::move(made));
    return true;
  }

  // The weights, which are `from` in layout `own`, in layout `wanted`: reordered once for each layout, of constant
  // weights once for all nodes and plans that have them.
  const void* weights(const dnnl::memory::desc& own, const void* from, const dnnl::memory::desc& wanted);

 private:
  static constexpr std::size_t kMostKeys = 16;
  struct Entry {
    bool none = false;
    std::vector<std::unique_ptr<Made>> idle{};
  };
  const std::shared_ptr<KeptLayout> kept_;
  const std::int64_t meaning_;
  std::mutex mutex_;
  std::map<Key, Entry> entries_;
  std::mutex weights_mutex_;
  std::vector<std::pair<dnnl::memory::desc, Tensor>> weights_;
};

// Returns whether this CPU sums products of bytes without saturation in between.
bool has_exact_bytes();

// A primitive's attributes for this product: scales, zero points, the residual in the result's memory, activation.
dnnl::primitive_attr attributes_of(const QuantizedProduct& product, DType residual = DType::invalid);
dnnl::memory::data_type onednn_type(DType dtype);  // f32, i8, u8, i32

}  // namespace troupe
