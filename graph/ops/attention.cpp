// Scaled dot product attention (graph/builder/attention.hpp has the formulas).
//
// An absent mask is a vector of no elements, and so is its gradient. "U" is f32, or f64 if the data is f64.
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/ops/composed_gradients.hpp>
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/shapes.hpp>

namespace troupe {
namespace {

bool has_no_mask(const Shape& shape) { return shape.rank() == 1 && shape[0] == 0; }

// y's shape, as far as known.
Shape attended_shape(const ShapeContext& c) {
  const Attributes& a = c.attributes();
  const DType mask = a.dtype("M"), data = a.dtype("T");
  if (mask != DType::boolean && mask != data)
    invalid_argument("the mask must be bool or, like the data, {}, not {}", name(data), name(mask));
  if ((data == DType::f64) != (a.dtype("U") == DType::f64))
    invalid_argument("attribute 'U' is {} for data of {}", name(a.dtype("U")), name(data));
  if (!(a.real("softcap") >= 0)) invalid_argument("attribute 'softcap' is {}, not 0 or more", a.real("softcap"));
  const Shape &q = shapes::at_least_rank(c.input(0), 3, "q"), &k = shapes::at_least_rank(c.input(1), 3, "k"),
              &v = shapes::at_least_rank(c.input(2), 3, "v");
  if (!q.has_rank()) return q;
  Shape y = q;
  y.set_dim(-1, v.has_rank() ? v[-1] : kUnknown);
  for (const Shape* other : {&k, &v}) {
    if (!other->has_rank()) continue;
    if (other->rank() != q.rank())
      invalid_argument("'q', 'k' and 'v' must have the same rank, not {} and {}", q.rank(), other->rank());
    for (int i = 0; i < q.rank() - 3; ++i)
      y.set_dim(i, shapes::merge_dim(y[i], (*other)[i], "leading dimensions of 'q' and 'k' or 'v'"));
    const std::int64_t heads = (*other)[-3];
    if (heads != kUnknown && q[-3] != kUnknown && (heads == 0 ? q[-3] != 0 : q[-3] % heads != 0))
      invalid_argument("the {} heads of 'q' must be a multiple of the {} of 'k' and 'v'", q[-3], heads);
  }
  if (k.has_rank()) shapes::merge_dim(q[-1], k[-1], "the last dimensions of 'q' and 'k'");
  if (k.has_rank() && v.has_rank()) {
    shapes::merge_dim(k[-2], v[-2], "the number of keys in 'k' and 'v'");
    shapes::merge_dim(k[-3], v[-3], "the heads of 'k' and 'v'");
  }
  const Shape& m = c.input(3);
  if (!m.has_rank() || has_no_mask(m) || !k.has_rank()) return y;
  Shape scores = y;
  scores.set_dim(-1, k[-2]);
  if (m.rank() > scores.rank()) invalid_argument("the mask has {} dimensions, the scores {}", m.rank(), scores.rank());
  for (int i = 1; i <= m.rank(); ++i)
    if (m[-i] != 1) shapes::merge_dim(m[-i], scores[-i], "dimensions of the mask and of the scores");
  return y;
}

void attention_shape(ShapeContext& c) {
  const Shape y = attended_shape(c);
  c.set_output(0, y);
  c.set_output(1, y.has_rank() ? y.sub(0, y.rank() - 1) : y);
}

void attention_grad_shape(ShapeContext& c) {
  attended_shape(c);
  for (int i = 0; i < 3; ++i) c.set_output(i, c.input(i));
  c.set_output(3, c.attributes().boolean("mask_gradient") ? c.input(3) : Shape{0});
}

void attention_gradient(GradientContext& c) {
  if (c.has_grad(1)) fail(Code::unimplemented, "what it keeps for its gradient (output 1) is not differentiated");
  const bool mask = c.needs(3) && c.input(3).dtype() != DType::boolean;
  Attributes attributes = c.attributes();
  attributes.set("mask_gradient", mask);
  const Outputs found =
      add_outputs("AttentionGrad",
                  {c.input(0), c.input(1), c.input(2), c.input(3), c.output(0), c.output(1), c.grad(0)}, attributes);
  for (int i = 0; i < (mask ? 4 : 3); ++i) c.set(i, found[static_cast<std::size_t>(i)]);
}

Op with_attention_attributes(Op op) {
  op.type("T", kFloatTypes).type("M").type("U", kWideFloatTypes, DType::f32);
  return op.attr("scale", AttrType::real)
      .attr("causal", false)
      .attr("causal_offset", std::int64_t{0})
      .attr("softcap", 0.0);
}

}  // namespace

void register_attention_ops(OpRegistry& ops) {
  ops.add(with_attention_attributes(Op("Attention")
                                        .input("q", "T")
                                        .input("k", "T")
                                        .input("v", "T")
                                        .input("mask", "M")
                                        .output("y", "T")
                                        .output("log_sums", "U"))
              .shape(attention_shape)
              .gradient(attention_gradient));
  ops.add(with_attention_attributes(Op("AttentionGrad")
                                        .input("q", "T")
                                        .input("k", "T")
                                        .input("v", "T")
                                        .input("mask", "M")
                                        .input("y", "T")
                                        .input("log_sums", "U")
                                        .input("dy", "T")
                                        .output("dq", "T")
                                        .output("dk", "T")
                                        .output("dv", "T")
                                        .output("dmask", "M"))
              .attr("mask_gradient", false)
              .shape(attention_grad_shape)
              .gradient(attention_grad_gradient));
}

}  // namespace troupe
