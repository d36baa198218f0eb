#include <gtest/gtest.h>

#include <troupe/actors/session/device_ability.hpp>

namespace troupe {
namespace {

const std::vector<TaskName> kMembers = {{"worker", 0}, {"worker", 1}, {"worker", 2}};

DeviceAbility gpu(const std::string& identity) {
  return {.there = true, .description = "NCCL 2.28.9", .identity = identity};
}

TEST(DeviceAbility, TravelsWhole) {
  for (const DeviceAbility& a :
       {DeviceAbility{}, gpu("e0"), DeviceAbility{.there = true, .why_not = "no NCCL:\nlibnccl.so.2"}}) {
    SCOPED_TRACE(::testing::Message() << "description '" << a.description << "', why not '" << a.why_not << "'");
    const Tensor bytes = to_tensor(a);
    EXPECT_EQ(bytes.shape(), to_tensor({}).shape());
    const DeviceAbility b = to_ability(bytes);
    EXPECT_EQ(b.there, a.there);
    EXPECT_EQ(b.description, a.description);
    EXPECT_EQ(b.identity, a.identity);
    EXPECT_EQ(b.why_not.size(), a.why_not.size());
  }
  const DeviceAbility longest{.there = true,
                              .description = std::string(1000, 'd'),
                              .identity = std::string(1000, 'i'),
                              .why_not = std::string(1000, 'w')};
  EXPECT_EQ(to_ability(to_tensor(longest)).why_not, std::string(160, 'w'));
  EXPECT_THROW(to_ability(Tensor::zeros(DType::u8, {10})), Error);
}

TEST(DeviceAbility, OfADeviceWithoutCommunicatorsIsNone) { EXPECT_FALSE(ability_of(nullptr).there); }

TEST(DeviceAbility, AllMustHaveTheSameAndEachItsOwn) {
  EXPECT_EQ(why_apart({gpu("a"), gpu("b"), gpu("c")}, kMembers), std::nullopt);
  EXPECT_EQ(why_apart({{}, {}, {}}, kMembers), "");
  EXPECT_EQ(why_apart({gpu("a"), {}, gpu("c")}, kMembers), "rank 1 (/job:worker/task:1) has no GPU");
  EXPECT_EQ(why_apart({gpu("a"), gpu("b"), gpu("a")}, kMembers),
            "rank 0 (/job:worker/task:0) and rank 2 (/job:worker/task:2) share a GPU: give each task its own "
            "(CUDA_VISIBLE_DEVICES)");
  DeviceAbility other = gpu("c");
  other.description = "NCCL 2.28.9, in any order";
  EXPECT_EQ(
      why_apart({gpu("a"), gpu("b"), other}, kMembers),
      "rank 0 (/job:worker/task:0) has NCCL 2.28.9, but rank 2 (/job:worker/task:2) has NCCL 2.28.9, in any order");
  other = {.there = true, .why_not = "no NCCL: libnccl.so.2"};
  EXPECT_EQ(why_apart({gpu("a"), other, gpu("c")}, kMembers), "rank 1 (/job:worker/task:1): no NCCL: libnccl.so.2");
}

}  // namespace
}  // namespace troupe
