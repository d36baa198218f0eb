#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

#include <troupe/scheduler/resources/gradient_accumulator.hpp>
#include <troupe/scheduler/resources/resource_calls.hpp>

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
  EXPECT_EQ(call(take_gradient, {integer(1025)}).front().error.message(),
            "accumulator 'mean': 1025 gradients cannot be required: at most 1024 are kept");
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

// Random interleavings of gradients, takes, steps that end, and new global steps, against TensorFlow's rules in a few
// lines. Gradients are told apart by their values.
class AccumulatorSimulation {
 public:
  explicit AccumulatorSimulation(std::uint64_t seed) : random_(seed) {}

  // Returns what was wrong, "" if nothing.
  std::string run() {
    for (int i = 0; i < 40 && wrong_.empty(); ++i) event();
    return wrong_;
  }

 private:
  std::int64_t draw(std::int64_t below) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(below));
  }
  RendezvousKey key(std::int64_t step) {
    return {SessionId{1}, StepId{static_cast<std::uint64_t>(step)}, EdgeId{++edges_}};
  }

  void event() {
    const std::int64_t step = ++steps_;
    switch (draw(8)) {
      case 0:
      case 1:
      case 2:
      case 3: {
        const std::int64_t local = step_ - 1 + draw(3);
        if (local < 0) return;
        const auto value = static_cast<float>(step);
        if (local >= step_) there_.push_back(value);
        return check(
            calls_.call(key(step), accumulator_, {apply_gradient, {integer(local), Tensor::vector<float>({value})}}),
            step);
      }
      case 4:
      case 5: {
        const std::int64_t required = 1 + draw(4);
        takers_.push_back({step, required});
        return check(calls_.call(key(step), accumulator_, {take_gradient, {integer(required)}}), 0);
      }
      case 6:
        step_ += draw(2);
        return check(calls_.call(key(step), accumulator_, {set_global_step, {integer(step_)}}), step);
      default: {
        if (takers_.empty()) return;
        const std::int64_t ended = takers_[static_cast<std::size_t>(draw(std::ssize(takers_)))].first;
        std::erase_if(takers_, [&](const auto& taker) { return taker.first == ended; });
        return check(calls_.end_step(SessionId{1}, StepId{static_cast<std::uint64_t>(ended)}), 0);
      }
    }
  }

  // `own`: the step whose call is answered without a value; 0: none.
  void check(const ResourceCalls::Answers& answers, std::int64_t own) {
    std::map<std::int64_t, std::vector<float>> wanted;
    if (own != 0) wanted[own] = {};
    while (!takers_.empty() && takers_.front().second <= std::ssize(there_)) {
      wanted[takers_.front().first] = std::exchange(there_, {});
      takers_.erase(takers_.begin());
      ++step_;
    }
    std::map<std::int64_t, std::vector<float>> got;
    for (const ResourceCalls::Answer& answer : answers) {
      if (answer.error) wrong_ = answer.error.message();
      std::vector<float> values;
      for (const Tensor& value : answer.values) values.push_back(value.values<float>()[0]);
      if (!got.emplace(static_cast<std::int64_t>(answer.to.step.value), values).second) wrong_ = "answered twice";
    }
    if (got != wanted) wrong_ = "other answers than the rules give";
    if (accumulator_.size() != there_.size() || accumulator_.global_step() != step_ ||
        accumulator_.calls_waiting() != takers_.size())
      wrong_ = "another state than the rules give";
  }

  std::mt19937_64 random_;
  GradientAccumulator accumulator_{"mean", "ConditionalAccumulator", {.dtype = DType::f32, .shape = Shape{1}}};
  ResourceCalls calls_;
  std::vector<float> there_;
  std::vector<std::pair<std::int64_t, std::int64_t>> takers_;  // steps, and how many they require; oldest first
  std::int64_t step_ = 0, steps_ = 0;
  std::uint32_t edges_ = 0;
  std::string wrong_;
};

TEST(AccumulatorSimulation, FollowsTheRulesInTenThousandInterleavings) {
  for (std::uint64_t seed = 1; seed <= 10'000; ++seed)
    ASSERT_EQ(AccumulatorSimulation(seed).run(), "") << "seed " << seed;
}

}  // namespace
}  // namespace troupe
