#include "troupe/kernels/cpu/quantized.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace troupe {

QuantizedProduct::QuantizedProduct(const Attributes& attributes, const std::string& x, const Tensor& weight_scale,
                                   const Tensor& bias_values)
    : x_scale(attributes.has(x + "_scale") ? attributes.real(x + "_scale") : 1),
      x_zero(attributes.has(x + "_zero") ? static_cast<std::int32_t>(attributes.integer(x + "_zero")) : 0),
      relu(attributes.string("activation") == "relu") {
  if (attributes.has("Y")) {
    y = attributes.dtype("Y");
    if (y != DType::f32) y_scale = attributes.real("y_scale");
    y_zero = y == DType::f32 ? 0 : static_cast<std::int32_t>(attributes.integer("y_zero"));
  }
  if (attributes.has("residual_scale")) {
    residual_scale = attributes.real("residual_scale") / y_scale;
    residual_zero = static_cast<std::int32_t>(attributes.integer("residual_zero"));
  }
  const std::int64_t channels = bias_values.num_elements();
  if (weight_scale.num_elements() != 1 && weight_scale.num_elements() != channels)
    invalid_argument("the scale of the weights must have 1 or {} elements, but is {}", channels,
                     weight_scale.shape().to_string());
  for (std::int64_t c = 0; c < channels; ++c) {
    const double sum =
        x_scale * static_cast<double>(weight_scale.data<float>()[weight_scale.num_elements() == 1 ? 0 : c]);
    if (!(sum > 0) || !std::isfinite(sum))
      invalid_argument("the scale of the weights must be above 0, but element {} is {}", c, sum / x_scale);
    scale.push_back(static_cast<float>(sum / y_scale));
    bias.push_back(static_cast<float>(static_cast<double>(bias_values.data<float>()[c]) / sum));
  }
}

namespace {

template <class T, class R>
void finish_rows(const QuantizedProduct& p, const std::int32_t* sums, std::int64_t rows, const R* residual, T* y) {
  const auto channels = static_cast<std::int64_t>(p.scale.size());
  const float zero = static_cast<float>(p.y_zero), more = static_cast<float>(p.residual_scale);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::int64_t i = row * channels + c;
      const auto at = static_cast<std::size_t>(c);
      float value = (static_cast<float>(sums[i]) + p.bias[at]) * p.scale[at];
      if (residual) value += static_cast<float>(residual[i] - p.residual_zero) * more;
      if (p.relu) value = value > 0 ? value : 0;
      if constexpr (std::is_same_v<T, float>) {
        y[i] = value;
      } else {
        constexpr float kLow = std::numeric_limits<T>::min(), kHigh = std::numeric_limits<T>::max();
        value += zero;
        const float bounded = value > kLow ? (value < kHigh ? value : kHigh) : kLow;
        y[i] = static_cast<T>(static_cast<std::int32_t>(std::nearbyint(bounded)));
      }
    }
}

template <class T>
void finish_as(const QuantizedProduct& p, const std::int32_t* sums, std::int64_t rows, Residual residual, T* y) {
  if (residual.data && residual.dtype == DType::i8)
    finish_rows(p, sums, rows, static_cast<const std::int8_t*>(residual.data), y);
  else
    finish_rows(p, sums, rows, static_cast<const std::uint8_t*>(residual.data), y);
}

}  // namespace

void finish_sums(const QuantizedProduct& product, const std::int32_t* sums, std::int64_t rows, Residual residual,
                 void* y) {
  if (product.y == DType::f32) return finish_as(product, sums, rows, residual, static_cast<float*>(y));
  if (product.y == DType::i8) return finish_as(product, sums, rows, residual, static_cast<std::int8_t*>(y));
  finish_as(product, sums, rows, residual, static_cast<std::uint8_t*>(y));
}

const void* QuantizedPrimitives::weights(const dnnl::memory::desc& own, const void* from,
                                         const dnnl::memory::desc& wanted) {
  const auto write = [&](void* to) {
    const dnnl::reorder::primitive_desc reorder(onednn::engine(), own, onednn::engine(), wanted,
                                                onednn::own_scratchpad());
    onednn::Primitive run;
    run.add(DNNL_ARG_FROM, own);
    run.add(DNNL_ARG_TO, wanted);
    run.set(dnnl::reorder(reorder), reorder.scratchpad_desc());
    run.run(std::array<void*, 2>{const_cast<void*>(from), to});
  };
  if (kept_) {
    std::vector<std::int64_t> key{meaning_};
    for (const dnnl::memory::desc* layout : {&own, &wanted}) {
      const std::vector<std::int64_t> numbers = onednn::numbers_of(*layout);
      key.insert(key.end(), numbers.begin(), numbers.end());
    }
    if (const void* found = kept_->get(key, wanted.get_size(), write)) return found;
  }
  const std::lock_guard lock(weights_mutex_);
  for (const auto& [layout, made] : weights_)
    if (layout == wanted) return made.raw();
  Tensor made(DType::u8, Shape{static_cast<std::int64_t>(wanted.get_size())});
  write(made.mutable_raw());
  weights_.emplace_back(wanted, std::move(made));
  return weights_.back().second.raw();
}

bool has_exact_bytes() {
  static const bool has = [] {
    const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
    const auto all_of = [&](dnnl::cpu_isa wanted) {
      return (isa & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
    };
    return all_of(dnnl::cpu_isa::avx512_core_vnni) || all_of(dnnl::cpu_isa::avx2_vnni);
  }();
  return has;
}

dnnl::memory::data_type onednn_type(DType dtype) {
  using Type = dnnl::memory::data_type;
  return dtype == DType::f32 ? Type::f32 : dtype == DType::i8 ? Type::s8 : dtype == DType::u8 ? Type::u8 : Type::s32;
}

dnnl::primitive_attr attributes_of(const QuantizedProduct& product, DType residual) {
  dnnl::primitive_attr out = onednn::own_scratchpad();
  out.set_output_scales(1 << 1, product.scale);
  if (product.x_zero != 0) out.set_zero_points(DNNL_ARG_SRC, 0, {product.x_zero});
  if (product.y_zero != 0) out.set_zero_points(DNNL_ARG_DST, 0, {product.y_zero});
  dnnl::post_ops after;
  if (residual != DType::invalid)
    after.append_sum(static_cast<float>(product.residual_scale), product.residual_zero, onednn_type(residual));
  if (product.relu) after.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
  out.set_post_ops(after);
  return out;
}

}  // namespace troupe
