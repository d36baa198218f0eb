// Kernels of attention: checks and dtypes. f16 and bf16 are computed in f32.
#include <array>

#include <troupe/kernels/cpu/attention.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/widened.hpp>

namespace troupe {
namespace {

// `mask` must be of T (widened) or bool.
template <class T>
AttentionMask<T> mask_of(std::string_view op, const AttentionSizes& s, const Shape& q, const Tensor& mask) {
  AttentionMask<T> out;
  if (has_no_mask(mask.shape())) return out;
  const MaskGeometry geometry = mask_geometry(op, s, q, mask.shape());
  if (mask.dtype() == DType::boolean)
    out.allowed = mask.data<bool>();
  else
    out.added = mask.data<T>();
  out.query_stride = geometry.query_stride;
  out.key_stride = geometry.key_stride;
  for (std::int64_t head = 0; head < s.batch * s.heads; ++head) out.heads.push_back(geometry.begin(head));
  return out;
}

void attention_forward(KernelContext& ctx, const AttentionSizes& options) {
  const Tensor &q = ctx.input(0), &k = ctx.input(1), &v = ctx.input(2);
  const DType dtype = q.dtype(), wide = wide_type(dtype);
  const AttentionSizes s = attention_sizes("Attention", options, q.shape(), k.shape(), v.shape());
  const Shape shape = q.shape();
  const Tensor wide_q = widened_tensor(ctx, q), wide_k = widened_tensor(ctx, k), wide_v = widened_tensor(ctx, v),
               mask = widened_tensor(ctx, ctx.input(3));
  Tensor y = ctx.allocate(wide, attended_shape(shape, v.shape())),
         sums = ctx.allocate(wide, shape.sub(0, shape.rank() - 1));
  if (sums.num_elements() > 0)
    dispatch(WideFloatTypes{}, wide, [&]<class T>() {
      attention<T>(ctx.parallelism(), s, wide_q.data<T>(), wide_k.data<T>(), wide_v.data<T>(),
                   mask_of<T>("Attention", s, shape, mask), y.mutable_data<T>(), sums.mutable_data<T>());
    });
  set_narrowed(ctx, 0, std::move(y), dtype);
  ctx.set_output(1, std::move(sums));
}

void attention_backward(KernelContext& ctx, const AttentionSizes& options, bool mask_gradient) {
  const Tensor &q = ctx.input(0), &k = ctx.input(1), &v = ctx.input(2);
  const DType dtype = q.dtype(), wide = wide_type(dtype);
  const char* const op = "AttentionGrad";
  const AttentionSizes s = attention_sizes(op, options, q.shape(), k.shape(), v.shape());
  const Shape shape = q.shape(), result = attended_shape(shape, v.shape());
  check_tensor("AttentionGrad: y", ctx.input(4), dtype, result);
  check_tensor("AttentionGrad: log_sums", ctx.input(5), wide, shape.sub(0, shape.rank() - 1));
  check_tensor("AttentionGrad: dy", ctx.input(6), dtype, result);
  std::array<Tensor, 7> in;
  for (int i = 0; i < 7; ++i) in[static_cast<std::size_t>(i)] = widened_tensor(ctx, ctx.input(i));
  Tensor dq = ctx.allocate(wide, shape), dk = ctx.allocate(wide, k.shape()), dv = ctx.allocate(wide, v.shape());
  const DType mask_type = ctx.input(3).dtype();
  const bool wanted = mask_gradient && mask_type != DType::boolean && !has_no_mask(in[3].shape());
  Tensor dmask = ctx.allocate(mask_type == DType::boolean ? mask_type : wide, wanted ? in[3].shape() : Shape{0});
  if (ctx.input(5).num_elements() == 0)
    for (Tensor* t : {&dq, &dk, &dv, &dmask}) std::fill_n(t->mutable_raw(), t->num_bytes(), std::byte{0});
  else
    dispatch(WideFloatTypes{}, wide, [&]<class T>() {
      attention_grad<T>(ctx.parallelism(), s, in[0].data<T>(), in[1].data<T>(), in[2].data<T>(),
                        mask_of<T>(op, s, shape, in[3]), in[4].data<T>(), in[5].data<T>(), in[6].data<T>(),
                        {.dq = dq.mutable_data<T>(),
                         .dk = dk.mutable_data<T>(),
                         .dv = dv.mutable_data<T>(),
                         .dmask = wanted ? dmask.mutable_data<T>() : nullptr,
                         .mask_elements = dmask.num_elements()});
    });
  set_narrowed(ctx, 0, std::move(dq), dtype);
  set_narrowed(ctx, 1, std::move(dk), dtype);
  set_narrowed(ctx, 2, std::move(dv), dtype);
  set_narrowed(ctx, 3, std::move(dmask), mask_type);
}

}  // namespace

void register_attention_kernels(KernelRegistry& registry) {
  const std::vector<DType> types{DType::f32, DType::f64, DType::f16, DType::bf16};
  registry.add({"Attention", "CPU", types, [](const KernelInit& init) -> Kernel {
                  return [s = attention_options(init.attributes)](KernelContext& ctx) { attention_forward(ctx, s); };
                }});
  registry.add({"AttentionGrad", "CPU", types, [](const KernelInit& init) -> Kernel {
                  return [s = attention_options(init.attributes), mask = init.attributes.boolean("mask_gradient")](
                             KernelContext& ctx) { attention_backward(ctx, s, mask); };
                }});
}

}  // namespace troupe
