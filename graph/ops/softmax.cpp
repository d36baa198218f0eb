// Softmax and the cross entropies, along any axis, and the loss of sequences.
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/gradients.hpp>
#include <troupe/graph/ops/shapes.hpp>

namespace troupe {
namespace {

int class_axis(const ShapeContext& c, const Shape& x) { return shapes::axis(c.attributes().integer("axis"), x.rank()); }

void softmax_shape(ShapeContext& c) {
  const Shape& x = shapes::at_least_rank(c.input(0), 1, "x");
  if (x.has_rank()) class_axis(c, x);
  c.set_output(0, x);
}

void softmax_grad_shape(ShapeContext& c) {
  const Shape y = shapes::merge(c.input(0), "dy", c.input(1), "y");
  if (shapes::at_least_rank(y, 1, "y").has_rank()) class_axis(c, y);
  c.set_output(0, y);
}

void sparse_cross_entropy_shape(ShapeContext& c) {
  shapes::at_least_rank(c.input(0), 1, "logits");
  const double smoothing = c.attributes().real("label_smoothing");
  if (!(smoothing >= 0 && smoothing <= 1))
    invalid_argument("attribute 'label_smoothing' is {}, not in [0, 1]", smoothing);
  Shape logits = c.input(0);
  const Shape& labels = c.input(1);
  if (!logits.has_rank() && labels.has_rank()) logits = Shape::unknown(labels.rank() + 1);
  if (!logits.has_rank()) return;
  const int axis = class_axis(c, logits);
  const Shape loss = shapes::merge(logits.without(axis), "logits without their classes", labels, "labels");
  for (int d = 0; d < loss.rank(); ++d) logits.set_dim(d < axis ? d : d + 1, loss[d]);
  c.set_output(0, loss);
  c.set_output(1, logits);
}

void cross_entropy_shape(ShapeContext& c) {
  const Shape logits = shapes::merge(c.input(0), "logits", c.input(1), "labels");
  if (shapes::at_least_rank(logits, 1, "logits").has_rank()) c.set_output(0, logits.without(class_axis(c, logits)));
  c.set_output(1, logits);
}

std::int64_t axis_of(GradientContext& c) { return c.attributes().integer("axis"); }
Output sum_along(GradientContext& c, Output x) { return sum(x, {axis_of(c)}, {.keep_dims = true}); }
Output softmax_grad_of(GradientContext& c, const char* op, Output dy, Output y) {
  return add_op(op, {dy, y}, {{"axis", axis_of(c)}});
}

void softmax_gradient(GradientContext& c) { c.set(0, softmax_grad_of(c, "SoftmaxGrad", c.grad(), c.output(0))); }
void log_softmax_gradient(GradientContext& c) { c.set(0, softmax_grad_of(c, "LogSoftmaxGrad", c.grad(), c.output(0))); }

// dx = y (dy - sum(dy y)).
void softmax_grad_gradient(GradientContext& c) {
  const Output g = c.grad();
  const Output dy = c.input(0);
  const Output y = c.input(1);
  if (c.needs(0)) c.set(0, softmax_grad_of(c, "SoftmaxGrad", g, y));
  if (!c.needs(1)) return;
  const Output subtracted = dy * sum_along(c, g * y);
  c.set(1, g * (dy - sum_along(c, dy * y)) - subtracted);
}

// dx = dy - exp(y) sum(dy).
void log_softmax_grad_gradient(GradientContext& c) {
  const Output g = c.grad();
  const Output y = c.input(1);
  if (c.needs(0)) c.set(0, g - sum_along(c, g * exp(y)));
  if (!c.needs(1)) return;
  const Output total = sum_along(c, c.input(0));
  const Output probabilities = exp(y);
  c.set(1, -g * probabilities * total);
}

// Shared by both cross entropies: d loss/d logits is output 1, and d output 1/d logits is the softmax's derivative.
// `counted` masks the rows that count; invalid: all do.
void logits_gradient(GradientContext& c, Output counted = {}) {
  Outputs parts;
  if (c.has_grad(0)) parts.push_back(expand_dims(c.grad(0), axis_of(c)) * c.output(1));
  if (c.has_grad(1)) {
    const Output flow = counted.valid() ? c.grad(1) * counted : c.grad(1);
    parts.push_back(softmax_grad_of(c, "SoftmaxGrad", flow, softmax(c.input(0), {.axis = axis_of(c)})));
  }
  c.set(0, parts.size() == 1 ? parts[0] : parts[0] + parts[1]);
}

void sparse_cross_entropy_gradient(GradientContext& c) {
  Output counted;
  const std::int64_t ignored = c.attributes().integer("ignore_index");
  if (c.has_grad(1) && ignored != SparseCrossEntropyOptions::kNoLabel) {
    const Output labels = cast(c.input(1), DType::i64);
    const Output counts = not_equal(labels, constant<std::int64_t>(c.graph(), ignored));
    counted = expand_dims(cast(counts, c.input(0).dtype()), axis_of(c));
  }
  logits_gradient(c, counted);
}

void cross_entropy_gradient(GradientContext& c) {
  if (c.needs(0)) logits_gradient(c);
  if (!c.needs(1)) return;
  Outputs parts;  // loss = -sum(labels log_softmax(logits)), backprop = softmax(logits) - labels
  if (c.has_grad(0)) {
    const Output logarithms = log_softmax(c.input(0), {.axis = axis_of(c)});
    parts.push_back(-expand_dims(c.grad(0), axis_of(c)) * logarithms);
  }
  if (c.has_grad(1)) parts.push_back(-c.grad(1));
  c.set(1, parts.size() == 1 ? parts[0] : parts[0] + parts[1]);
}

void sigmoid_cross_entropy_gradient(GradientContext& c) {
  const Output g = c.grad();
  if (c.needs(0)) c.set(0, g * (sigmoid(c.input(0)) - c.input(1)));
  if (c.needs(1)) c.set(1, -g * c.input(0));
}

void ctc_loss_shape(ShapeContext& c) {
  Shape logits = shapes::with_rank(c.input(0), 3, "logits");
  const Shape labels = shapes::with_rank(c.input(1), 2, "labels");
  std::int64_t examples = shapes::merge_dim(logits[1], labels[0], "the numbers of examples of 'logits' and 'labels'");
  for (int i = 2; i < 4; ++i)
    examples = shapes::merge_dim(examples, shapes::with_rank(c.input(i), 1, "a list of lengths")[0],
                                 "the numbers of examples and of lengths");
  logits.set_dim(1, examples);
  c.set_output(0, Shape{examples});
  c.set_output(1, logits);
}

void ctc_loss_gradient(GradientContext& c) {
  if (c.has_grad(1)) fail(Code::unimplemented, "the gradient of CTCLoss is not differentiated again");
  c.set(0, expand_dims(c.grad(0), 1) * c.output(1));
}

Op softmax_op(std::string name, std::initializer_list<const char*> inputs, std::initializer_list<const char*> outputs) {
  Op op(std::move(name));
  for (const char* input : inputs) op.input(input, "T");
  for (const char* output : outputs) op.output(output, "T");
  return op.type("T", kFloatTypes);
}
Op along_axis(Op op) { return op.attr("axis", std::int64_t{-1}); }

}  // namespace

void register_softmax_ops(OpRegistry& ops) {
  ops.add(along_axis(softmax_op("Softmax", {"x"}, {"y"})).shape(softmax_shape).gradient(softmax_gradient));
  ops.add(along_axis(softmax_op("LogSoftmax", {"x"}, {"y"})).shape(softmax_shape).gradient(log_softmax_gradient));
  ops.add(along_axis(softmax_op("SoftmaxGrad", {"dy", "y"}, {"dx"}))
              .shape(softmax_grad_shape)
              .gradient(softmax_grad_gradient));
  ops.add(along_axis(softmax_op("LogSoftmaxGrad", {"dy", "y"}, {"dx"}))
              .shape(softmax_grad_shape)
              .gradient(log_softmax_grad_gradient));
  ops.add(along_axis(Op("SparseSoftmaxCrossEntropy")
                         .input("logits", "T")
                         .input("labels", "Tlabels")
                         .output("loss", "T")
                         .output("backprop", "T")
                         .type("T", kFloatTypes)
                         .type("Tlabels", kIndexTypes))
              .attr("ignore_index", SparseCrossEntropyOptions::kNoLabel)
              .attr("label_smoothing", 0.0)
              .shape(sparse_cross_entropy_shape)
              .gradient(sparse_cross_entropy_gradient));
  ops.add(along_axis(softmax_op("SoftmaxCrossEntropy", {"logits", "labels"}, {"loss", "backprop"}))
              .shape(cross_entropy_shape)
              .gradient(cross_entropy_gradient));
  ops.add(softmax_op("SigmoidCrossEntropy", {"logits", "labels"}, {"loss"})
              .shape(shapes::same_shapes)
              .gradient(sigmoid_cross_entropy_gradient));
  ops.add(Op("CTCLoss")
              .input("logits", "T")
              .input("labels", "Tlabels")
              .input("logit_lengths", "Tlabels")
              .input("label_lengths", "Tlabels")
              .output("loss", "T")
              .output("backprop", "T")
              .type("T", kFloatTypes)
              .type("Tlabels", kIndexTypes)
              .attr("blank", std::int64_t{0})
              .shape(ctc_loss_shape)
              .gradient(ctc_loss_gradient));
}

}  // namespace troupe
