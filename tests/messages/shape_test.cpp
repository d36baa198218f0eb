#include <gtest/gtest.h>

#include <troupe/messages/error.hpp>
#include <troupe/messages/shape.hpp>

namespace troupe {
namespace {

TEST(Shape, BroadcastFollowsNumPy) {
  EXPECT_EQ(broadcast({2, 1, 3}, {4, 1}), (Shape{2, 4, 3}));
  EXPECT_EQ(broadcast({kUnknown, 3}, {1, 3}), (Shape{kUnknown, 3}));
  EXPECT_EQ(broadcast({kUnknown}, {5}), (Shape{5}));
  EXPECT_EQ(broadcast({0}, {1}), (Shape{0}));
  EXPECT_THROW(broadcast({2}, {3}), Error);
}

TEST(Shape, RefusesAProductThatOverflows) {
  const Shape huge{std::int64_t{1} << 40, std::int64_t{1} << 40};
  EXPECT_THROW(huge.num_elements(), Error);
  EXPECT_THROW((Shape{0, std::int64_t{1} << 40, std::int64_t{1} << 40}.num_elements()), Error);
  EXPECT_EQ((Shape{0, 5}.num_elements()), 0);
}

TEST(Shape, MergesWhatIsKnown) {
  EXPECT_EQ(Shape({kUnknown, 3}).merged({2, kUnknown}), (Shape{2, 3}));
  EXPECT_EQ(Shape::unknown_rank().merged({2}), Shape{2});
  EXPECT_FALSE(Shape({2}).merged({3}));
  EXPECT_FALSE(Shape({2}).merged({2, 2}));
}

TEST(Shape, RefusesTooManyOrNegativeDimensions) {
  EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), Error);
  EXPECT_THROW((Shape{-2}), Error);
}

}  // namespace
}  // namespace troupe
