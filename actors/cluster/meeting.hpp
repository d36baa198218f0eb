// Which other tasks of its cluster a task calls, when, and for whom it still waits.
//
//   (not ours to call) ◀── lost ──┐
//   due ── next() ──▶ called ── opened() ──▶ linked ── next() ──▶ greeted ── met() ──▶ up
//    ▲                  │                       │                    │                 │
//    └── after a pause ─┴────────────────────── lost() ──────────────┴─────────────────┘
//
// Of two tasks of a cluster the one with the greater name calls. A client, which is in no cluster file, calls all. The
// pause between two calls doubles up to a limit, and begins anew with each meeting. One whose link is open is greeted
// before others are called: its node answers once the task has joined.
//
// Knows no sockets and no actors: whoever drives it calls and greets. Not thread-safe. Times are of any steady clock.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include <troupe/actors/network/cluster_spec.hpp>
#include <troupe/messages/error.hpp>
#include <troupe/messages/frames.hpp>

namespace troupe {

class Meeting {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Link = std::uint64_t;  // 0: none is open

  static constexpr std::chrono::milliseconds kFirstPause{20};  // between calls; then twice as long
  static constexpr std::chrono::milliseconds kLongestPause{500};
  static constexpr std::chrono::seconds kPauseAfterGoodbye{1};

  // What is known of another task of the cluster.
  struct State {
    HostPort address;
    bool ours = false;    // to call
    bool called = false;  // a call or a greeting is under way
    Link link = 0;
    bool up = false;  // it is open, and the two have met over it
    Time next_call{};
    std::chrono::milliseconds pause = kFirstPause;
    Error error;  // why it is not up
  };
  // What is to be done now: to call the task at its address, or to greet it over its link.
  struct Action {
    TaskName task;
    HostPort address;
    Link link = 0;
  };

  // Of no cluster yet: nothing is known.
  Meeting() = default;
  // The other tasks are called from `now` on.
  Meeting(const TaskName& self, const ClusterSpec& cluster, Time now);

  // Each is returned once until opened(), met() or lost() follows for its task.
  std::optional<Action> next(Time now);
  // When next() has something to do, if nothing happens before. None: never.
  std::optional<Time> wake() const;

  // All of these do nothing for tasks that are not in the cluster file.
  void opened(const TaskName& task, Link link);
  // The two have met over the open link.
  void met(const TaskName& task);
  // There is no link, or no longer. `goodbye`: the other end has left, and may come again.
  enum class Loss { refused, broken, goodbye };
  void lost(const TaskName& task, Loss loss, Error why, Time now);

  // Of a job ("": of all jobs).
  bool all_up(const std::string& job) const;
  struct Missing {
    std::string text;  // tasks, their addresses and what is wrong; "": none
    Error hopeless;    // of one that will never be a peer
  };
  Missing missing(const std::string& job) const;
  bool calling() const;  // anybody, or about to greet

  const State* find(const TaskName& task) const;
  const std::map<TaskName, State>& states() const { return states_; }

 private:
  std::map<TaskName, State> states_;
};

}  // namespace troupe
