#include "apps/environment.hpp"

#include <gtest/gtest.h>

#include "tests/graph/messages.hpp"
#include <troupe/graph/verify.hpp>

namespace troupe {
namespace {

TEST(Environment, VerifyIsOnOrOff) {
  EXPECT_TRUE(parse_verify("1"));
  EXPECT_FALSE(parse_verify("0"));
  EXPECT_EQ(testing::message_of([] { parse_verify("yes"); }),
            "environment variable TROUPE_VERIFY is 'yes': set it to 1 to verify graphs after each pass, or to 0");
}

TEST(Environment, TroupeVerifySwitchesVerificationOfPasses) {
  const bool before = passes_are_verified();
  for (const char* value : {"1", "0"}) {
    ::setenv("TROUPE_VERIFY", value, 1);
    apply_environment();
    EXPECT_EQ(passes_are_verified(), value[0] == '1') << value;
  }
  ::unsetenv("TROUPE_VERIFY");
  apply_environment();
  EXPECT_FALSE(passes_are_verified()) << "not set: as it was";
  verify_passes(before);
}

}  // namespace
}  // namespace troupe
