// QuantizedConv.
#include <algorithm>
#include <cstring>

#include <troupe/kernels/common/conv_geometry.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cpu/conv_integer.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/quantized.hpp>

namespace troupe {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

constexpr std::int64_t kPartOfBytes = std::int64_t{1} << 24;  // multiply-adds

Tensor zero_of(DType dtype, std::int32_t value) {
  return dtype == DType::i8 ? Tensor::scalar(static_cast<std::int8_t>(value))
                            : Tensor::scalar(static_cast<std::uint8_t>(value));
}

// [taps.., in / groups, out] as [groups, out / groups, in / groups, taps..], which oneDNN reorders to any layout.
Tensor outputs_first(const ConvGeometry& g, const Tensor& filter) {
  Tensor out(DType::i8, Shape{g.filter_size()});
  const std::int64_t taps = g.taps(), in = g.group_in();
  const std::int8_t* from = filter.data<std::int8_t>();
  std::int8_t* const to = out.mutable_data<std::int8_t>();
  for (std::int64_t tap = 0; tap < taps; ++tap)
    for (std::int64_t c = 0; c < in; ++c)
      for (std::int64_t o = 0; o < g.out_channels; ++o) to[(o * in + c) * taps + tap] = *from++;
  return out;
}

// A convolution whose filter and bias do not change.
class QuantizedConvolution {
 public:
  // `kept`: of a constant filter, else null.
  QuantizedConvolution(const Attributes& attributes, DType residual, Tensor filter, const Tensor& bias,
                       const Tensor& filter_scale, std::shared_ptr<KeptLayout> kept)
      : product_(attributes, "x", filter_scale, bias),
        attributes_(attributes_of(product_, residual)),
        filter_(std::move(filter)),
        library_(has_exact_bytes() && !attributes.has("_plain_sums")),
        primitives_(std::move(kept), kKeptFilter) {}

  // The residual may be in y's memory.
  void run(Parallelism& parallelism, const ConvGeometry& g, const Tensor& x, Residual residual, Tensor& y) {
    const std::int64_t grain = g.empty() ? 1 : std::max<std::int64_t>(1, kPartOfBytes / g.image_cost());
    if (!has_primitives(g, x.dtype(), grain)) return run_plainly(parallelism, g, x, residual, y);
    const std::size_t width = size_of(product_.y);
    parallelism.parallel_for(g.batch, grain, [&](std::int64_t begin, std::int64_t end) {
      const ConvGeometry part = with_batch(g, end - begin);
      const std::byte* const from = x.raw() + begin * g.image_size();
      const auto first = static_cast<std::size_t>(begin * g.result_size());
      std::byte* const to = y.mutable_raw() + first * width;
      const auto* const more = static_cast<const std::byte*>(residual.data);
      if (more && more != y.raw())
        std::memcpy(to, more + first, static_cast<std::size_t>(part.batch * g.result_size()));
      with_primitive(part, x.dtype(), [&](QuantizedPrimitives::Made& made) {
        made.primitive.run(std::array<void*, 4>{const_cast<std::byte*>(from), const_cast<void*>(made.weights),
                                                product_.bias.data(), to});
      });
    });
  }

 private:
  static ConvGeometry with_batch(ConvGeometry g, std::int64_t images) {
    g.batch = images;
    return g;
  }
  template <class Use>
  bool with_primitive(const ConvGeometry& g, DType x, Use use) {
    return primitives_.with(
        {g.batch, g.depth.input, g.rows.input, g.columns.input}, [&] { return made(g, x); }, use);
  }
  // For all parts of a batch.
  bool has_primitives(const ConvGeometry& g, DType x, std::int64_t grain) {
    if (g.empty() || !library_) return false;
    const auto found = [&](std::int64_t images) {
      return images == 0 || with_primitive(with_batch(g, images), x, [](QuantizedPrimitives::Made&) {});
    };
    return found(std::min(grain, g.batch)) && found(g.batch % grain);
  }

