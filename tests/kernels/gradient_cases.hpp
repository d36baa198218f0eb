// The cases of gradient_test.cpp: each family of ops has a file gradients_<family>.cpp.
#pragma once

#include <string>
#include <vector>

#include "tests/kernels/gradient_check.hpp"

namespace troupe::testing {

// Builds of one op.
inline BuildFn unary(Output (*f)(Output, Name)) {
  return [f](Graph&, const Outputs& x) { return Outputs{f(x[0], {})}; };
}
inline BuildFn binary(Output (*f)(Output, Output, Name)) {
  return [f](Graph&, const Outputs& x) { return Outputs{f(x[0], x[1], {})}; };
}
inline BuildFn op(std::string name, Attributes attributes = {}) {
  return [=](Graph&, const Outputs& x) { return add_outputs(name, x, attributes); };
}
// One result of the inputs.
inline BuildFn of(std::function<Output(const Outputs&)> f) {
  return [f](Graph&, const Outputs& x) { return Outputs{f(x)}; };
}

// x with a number of dimensions that is not known before the graph runs.
inline Output of_late_rank(Output x) {
  const Output no = cast(floor(constant(*x.graph, 0.5)), DType::boolean);
  return if_else(
      no, {x}, [](Graph&, const Outputs& v) { return Outputs{expand_dims(v[0], 0)}; },
      [](Graph&, const Outputs& v) { return Outputs{identity(v[0])}; })[0];
}

std::vector<GradientCase> array_gradients();
std::vector<GradientCase> control_gradients();
std::vector<GradientCase> debug_gradients();
std::vector<GradientCase> conv_gradients();
std::vector<GradientCase> elementwise_gradients();
std::vector<GradientCase> image_gradients();
std::vector<GradientCase> layout_gradients();
std::vector<GradientCase> index_gradients();
std::vector<GradientCase> linear_and_reduce_gradients();
std::vector<GradientCase> nn_gradients();
std::vector<GradientCase> signal_gradients();
std::vector<GradientCase> sparse_gradients();
std::vector<GradientCase> text_gradients();
std::vector<GradientCase> recurrent_gradients();

// All of them.
inline std::vector<GradientCase> all_gradient_cases() {
  std::vector<GradientCase> out;
  for (const auto& family :
       {array_gradients(), control_gradients(), conv_gradients(), debug_gradients(), elementwise_gradients(),
        index_gradients(), image_gradients(), layout_gradients(), linear_and_reduce_gradients(), nn_gradients(),
        recurrent_gradients(), signal_gradients(), sparse_gradients(), text_gradients()})
    out.insert(out.end(), family.begin(), family.end());
  return out;
}

}  // namespace troupe::testing
