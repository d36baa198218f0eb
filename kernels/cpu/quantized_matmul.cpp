// QuantizedMatMul and DynamicQuantizedMatMul.
#include <algorithm>
#include <cmath>

#include <troupe/kernels/common/matmul_shape.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/gemm_bytes.hpp>
#include <troupe/kernels/cpu/quantized.hpp>

namespace troupe {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

constexpr std::int64_t kPartOfRows = std::int64_t{1} << 23;  // multiply-adds

// Rows of a [rows, k] that are multiplied at a time, in full tiles.
std::int64_t rows_per_part(std::int64_t k, std::int64_t n) {
  return std::max<std::int64_t>(32, kPartOfRows / std::max<std::int64_t>(1, k * n) / 32 * 32);
}

// A matrix of weights that does not change.
class QuantizedWeights {
 public:
  // Sums are finished as `attributes` say; `dynamic`: they stay i32. `kept`: of a constant b, else null.
  QuantizedWeights(const Attributes& attributes, bool dynamic, Tensor b, const Tensor& bias, const Tensor& b_scale,
                   std::shared_ptr<KeptLayout> kept)
      : product_(attributes, "a", b_scale, bias),
        dynamic_(dynamic),
        attributes_(dynamic ? onednn::own_scratchpad() : attributes_of(product_)),
        b_(std::move(b)),
        library_(has_exact_bytes() && !attributes.has("_plain_sums")),
        primitives_(std::move(kept), kKeptMatrix) {
    if (!dynamic) return;
    column_sums_.resize(static_cast<std::size_t>(n()));
    for (std::int64_t i = 0; i < b_.num_elements(); ++i)
      column_sums_[static_cast<std::size_t>(i % n())] += b_.data<std::int8_t>()[i];
  }

  std::int64_t k() const { return b_.shape().dim(0); }
  std::int64_t n() const { return b_.shape().dim(1); }
  const QuantizedProduct& product() const { return product_; }
  std::int32_t column_sum(std::int64_t j) const { return column_sums_[static_cast<std::size_t>(j)]; }

  // Rows [begin, begin + rows) of a, times b, on the calling thread. y is i32 if dynamic.
  void multiply(const Tensor& a, std::int64_t begin, std::int64_t rows, void* y) {
    if (rows == 0 || n() == 0) return;
    const std::byte* const from = a.raw() + begin * k();
    const bool found = library_ && k() > 0 &&
                       primitives_.with(
                           {rows, static_cast<std::int64_t>(a.dtype()), 0, 0}, [&] { return made(rows, a.dtype()); },
                           [&](QuantizedPrimitives::Made& made) {
                             std::array<void*, 4> data{const_cast<std::byte*>(from), const_cast<void*>(made.weights), y,
                                                       product_.bias.data()};
                             made.primitive.run(std::span(data).first(dynamic_ ? 3 : 4));
                           });
    if (!found) multiply_plainly(a, begin, rows, y);
  }

 private:
  std::unique_ptr<QuantizedPrimitives::Made> made(std::int64_t rows, DType a) {
    const memory::desc left({rows, k()}, onednn_type(a), Tag::ab), right({k(), n()}, memory::data_type::s8, Tag::any),
        own({k(), n()}, memory::data_type::s8, Tag::ab), bias({1, n()}, memory::data_type::f32, Tag::ab),
        y({rows, n()}, dynamic_ ? memory::data_type::s32 : onednn_type(product_.y), Tag::ab);
    const dnnl::matmul::primitive_desc found(
        dynamic_ ? dnnl::matmul::desc(left, right, y) : dnnl::matmul::desc(left, right, bias, y), attributes_,
        onednn::engine());
    auto out = std::make_unique<QuantizedPrimitives::Made>();
    out->primitive.add(DNNL_ARG_SRC, left);
    out->primitive.add(DNNL_ARG_WEIGHTS, found.weights_desc());
    out->primitive.add(DNNL_ARG_DST, y);
    if (!dynamic_) out->primitive.add(DNNL_ARG_BIAS, bias);
    out->primitive.set(dnnl::matmul(found), found.scratchpad_desc());
    out->weights = primitives_.weights(own, b_.raw(), found.weights_desc());
    return out;
  }

  void multiply_plainly(const Tensor& a, std::int64_t begin, std::int64_t rows, void* y) const {
    const ScratchArray<float> left(rows * k()), right(k() * n());
    const ScratchArray<std::int32_t> sums(rows * n());
    subtract_zero_point(a, begin * k(), rows * k(), dynamic_ ? 0 : product_.x_zero, left.data());
    subtract_zero_point(b_, 0, k() * n(), 0, right.data());
    auto* const to = dynamic_ ? static_cast<std::int32_t*>(y) : sums.data();
    gemm_bytes(rows, n(), k(), {left.data(), k(), false}, {right.data(), n(), false}, to, n());
    if (!dynamic_) finish_sums(product_, sums.data(), rows, {}, y);
  }

