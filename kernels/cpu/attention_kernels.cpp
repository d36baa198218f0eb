// Kernels of attention: checks and dtypes. f16 and bf16 are computed in f32.
#include <algorithm>
#include <array>

#include <troupe/kernels/cpu/attention.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/widened.hpp>

namespace troupe {
namespace {

bool has_no_mask(const Tensor& mask) { return mask.shape().rank() == 1 && mask.shape()[0] == 0; }

AttentionSizes attention_options(const Attributes& a) {
  return {.scale = a.real("scale"),
          .softcap = a.real("softcap"),
          .causal = a.boolean("causal"),
          .causal_offset = a.integer("causal_offset")};
}

AttentionSizes attention_sizes(std::string_view op, AttentionSizes s, const Shape& q, const Shape& k, const Shape& v) {
  const int rank = q.rank();
  if (rank < 3 || k.rank() != rank || v.rank() != rank)
    invalid_argument("{}: q, k and v must have the same 3 or more dimensions, but are {}, {} and {}", op, q.to_string(),
                     k.to_string(), v.to_string());
  const Shape batch = q.sub(0, rank - 3);
  s.batch = batch.num_elements();
  s.heads = q[-3], s.queries = q[-2], s.depth = q[-1];
  s.kv_heads = k[-3], s.keys = k[-2], s.value_depth = v[-1];
  if (!(k.sub(0, rank - 3) == batch) || !(v.sub(0, rank - 3) == batch) || v[-3] != s.kv_heads || v[-2] != s.keys ||
      k[-1] != s.depth)
    invalid_argument("{}: q {}, k {} and v {} do not fit together", op, q.to_string(), k.to_string(), v.to_string());
  if (s.depth == 0) invalid_argument("{}: q and k have a depth of 0", op);
  if (s.kv_heads == 0 ? s.heads != 0 : s.heads % s.kv_heads != 0)
    invalid_argument("{}: the {} heads of q must be a multiple of the {} of k and v", op, s.heads, s.kv_heads);
  constexpr std::int64_t kMost = std::int64_t{1} << 40;  // sums of positions and offsets do not overflow
  s.causal_offset = std::clamp(s.causal_offset, -kMost, kMost);
  return s;
}

Shape attended_shape(const Shape& q, const Shape& v) {
  Shape out = q;
  out.set_dim(-1, v[-1]);
  return out;
}

// `mask` must be of T (widened) or bool.
template <class T>
AttentionMask<T> mask_of(std::string_view op, const AttentionSizes& s, const Shape& q, const Tensor& mask) {
  AttentionMask<T> out;
  if (has_no_mask(mask)) return out;
  Shape scores = q;
  scores.set_dim(-1, s.keys);
  const Shape& m = mask.shape();
  bool fits = m.rank() <= scores.rank();
  for (int i = 1; fits && i <= m.rank(); ++i) fits = m[-i] == 1 || m[-i] == scores[-i];
  if (!fits)
    invalid_argument("{}: the mask {} cannot be broadcast to the scores {}", op, m.to_string(), scores.to_string());
  if (mask.dtype() == DType::boolean)
    out.allowed = mask.data<bool>();
  else
    out.added = mask.data<T>();
  // The strides of the mask along the scores' dimensions, 0 where it is broadcast.
  std::array<std::int64_t, kMaxRank> strides{};
  std::int64_t step = 1;
  for (int i = 1; i <= scores.rank(); ++i) {
    const std::int64_t dim = i <= m.rank() ? m[-i] : 1;
    strides[static_cast<std::size_t>(scores.rank() - i)] = dim == 1 ? 0 : step;
    step *= dim;
  }
  const int leading = scores.rank() - 2;
  out.query_stride = strides[static_cast<std::size_t>(leading)];
  out.key_stride = strides[static_cast<std::size_t>(leading) + 1];
  const std::int64_t heads = s.batch * s.heads;
  for (std::int64_t head = 0; head < heads; ++head) {
    std::int64_t at = 0, rest = head;
    for (int i = leading - 1; i >= 0; --i) {
      at += rest % scores[i] * strides[static_cast<std::size_t>(i)];
      rest /= scores[i];
    }
    out.heads.push_back(at);
  }
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
  const bool wanted = mask_gradient && mask_type != DType::boolean && !has_no_mask(in[3]);
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
