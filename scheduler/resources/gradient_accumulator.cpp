#include "troupe/scheduler/resources/gradient_accumulator.hpp"

#include <algorithm>
#include <iterator>

namespace troupe {

void GradientAccumulator::call(CallId id, ResourceCall call, CallAnswers& answers) {
  using enum ResourceOperation;
  try {
    switch (call.operation) {
      case apply_gradient:
        apply(std::move(call));
        answers.push_back({.call = id});
        break;
      case take_gradient:
        take(id, number_of_call(call, 0, 1, "the number of gradients"));
        break;
      case set_global_step:
        global_step_ = number_of_call(call, 0, 0, "the global step");
        answers.push_back({.call = id});
        break;
      case num_accumulated:
        answers.push_back({.call = id, .values = {Tensor::scalar(static_cast<std::int32_t>(gradients_.size()))}});
        break;
      default:
        invalid_argument("an accumulator has no {}", troupe::name(call.operation));
    }
  } catch (const Error& error) {
    answers.push_back({.call = id, .error = error.within(fmt::format("accumulator '{}'", name()))});
  }
  settle(answers);
}

void GradientAccumulator::take(CallId id, std::int64_t required) {
  if (required > static_cast<std::int64_t>(kMostGradients))
    invalid_argument("{} gradients cannot be required: at most {} are kept", required, kMostGradients);
  takers_.push_back({id, required});
}

void GradientAccumulator::apply(ResourceCall call) {
  const std::int64_t step = number_of_call(call, 0, 0, "the step of the gradient");
  Gradient gradient(std::make_move_iterator(call.values.begin() + 1), std::make_move_iterator(call.values.end()));
  check(gradient);
  if (step < global_step_) return;  // stale
  if (gradients_.size() == kMostGradients)
    throw Error(Code::resource_exhausted,
                fmt::format("{} gradients are there and nobody takes them", gradients_.size()));
  gradients_.push_back(std::move(gradient));
}

void GradientAccumulator::check(const Gradient& gradient) const {
  if (gradient.size() != (rules_.sparse ? 2 : 1))
    invalid_argument("a gradient of {} tensors is not {}", gradient.size(),
                     rules_.sparse ? "(indices, values)" : "one tensor");
  const Tensor& values = gradient.back();
  if (values.dtype() != rules_.dtype)
    invalid_argument("the gradient must be {}, not {}", troupe::name(rules_.dtype), troupe::name(values.dtype()));
  Shape wanted = rules_.shape, given = values.shape();
  if (rules_.sparse) {
    const Tensor& indices = gradient.front();
    if (indices.dtype() != DType::i64 || indices.shape().rank() != 1 || given.rank() < 1 ||
        given.dim(0) != indices.shape().dim(0))
      invalid_argument("indices must be i64 [n] and values [n,...], not {}{} and {}", troupe::name(indices.dtype()),
                       indices.shape().to_string(), given.to_string());
    if (wanted.has_rank()) {
      if (wanted.rank() < 1) invalid_argument("the gradients of a scalar are not sparse");
      for (const std::int64_t index : indices.values<std::int64_t>())
        if (index < 0 || (wanted.dim(0) != kUnknown && index >= wanted.dim(0)))
          fail(Code::out_of_range, "index {} is no row of {}", index, wanted.to_string());
      std::vector<std::int64_t> dims(wanted.dims().begin(), wanted.dims().end());
      dims[0] = kUnknown;
      wanted = Shape(dims);
    }
  }
  if (!wanted.compatible_with(given))
    invalid_argument("the gradient must be {}, not {}", wanted.to_string(), given.to_string());
  if (gradients_.empty()) return;
  const Shape& first = gradients_.front().back().shape();
  const bool same =
      rules_.sparse ? std::ranges::equal(first.dims().subspan(1), given.dims().subspan(1)) : first == given;
  if (!same) invalid_argument("the gradient is {}, but those before it are {}", given.to_string(), first.to_string());
}

void GradientAccumulator::drop(std::span<const CallId> ids, CallAnswers& answers) {
  std::erase_if(takers_, [ids](const Taker& taker) { return std::ranges::find(ids, taker.call) != ids.end(); });
  settle(answers);
}

void GradientAccumulator::settle(CallAnswers& answers) {
  while (!takers_.empty() && std::ssize(gradients_) >= takers_.front().required) {
    CallAnswer answer{.call = takers_.front().call};
    for (Gradient& gradient : gradients_) std::ranges::move(gradient, std::back_inserter(answer.values));
    answers.push_back(std::move(answer));
    gradients_.clear();
    takers_.pop_front();
    ++global_step_;
  }
}

std::string GradientAccumulator::describe() const {
  std::string text = fmt::format("{} gradients ({} bytes) of step {}", gradients_.size(), num_bytes(), global_step_);
  if (!takers_.empty())
    text += fmt::format("; {} wait{}, the oldest for {}", takers_.size(), takers_.size() == 1 ? "s" : "",
                        takers_.front().required);
  return text;
}

std::size_t GradientAccumulator::num_bytes() const {
  std::size_t bytes = 0;
  for (const Gradient& gradient : gradients_)
    for (const Tensor& tensor : gradient) bytes += tensor.num_bytes();
  return bytes;
}

}  // namespace troupe
