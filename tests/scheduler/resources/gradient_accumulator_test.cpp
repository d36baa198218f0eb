#include <gtest/gtest.h>

#include <troupe/scheduler/resources/gradient_accumulator.hpp>

namespace troupe {
namespace {

using enum ResourceOperation;

Tensor integer(std::int64_t value) { return Tensor::scalar(value); }

class Accumulator : public testing::Test {
 protected:
  // Returns the answers of this call and others.
  CallAnswers call(ResourceOperation operation, std::vector<Tensor> values = {}) {
    CallAnswers answers;
    dense_.call(++last_, {operation, std::move(values)}, answers);
    return answers;
  }
  void give(std::int64_t step, float value) {
    EXPECT_FALSE(call(apply_gradient, {integer(step), Tensor::vector<float>({value})}).front().error);
  }

  GradientAccumulator dense_{"mean", "ConditionalAccumulator", {.dtype = DType::f32, .shape = Shape{1}}};
  CallId last_ = 0;
};

TEST_F(Accumulator, ATakeWaitsForEnoughAndBeginsTheNextStep) {
  EXPECT_TRUE(call(take_gradient, {integer(2)}).empty());
  const CallId take = last_;
  give(0, 1);
  const CallAnswers answers = call(apply_gradient, {integer(0), Tensor::vector<float>({2})});
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[1].call, take);
  EXPECT_EQ(answers[1].values.size(), 2u);
  EXPECT_EQ(dense_.global_step(), 1);
  EXPECT_EQ(dense_.size(), 0u);
}

TEST_F(Accumulator, StaleGradientsAreDropped) {
  call(set_global_step, {integer(5)});
  give(4, 1);
  EXPECT_EQ(dense_.size(), 0u);
  give(5, 1);
  give(6, 1);
  EXPECT_EQ(call(num_accumulated).front().values[0].item<std::int32_t>(), 2);
}

TEST_F(Accumulator, ATakeThatIsDroppedLeavesTheGradientsToTheNext) {
  call(take_gradient, {integer(2)});
  const CallId first = last_;
  call(take_gradient, {integer(1)});
  const CallId second = last_;
  give(0, 1);
  EXPECT_EQ(dense_.describe(), "1 gradients (4 bytes) of step 0; 2 wait, the oldest for 2");
  CallAnswers answers;
  dense_.drop(std::vector<CallId>{first}, answers);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].call, second);
}

TEST_F(Accumulator, RefusesWhatDoesNotFit) {
  EXPECT_EQ(call(apply_gradient, {integer(0), Tensor::vector<float>({1, 2})}).front().error.message(),
            "accumulator 'mean': the gradient must be [1], not [2]");
  EXPECT_EQ(call(take_gradient, {integer(0)}).front().error.code(), Code::invalid_argument);
  EXPECT_EQ(call(enqueue, {integer(0)}).front().error.message(), "accumulator 'mean': an accumulator has no enqueue");
}

TEST_F(Accumulator, GradientsThatNobodyTakesAreBounded) {
  for (std::size_t i = 0; i < GradientAccumulator::kMostGradients; ++i) give(0, 1);
  EXPECT_EQ(call(apply_gradient, {integer(0), Tensor::vector<float>({1})}).front().error.code(),
            Code::resource_exhausted);
}

TEST(SparseAccumulator, ChecksIndices) {
  GradientAccumulator sparse("rows", "SparseConditionalAccumulator",
                             {.dtype = DType::f32, .shape = Shape{4, 2}, .sparse = true});
  const auto give = [&](std::vector<std::int64_t> indices, const Shape& shape) {
    CallAnswers answers;
    sparse.call(
        1,
        {apply_gradient,
         {integer(0), Tensor::of<std::int64_t>(Shape{std::ssize(indices)}, indices), Tensor::zeros(DType::f32, shape)}},
        answers);
    return answers.front().error.code();
  };
  EXPECT_EQ(give({0, 3}, Shape{2, 2}), Code::ok);
  EXPECT_EQ(give({0, 4}, Shape{2, 2}), Code::out_of_range);
  EXPECT_EQ(give({0}, Shape{2, 2}), Code::invalid_argument);
  EXPECT_EQ(give({0}, Shape{1, 3}), Code::invalid_argument);
}

}  // namespace
}  // namespace troupe