  QuantizedProduct product_;
  bool dynamic_;
  dnnl::primitive_attr attributes_;
  Tensor b_;
  bool library_;
  std::vector<std::int32_t> column_sums_;
  QuantizedPrimitives primitives_;
};

// The weights of a node: kept if they are constant.
using WeightsOf = std::function<std::shared_ptr<QuantizedWeights>(KernelContext&)>;

WeightsOf weights_of(const KernelInit& init, bool dynamic) {
  if (init.constant(1) && init.constant(2) && init.constant(3))
    return [kept = std::make_shared<QuantizedWeights>(init.attributes, dynamic, *init.constant(1), *init.constant(2),
                                                      *init.constant(3), KeptLayout::of(init.constant(1)))](
               KernelContext&) { return kept; };
  return [attributes = init.attributes, dynamic](KernelContext& ctx) {
    return std::make_shared<QuantizedWeights>(attributes, dynamic, ctx.input(1), ctx.input(2), ctx.input(3), nullptr);
  };
}

struct Sizes {
  Shape y;
  std::int64_t rows;
};
Sizes sizes_of(const KernelContext& ctx) {
  const Tensor &a = ctx.input(0), &b = ctx.input(1);
  check_rank("a quantised product's weights", b.shape(), 2);
  check_tensor("a quantised product's bias", ctx.input(2), DType::f32, Shape{b.shape().dim(1)});
  const MatMulPlan plan = matmul_plan(a.shape(), b.shape(), false, false);
  const std::int64_t n = b.shape().dim(1);
  return {plan.out, n == 0 ? 0 : plan.out.num_elements() / n};
}

Kernel make_quantized_matmul(const KernelInit& init) {
  return [weights = weights_of(init, false), y_type = init.attributes.dtype("Y")](KernelContext& ctx) {
    const Sizes sizes = sizes_of(ctx);
    const auto b = weights(ctx);
    const Tensor a = aligned(ctx.input(0));
    Tensor y = ctx.allocate(y_type, sizes.y);
    std::byte* const to = y.mutable_raw();
    const auto row_bytes = b->n() * static_cast<std::int64_t>(size_of(y_type));
    ctx.parallelism().parallel_for(
        sizes.rows, rows_per_part(b->k(), b->n()),
        [&](std::int64_t begin, std::int64_t end) { b->multiply(a, begin, end - begin, to + begin * row_bytes); });
    ctx.set_output(0, std::move(y));
  };
}

// Of a tensor that is quantised to u8: (q - zero) scale.
struct Steps {
  float scale = 1;
  std::int32_t zero = 0;
};

constexpr std::int64_t kStretch = 1 << 14;

// As DynamicQuantizeLinear of ONNX: the range includes 0. NaN counts as 0.
Steps steps_of(Parallelism& parallelism, const float* x, std::int64_t count) {
  std::vector<std::pair<float, float>> ranges(static_cast<std::size_t>((count + kStretch - 1) / kStretch));
  parallelism.parallel_for(count, kStretch, [&](std::int64_t begin, std::int64_t end) {
    float low = 0, high = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      low = x[i] < low ? x[i] : low;
      high = x[i] > high ? x[i] : high;
    }
    ranges[static_cast<std::size_t>(begin / kStretch)] = {low, high};
  });
  float low = 0, high = 0;
  for (const auto& [least, greatest] : ranges) {
    low = std::min(low, least);
    high = std::max(high, greatest);
  }
  const float scale = (high - low) / 255;
  if (!(scale > 0) || !std::isfinite(scale)) return {};
  return {scale, static_cast<std::int32_t>(std::nearbyint(std::clamp(-low / scale, 0.0f, 255.0f)))};
}

void quantize_row(const float* x, std::int64_t count, Steps steps, std::uint8_t* q) {
  constexpr float kRounder = 12582912.0f;  // 1.5 x 2^23: adding and subtracting it rounds to an integer
  const float low = static_cast<float>(-steps.zero), high = static_cast<float>(255 - steps.zero);
  for (std::int64_t i = 0; i < count; ++i) {
    const float exact = x[i] / steps.scale;
    const float bounded = exact > low ? (exact < high ? exact : high) : exact == exact ? low : 0;
    q[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>((bounded + kRounder) - kRounder) + steps.zero);
  }
}

Kernel make_dynamic_matmul(const KernelInit& init) {
  return [weights = weights_of(init, true)](KernelContext& ctx) {
    const Sizes sizes = sizes_of(ctx);
    const auto b = weights(ctx);
    const Tensor& x = ctx.input(0);
    const Steps steps = steps_of(ctx.parallelism(), x.data<float>(), x.num_elements());
    Tensor a = ctx.allocate(DType::u8, x.shape());
    std::uint8_t* const bytes = a.mutable_data<std::uint8_t>();
    Tensor y = ctx.allocate(DType::f32, sizes.y);
    float* const to = y.mutable_data<float>();
    const QuantizedProduct& product = b->product();
    const std::int64_t n = b->n(), k = b->k(), grain = rows_per_part(k, n);
    ctx.parallelism().parallel_for(sizes.rows, grain, [&](std::int64_t begin, std::int64_t end) {
      quantize_row(x.data<float>() + begin * k, (end - begin) * k, steps, bytes + begin * k);
      const ScratchArray<std::int32_t> sums((end - begin) * n);
      b->multiply(a, begin, end - begin, sums.data());
      // product.scale is the weights' alone, and product.bias in their units.
      const std::vector<float>&scale = product.scale, &bias = product.bias;
      for (std::int64_t i = 0; i < end - begin; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          const auto c = static_cast<std::size_t>(j);
          const std::int32_t sum = sums[i * n + j] - steps.zero * b->column_sum(j);
          const float value = (static_cast<float>(sum) * steps.scale + bias[c]) * scale[c];
          to[(begin + i) * n + j] = product.relu && !(value > 0) ? 0 : value;
        }
    });
    ctx.set_output(0, std::move(y));
  };
}

}  // namespace

void register_quantized_matmul_kernels(KernelRegistry& registry) {
  registry.add({"QuantizedMatMul", "CPU", {DType::i8, DType::u8}, make_quantized_matmul});
  registry.add({"DynamicQuantizedMatMul", "CPU", {DType::f32}, make_dynamic_matmul});
}

}  // namespace troupe
