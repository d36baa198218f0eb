#include "apps/signals.hpp"

#include <gtest/gtest.h>
#include <signal.h>

namespace troupe {
namespace {

TEST(StopSignalsDeathTest, BeforeThereIsAnythingToEndASignalEndsTheProcess) {
  for (const int number : {SIGINT, SIGTERM}) {
    EXPECT_EXIT(
        {
          StopSignals signals;
          raise(number);
        },
        ::testing::ExitedWithCode(128 + number), "")
        << "signal " << number;
  }
}

TEST(StopSignalsDeathTest, TheSecondSignalKills) {
  EXPECT_EXIT(
      {
        StopSignals signals;
        signals.end_in_order();
        raise(SIGINT);
        if (signals.stop()) raise(SIGTERM);
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

TEST(StopSignals, TheFirstSignalAsksToStop) {
  for (const int number : {SIGINT, SIGTERM}) {
    SCOPED_TRACE(::testing::Message() << "signal " << number);
    StopSignals signals;
    signals.end_in_order();
    EXPECT_FALSE(signals.stop());
    EXPECT_EQ(signals.exit_code(), 0);
    raise(number);
    EXPECT_TRUE(signals.stop());
    EXPECT_EQ(signals.exit_code(), 128 + number);
    signals.wait();
  }
}

}  // namespace
}  // namespace troupe
