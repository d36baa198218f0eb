#include "scheduler/wait_graph.hpp"

#include <iterator>

namespace troupe {

void Waiting::append(Waiting other) {
  things.insert(things.end(), std::make_move_iterator(other.things.begin()), std::make_move_iterator(other.things.end()));
  waits.insert(waits.end(), std::make_move_iterator(other.waits.begin()), std::make_move_iterator(other.waits.end()));
}

const char* name(RootCause::Kind kind) {
  switch (kind) {
    case RootCause::Kind::silent: return "silent";
    case RootCause::Kind::deadlock: return "deadlock";
    case RootCause::Kind::never: return "never";
    case RootCause::Kind::working: return "working";
    case RootCause::Kind::stuck: return "stuck";
  }
  return "?";
}

const char* name(WaitThing::State state) {
  switch (state) {
    case WaitThing::State::waits: return "waits";
    case WaitThing::State::works: return "works";
    case WaitThing::State::stuck: return "stuck";
    case WaitThing::State::never: return "never";
  }
  return "?";
}

}  // namespace troupe
