#include <gtest/gtest.h>

#include <troupe/actors/training/parameters.hpp>

namespace troupe {
namespace {

Parameters some() {
  return {{"b/kernel", Tensor::of<float>({2, 1}, {1, -2.5f})}, {"a", Tensor::scalar<std::int32_t>(7)}};
}

TEST(Parameters, TheHashIsSha256OverNamesTypesShapesAndElements) {
  // hashlib.sha256(b"a\0i32\0[]\0" + struct.pack("<i", 7) + b"b/kernel\0f32\0[2,1]\0" + struct.pack("<2f", 1, -2.5))
  EXPECT_EQ(params_sha256(some()), "a7c1bc4c72f4b087e67f5b731b43b03416f5df26d75149de58ccd53ec2e0e6a3");
  EXPECT_EQ(params_sha256({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Parameters, TheHashSeesEachPart) {
  const std::string hash = params_sha256(some());
  Parameters other = some();
  other["b/kernel"] = Tensor::of<float>({1, 2}, {1, -2.5f});
  EXPECT_NE(params_sha256(other), hash);
  other["b/kernel"] = Tensor::of<std::int32_t>({2, 1}, {0x3f800000, static_cast<std::int32_t>(0xc0200000)});
  EXPECT_NE(params_sha256(other), hash);
  other = some();
  other["c"] = other["a"];
  other.erase("a");
  EXPECT_NE(params_sha256(other), hash);
}

}  // namespace
}  // namespace troupe
