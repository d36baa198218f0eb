#include "troupe/scheduler/waits/wait_graph.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

namespace troupe {

void Waiting::append(Waiting other) {
  things.insert(things.end(), std::make_move_iterator(other.things.begin()),
                std::make_move_iterator(other.things.end()));
  waits.insert(waits.end(), std::make_move_iterator(other.waits.begin()), std::make_move_iterator(other.waits.end()));
}

std::string wait_time(std::int64_t ns) {
  const std::int64_t seconds = std::max<std::int64_t>(ns, 0) / 1'000'000'000;
  if (seconds < 60)
    return fmt::format("{:.1f} s", static_cast<double>(std::max<std::int64_t>(ns, 0) / 100'000'000) / 10);
  if (seconds < 3600) return fmt::format("{} min {} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {} min", seconds / 3600, seconds / 60 % 60);
}

const char* name(RootCause::Kind kind) {
  switch (kind) {
    case RootCause::Kind::silent:
      return "silent";
    case RootCause::Kind::deadlock:
      return "deadlock";
    case RootCause::Kind::never:
      return "never";
    case RootCause::Kind::working:
      return "working";
    case RootCause::Kind::stuck:
      return "stuck";
  }
  return "?";
}

const char* name(WaitThing::State state) {
  switch (state) {
    case WaitThing::State::waits:
      return "waits";
    case WaitThing::State::works:
      return "works";
    case WaitThing::State::stuck:
      return "stuck";
    case WaitThing::State::never:
      return "never";
  }
  return "?";
}

}  // namespace troupe
