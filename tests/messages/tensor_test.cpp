#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/error_of.hpp"
#include <troupe/messages/tensor.hpp>

namespace troupe {
namespace {

using testing::error_of;

TEST(Tensor, CopiesShareTheBufferAndClonesDoNot) {
  Tensor a = Tensor::vector<float>({1, 2, 3});
  EXPECT_TRUE(a.unique());
  Tensor b = a;
  EXPECT_FALSE(a.unique());
  EXPECT_EQ(a.raw(), b.raw());
  EXPECT_NE(a.clone().raw(), a.raw());
  EXPECT_TRUE(bitwise_equal(a, a.clone()));
}

TEST(Tensor, BuffersAreAlignedTo64Bytes) {
  for (int n : {0, 1, 17, 1000})
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(Tensor(DType::i8, Shape{n}).raw()) % kBufferAlignment, 0u) << n;
}

TEST(Tensor, RowsAreViews) {
  Tensor a = Tensor::of<std::int32_t>({3, 2}, {0, 1, 2, 3, 4, 5});
  Tensor middle = a.rows(1, 2);
  EXPECT_EQ(middle.shape(), (Shape{1, 2}));
  EXPECT_EQ(middle.data<std::int32_t>()[1], 3);
  EXPECT_FALSE(middle.aligned());
  EXPECT_THROW(a.rows(2, 4), Error);
}

TEST(Tensor, WrongUseIsAnError) {
  EXPECT_THROW(Tensor::vector<float>({1}).data<double>(), Error);
  EXPECT_THROW(Tensor::vector<float>({1, 2}).item<float>(), Error);
  EXPECT_THROW(Tensor::vector<float>({1, 2}).reshaped({3}), Error);
  EXPECT_THROW(Tensor(DType::f32, Shape{std::int64_t{1} << 60}), Error);
  EXPECT_THROW(Tensor(DType::f32, Shape{kUnknown}), Error);
  EXPECT_THROW(Tensor::of<float>(Shape{3}, {1, 2}), Error);
}

TEST(Tensor, WhatIsReadWronglyIsSaid) {
  const Tensor images(DType::f32, Shape{2, 8});
  EXPECT_EQ(error_of([&] { images.data<std::uint8_t>(); }).message(),
            "cannot read a f32[2,8] tensor as u8: read it as f32, or make it with values of u8");
  EXPECT_EQ(error_of([&] { images.item<float>(); }).message(),
            "item() needs a tensor of one element, not f32[2,8]: read it with values()");
  EXPECT_EQ(error_of([] { Tensor().data<float>(); }).message(),
            "cannot read a Tensor without a value as f32: assign one first");
  EXPECT_EQ(error_of([] { Tensor().item<float>(); }).message(), "item() of a Tensor without a value: assign one first");
}

TEST(Tensor, HoldsStrings) {
  Tensor s = Tensor::vector<std::string>({"a", std::string(100, 'b')});
  EXPECT_EQ(s.clone().data<std::string>()[1], std::string(100, 'b'));
  EXPECT_TRUE(bitwise_equal(s, s.clone()));
}

TEST(Half, RoundTripsEveryValueAndRoundsToNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    Half h;
    h.bits = static_cast<std::uint16_t>(bits);
    const float f = static_cast<float>(h);
    if (std::isnan(f))
      EXPECT_TRUE(std::isnan(static_cast<float>(Half(f)))) << bits;
    else
      EXPECT_EQ(Half(f).bits, bits);
  }
  EXPECT_EQ(Half(65519.0f).bits, 0x7bff);
  EXPECT_EQ(Half(65520.0f).bits, 0x7c00);
  EXPECT_EQ(Half(1.0f + 0x1p-11f).bits, Half(1.0f).bits);
  EXPECT_EQ(Half(1.0f + 3 * 0x1p-11f).bits, Half(1.0f + 0x1p-9f).bits);
}

TEST(BFloat16, RoundsToNearestEvenAndKeepsNaN) {
  EXPECT_EQ(BFloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(BFloat16(1.0f + 0x1p-8f).bits, 0x3f80);
  EXPECT_EQ(BFloat16(1.0f + 3 * 0x1p-8f).bits, 0x3f82);
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace
}  // namespace troupe
