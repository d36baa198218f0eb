// ONNX's domain ai.onnx.preview.training: gradients and update rules.
#include <algorithm>

#include <troupe/graph/formats/onnx/onnx_node.hpp>
#include <troupe/graph/gradients/autodiff.hpp>

namespace troupe {
namespace {

// d(y)/d(each of xs). The inputs stand for xs and zs, of which the model says the names.
void gradient_node(OnnxNode& node) {
  const std::vector<std::string> names = node.strings("xs");
  if (node.num_inputs() < static_cast<int>(names.size()))
    invalid_argument("there are {} inputs for {} xs", node.num_inputs(), names.size());
  Outputs xs;
  for (std::size_t i = 0; i < names.size(); ++i) {
    xs.push_back(node.named(names[i]));
    if (!(xs.back() == node.in(static_cast<int>(i))))
      fail(Code::unimplemented, "input {} replaces '{}': only gradients at the values of the model are supported", i,
           names[i]);
  }
  const Outputs ys{node.named(node.string("y"))};
  const std::vector<Gradient> found = gradients(ys, xs);
  for (std::size_t i = 0; i < xs.size(); ++i) node.set(static_cast<int>(i), dense(found[i], xs[i]));
}

// What the update rules share: inputs R, T, and of all tensors first X, then G, then each state; likewise outputs
// without G.
struct Update {
  Output rate, count;  // R, T as f32 or f64
  Output x, gradient;  // regularised
  Outputs state{};
};
struct Updated {
  Output x;
  Outputs state{};
};

void for_each_tensor(OnnxNode& node, int states, const std::function<Updated(const Update&)>& rule) {
  const int per_tensor = 2 + states, tensors = (node.num_inputs() - 2) / per_tensor;
  if (tensors < 1 || node.num_inputs() != 2 + tensors * per_tensor)
    invalid_argument("there are {} inputs, not 2 and {} for each tensor", node.num_inputs(), per_tensor);
  for (int i = 0; i < tensors; ++i) {
    Update u{.rate = cast(node.in(0), node.in(2 + i).dtype()),
             .count = cast(node.in(1), node.in(2 + i).dtype()),
             .x = node.in(2 + i),
             .gradient = {}};
    const Output decay = mul(u.x, scalar_like(u.x, node.real("norm_coefficient", 0)));
    u.gradient = add(decay, node.in(2 + tensors + i));
    for (int s = 0; s < states; ++s) u.state.push_back(node.in(2 + (2 + s) * tensors + i));
    const Updated made = rule(u);
    node.set(i, made.x);
    for (int s = 0; s < states; ++s) node.set((1 + s) * tensors + i, made.state[static_cast<std::size_t>(s)]);
  }
}

void adagrad_node(OnnxNode& node) {
  for_each_tensor(node, 1, [&](const Update& u) {
    const Output rate = u.rate / (u.count * node.real("decay_factor", 0) + 1.0);
    const Output squares = u.state[0] + square(u.gradient);
    const Output scale = sqrt(squares) + node.real("epsilon", 1e-6);
    return Updated{sub(u.x, div(mul(rate, u.gradient), scale)), {squares}};
  });
}

void adam_node(OnnxNode& node) {
  const double alpha = node.real("alpha", 0.9), beta = node.real("beta", 0.999);
  for_each_tensor(node, 2, [&](const Update& u) {
    const Output mean = u.state[0] * alpha, fresh = u.gradient * (1 - alpha);
    const Output v = add(mean, fresh);
    const Output squares = u.state[1] * beta, fresh_squares = square(u.gradient) * (1 - beta);
    const Output h = add(squares, fresh_squares);
    // For T = 0 the rate stays: then both corrections are of T = infinity.
    const Output first = select(greater(u.count, scalar_like(u.count, 0)), u.count, scalar_like(u.count, 1e30));
    const Output beta_power = pow(scalar_like(first, beta), first), alpha_power = pow(scalar_like(first, alpha), first);
    const Output corrected = sqrt(1.0 - beta_power);
    const Output rate = u.rate * corrected / (1.0 - alpha_power);
    const Output scale = sqrt(h) + node.real("epsilon", 1e-6);
    const Output x = sub(u.x, div(mul(rate, v), scale));
    return Updated{x * (1 - node.real("norm_coefficient_post", 0)), {v, h}};
  });
}

void momentum_node(OnnxNode& node) {
  const double alpha = node.real("alpha"), beta = node.real("beta");
  const std::string mode = node.string("mode");
  if (mode != "standard" && mode != "nesterov")
    invalid_argument("attribute 'mode' is '{}', not standard or nesterov", mode);
  for_each_tensor(node, 1, [&](const Update& u) {
    const Output later = greater(u.count, scalar_like(u.count, 0));
    const Output weight = select(later, scalar_like(u.count, beta), scalar_like(u.count, 1));
    const Output kept = u.state[0] * alpha, fresh = mul(weight, u.gradient);
    const Output v = add(kept, fresh);
    const Output step = mode == "standard" ? v : add(u.gradient, v * alpha);
    return Updated{sub(u.x, mul(u.rate, step)), {v}};
  });
}

constexpr OnnxOp kTrainingOps[] = {
    {"Adagrad", adagrad_node},
    {"Adam", adam_node},
    {"Gradient", gradient_node},
    {"Momentum", momentum_node},
};

}  // namespace

std::span<const OnnxOp> onnx_training_ops() { return kTrainingOps; }

}  // namespace troupe