  std::unique_ptr<QuantizedPrimitives::Made> made(const ConvGeometry& g, DType x) {
    memory::dims image{g.batch, g.in_channels}, filter{g.group_out(), g.group_in()}, result{g.batch, g.out_channels};
    memory::dims strides, dilations, before, after;
    if (g.groups > 1) filter.insert(filter.begin(), g.groups);
    for (const WindowAxis* axis : {&g.depth, &g.rows, &g.columns}) {
      if (axis == &g.depth && g.spatial < 3) continue;
      image.push_back(axis->input);
      filter.push_back(axis->kernel);
      result.push_back(axis->output);
      strides.push_back(axis->stride);
      dilations.push_back(axis->dilation - 1);
      before.push_back(axis->before);
      after.push_back(axis->after);
    }
    const bool solid = g.spatial == 3;
    const Tag images = solid ? Tag::ndhwc : Tag::nhwc;
    const Tag ours = g.groups > 1 ? (solid ? Tag::goidhw : Tag::goihw) : (solid ? Tag::oidhw : Tag::oihw);
    const memory::desc bias({g.out_channels}, memory::data_type::f32, Tag::a);
    const dnnl::convolution_forward::primitive_desc found(
        {dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
         memory::desc(image, onednn_type(x), images), memory::desc(filter, memory::data_type::s8, Tag::any), bias,
         memory::desc(result, onednn_type(product_.y), images), strides, dilations, before, after},
        attributes_, onednn::engine());
    auto out = std::make_unique<QuantizedPrimitives::Made>();
    out->primitive.add(DNNL_ARG_SRC, found.src_desc());
    out->primitive.add(DNNL_ARG_WEIGHTS, found.weights_desc());
    out->primitive.add(DNNL_ARG_BIAS, bias);
    out->primitive.add(DNNL_ARG_DST, found.dst_desc());
    out->primitive.set(dnnl::convolution_forward(found), found.scratchpad_desc());
    const Tensor from = outputs_first(g, filter_);
    out->weights =
        primitives_.weights(memory::desc(filter, memory::data_type::s8, ours), from.raw(), found.weights_desc());
    return out;
  }

  void run_plainly(Parallelism& parallelism, const ConvGeometry& g, const Tensor& x, Residual residual, Tensor& y) {
    const ScratchArray<std::int32_t> sums(g.batch * g.result_size());
    conv_integer(parallelism, g, x, filter_, zero_of(x.dtype(), product_.x_zero), Tensor::scalar(std::int8_t{0}),
                 sums.data());
    finish_sums(product_, sums.data(), g.batch * g.windows(), residual, y.mutable_raw());
  }

  QuantizedProduct product_;
  dnnl::primitive_attr attributes_;
  Tensor filter_;
  bool library_;
  QuantizedPrimitives primitives_;
};

Kernel make_quantized_conv(const KernelInit& init) {
  std::shared_ptr<QuantizedConvolution> kept;
  if (init.constant(1) && init.constant(2) && init.constant(3))
    kept = std::make_shared<QuantizedConvolution>(
        init.attributes, init.input_types.size() > 4 ? init.input_types[4] : DType::invalid, *init.constant(1),
        *init.constant(2), *init.constant(3), KeptLayout::of(init.constant(1)));
  return [kept, options = conv_attributes(init.attributes), attributes = init.attributes](KernelContext& ctx) {
    const Tensor &x = ctx.input(0), &filter = ctx.input(1);
    const ConvGeometry g = conv_geometry(x.shape(), filter.shape(), options);
    check_tensor("QuantizedConv: the filter", filter, DType::i8, filter.shape());
    check_tensor("QuantizedConv: the bias", ctx.input(2), DType::f32, Shape{g.out_channels});
    Residual residual;
    if (ctx.num_inputs() > 4) {
      check_tensor("QuantizedConv: the residual", ctx.input(4), ctx.input(4).dtype(), g.result_shape());
      residual = {ctx.input(4).dtype(), ctx.input(4).raw()};
    }
    // A residual that nobody else reads becomes the result.
    const DType y_type = attributes.dtype("Y");
    Tensor y = residual.data && residual.dtype == y_type ? ctx.take_input(4) : Tensor();
    if (y.valid())
      residual.data = y.raw();
    else
      y = ctx.allocate(y_type, g.result_shape());
    const auto used = kept ? kept
                           : std::make_shared<QuantizedConvolution>(attributes, residual.dtype, filter, ctx.input(2),
                                                                    ctx.input(3), nullptr);
    used->run(ctx.parallelism(), g, aligned(x), residual, y);
    ctx.set_output(0, std::move(y));
  };
}

}  // namespace

void register_quantized_conv_kernels(KernelRegistry& registry) {
  registry.add({"QuantizedConv", "CPU", {DType::i8, DType::u8}, make_quantized_conv});
}

}  // namespace troupe
