#include <gtest/gtest.h>

#include <troupe/scheduler/run/rendezvous_table.hpp>

namespace troupe {
namespace {

RendezvousKey key(std::uint64_t step, std::uint32_t edge, std::uint64_t session = 1) {
  return {SessionId{session}, StepId{step}, EdgeId{edge}};
}
Put put(std::uint64_t step, std::uint32_t edge, float value = 0, std::uint64_t session = 1) {
  return {key(step, edge, session), 0, Tensor::scalar(value), {}};
}

TEST(RendezvousTable, AConsumerThatComesLaterFindsTheTensor) {
  RendezvousTable table;
  EXPECT_FALSE(table.put(put(1, 2, 3.0f)));
  EXPECT_EQ(table.tensors_held(), 1u);
  EXPECT_FALSE(table.get(key(1, 3)));
  EXPECT_FALSE(table.get(key(2, 2)));
  EXPECT_FALSE(table.get(key(1, 2, 9)));
  const auto met = table.get(key(1, 2));
  ASSERT_TRUE(met);
  EXPECT_EQ(met->tensor.item<float>(), 3.0f);
  EXPECT_EQ(table.tensors_held(), 0u);
  EXPECT_EQ(table.consumers_waiting(), 3u);
  EXPECT_EQ(table.counters().met, 1u);
}

TEST(RendezvousTable, ATensorThatComesLaterFindsItsConsumer) {
  RendezvousTable table;
  EXPECT_FALSE(table.get(key(1, 2)));
  EXPECT_FALSE(table.get(key(1, 2)));  // asks again: waits once
  EXPECT_EQ(table.consumers_waiting(), 1u);
  EXPECT_TRUE(table.put(put(1, 2)));
  EXPECT_EQ(table.consumers_waiting(), 0u);
  EXPECT_EQ(table.tensors_held(), 0u);
}

TEST(RendezvousTable, EachKeyMeetsOnce) {
  RendezvousTable table;
  table.put(put(1, 1, 5.0f));
  EXPECT_FALSE(table.put(put(1, 1, 6.0f)));  // held already
  EXPECT_EQ(table.get(key(1, 1))->tensor.item<float>(), 5.0f);
  EXPECT_FALSE(table.put(put(1, 1)));  // met already
  EXPECT_FALSE(table.get(key(1, 1)));
  EXPECT_EQ(table.counters().duplicates, 2u);
  EXPECT_EQ(table.counters().met, 1u);
  EXPECT_EQ(table.tensors_held() + table.consumers_waiting(), 0u);
}

TEST(RendezvousTable, KeepsNoTensorThatHasMet) {
  RendezvousTable table;
  Put sent = put(1, 1);
  const Tensor tensor = sent.tensor;
  table.put(std::move(sent));
  table.get(key(1, 1));
  EXPECT_TRUE(tensor.unique());
}

TEST(RendezvousTable, AnErrorTravelsInsteadOfATensor) {
  RendezvousTable table;
  table.put({key(1, 1), 0, {}, Error(Code::unavailable, "gone")});
  EXPECT_EQ(table.get(key(1, 1))->error.message(), "gone");
}

TEST(RendezvousTable, WhatComesAfterTheEndOfAStepIsDroppedAndCounted) {
  RendezvousTable table;
  Put held = put(1, 1);
  const Tensor tensor = held.tensor;
  table.put(std::move(held));
  table.get(key(1, 2));
  table.put(put(2, 1));
  table.end_step(SessionId{1}, StepId{1});
  table.end_step(SessionId{1}, StepId{1});
  EXPECT_TRUE(tensor.unique());
  EXPECT_EQ(table.consumers_waiting(), 0u);
  EXPECT_EQ(table.tensors_held(), 1u);  // of the other step
  EXPECT_FALSE(table.put(put(1, 2)));
  EXPECT_FALSE(table.get(key(1, 2)));
  EXPECT_FALSE(table.put(put(1, 2)));
  EXPECT_EQ(table.counters().dropped_late, 2u);
  EXPECT_TRUE(table.get(key(2, 1)));
}

TEST(RendezvousTable, AnotherSessionHasItsOwnSteps) {
  RendezvousTable table;
  table.end_step(SessionId{1}, StepId{1});
  table.put(put(1, 1, 0, 2));
  EXPECT_EQ(table.counters().dropped_late, 0u);
  EXPECT_TRUE(table.get(key(1, 1, 2)));
}

TEST(RendezvousTable, WhatComesForAStepThatHasEndedIsDroppedHoweverLate) {
  RendezvousTable table(100);
  for (std::uint64_t step = 0; step < 1000; ++step)
    if (step % 3 != 0) table.end_step(SessionId{1}, StepId{step});
  table.end_step(SessionId{1}, StepId{998});
  std::uint64_t dropped = 0;
  for (std::uint64_t step = 0; step < 1000; ++step) {
    Put late = put(step, 0);
    const Tensor tensor = late.tensor;
    table.put(std::move(late));
    const bool may_come = step % 3 == 0 && step >= 999 - 100;
    EXPECT_EQ(tensor.unique(), !may_come) << step;
    dropped += may_come ? 0 : 1;
  }
  EXPECT_EQ(table.counters().dropped_late, dropped);
}

TEST(RendezvousTable, AStepFarAheadEndsThoseFarBehindIt) {
  RendezvousTable table(100);
  table.end_step(SessionId{1}, StepId{5});
  table.end_step(SessionId{1}, StepId{1'000'000});
  for (std::uint64_t step : {4, 999'900, 1'000'000}) table.put(put(step, 0));
  EXPECT_EQ(table.tensors_held(), 0u);
  for (std::uint64_t step : {999'901, 999'905, 1'000'001, 1'000'005}) table.put(put(step, 0));
  EXPECT_EQ(table.tensors_held(), 4u);
}

TEST(RendezvousTable, AClosedSessionHoldsAndTakesNothing) {
  RendezvousTable table;
  table.put(put(1, 1));
  table.get(key(1, 2));
  table.put(put(1, 1, 0, 2));
  table.end_session(SessionId{1});
  EXPECT_EQ(table.tensors_held(), 1u);  // of the other session
  EXPECT_EQ(table.consumers_waiting(), 0u);
  table.put(put(7, 1));
  EXPECT_FALSE(table.get(key(7, 1)));
  table.end_step(SessionId{1}, StepId{7});
  EXPECT_EQ(table.counters().dropped_late, 1u);
  EXPECT_EQ(table.tensors_held(), 1u);
}

TEST(RendezvousTable, ATensorForAStepFarBackIsNotHeld) {
  RendezvousTable table(2000);
  const auto run = [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t step = begin; step < end; ++step) table.end_step(SessionId{1}, StepId{step});
  };
  EXPECT_FALSE(table.get(key(3, 1)));  // a long step: it still waits when thousands after it have ended
  run(4, 1500);
  Put late = put(2, 1);  // of one that never ends here
  const Tensor tensor = late.tensor;
  EXPECT_FALSE(table.put(std::move(late)));
  EXPECT_FALSE(tensor.unique());
  run(1500, 5000);
  EXPECT_TRUE(tensor.unique());
  EXPECT_EQ(table.tensors_held(), 0u);
  EXPECT_FALSE(table.put(put(6, 1)));
  EXPECT_EQ(table.tensors_held(), 0u);
  EXPECT_EQ(table.counters().dropped_late, 2u);
  EXPECT_TRUE(table.put(put(3, 1)));
  EXPECT_FALSE(table.put(put(5001, 1)));  // of a step to come: held
  EXPECT_EQ(table.tensors_held(), 1u);
}

TEST(RendezvousTable, BeyondABoundAnErrorIsHeldInPlaceOfATensor) {
  RendezvousTable table(100, 8);
  table.end_step(SessionId{1}, StepId{0});  // it is known
  for (std::uint64_t step : {1, 2}) table.put(put(step, 0));
  EXPECT_EQ(table.bytes_held(), 8u);
  Put third = put(3, 0, 0, 11);
  const Tensor tensor = third.tensor;
  table.put(std::move(third));
  EXPECT_TRUE(tensor.unique());
  EXPECT_EQ(table.get(key(3, 0, 11))->error.message(),
            "a tensor of 4 bytes arrived for step 3 of session b, which has not begun on this task; 8 bytes are "
            "already held for such steps, and the limit is 8");
  EXPECT_FALSE(table.get(key(1, 0))->error);
  table.end_step(SessionId{1}, StepId{2});
  EXPECT_EQ(table.bytes_held(), 0u);
  table.get(key(5, 0));
  table.put(put(4, 0));
  table.put(put(4, 1));
  EXPECT_TRUE(table.put(put(5, 0)));  // awaited: not held
  table.end_session(SessionId{1});
  EXPECT_EQ(table.bytes_held(), 0u);
}

// A client may say anything of sessions that nobody has.
TEST(RendezvousTable, SessionsThatNobodyKnowsGiveWay) {
  RendezvousTable table(1 << 16, 1 << 20, 3);
  table.put(put(1, 1, 0, 100));
  EXPECT_FALSE(table.get(key(1, 2, 100)));  // known from now on
  for (std::uint64_t session = 1; session <= 10; ++session) table.put(put(1, 1, 0, session));
  EXPECT_EQ(table.tensors_held(), 4u);
  EXPECT_TRUE(table.get(key(1, 1, 100)));
  EXPECT_TRUE(table.get(key(1, 1, 10)));
  EXPECT_FALSE(table.get(key(1, 1, 1)));
}

TEST(RendezvousTable, TensorsOfSessionsThatNobodyKnowsGiveWay) {
  RendezvousTable table(1 << 16, 2 * sizeof(float));
  table.put(put(1, 1, 0, 100));
  table.put(put(1, 2, 0, 100));
  EXPECT_FALSE(table.get(key(2, 1, 1)));
  table.put(put(1, 1, 5.0f, 1));  // of a step that has not begun
  EXPECT_EQ(table.bytes_held(), sizeof(float));
  const auto met = table.get(key(1, 1, 1));
  ASSERT_TRUE(met);
  EXPECT_EQ(met->tensor.item<float>(), 5.0f);
}

TEST(RendezvousTable, WhatACancelledStepLeavesIsFreed) {
  RendezvousTable table;
  Put early = put(1, 1), late = put(1, 2);
  const Tensor held = early.tensor, dropped = late.tensor;
  table.put(std::move(early));
  EXPECT_FALSE(held.unique());
  table.end_step(SessionId{1}, StepId{1});
  EXPECT_TRUE(held.unique());
  EXPECT_FALSE(table.put(std::move(late)));
  EXPECT_TRUE(dropped.unique());
  table.put(put(2, 1));
  table.end_session(SessionId{1});
  EXPECT_EQ(table.tensors_held(), 0u);
  EXPECT_FALSE(table.get(key(2, 1)));
  EXPECT_EQ(table.consumers_waiting(), 0u);
}

}  // namespace
}  // namespace troupe
