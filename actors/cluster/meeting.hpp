// Decides which tasks of its cluster a task dials, when, and which ones it still waits for.
//
//   (not ours to call) ◀── lost ──┐
//   due ── next() ──▶ called ── opened() ──▶ linked ── next() ──▶ greeted ── met() ──▶ up
//    ▲                  │                       │                    │                 │
//    └── after a pause ─┴────────────────────── lost() ──────────────┴─────────────────┘
//
// Between two tasks of a cluster, the one with the greater name dials. A client, which is not in the cluster file,
// dials all. The pause between two attempts doubles up to a limit and resets after each meeting. Tasks with an open
// link are greeted before others are dialled: a node answers once its task has joined.
//
// Uses no sockets and no actors: its driver dials and greets. Not thread-safe. Times are from any steady clock.
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
  using Link = std::uint64_t;  // 0: no open link

  static constexpr std::chrono::milliseconds kFirstPause{20};  // between attempts; doubles each time
  static constexpr std::chrono::milliseconds kLongestPause{500};
  static constexpr std::chrono::seconds kPauseAfterGoodbye{1};

  // The state of another task of the cluster.
  struct State {
    HostPort address;
    bool ours = false;    // dialled by this task
    bool called = false;  // an attempt or greeting is in progress
    Link link = 0;
    bool up = false;  // the link is open, and the two tasks have met over it
    Time next_call{};
    std::chrono::milliseconds pause = kFirstPause;
    Error error;       // why the link is not up
    bool met = false;  // the two tasks had met over the last link: whatever broke it, they may meet again
  };
  // The next action: dial the task at its address, or greet it over its link.
  struct Action {
    TaskName task;
    HostPort address;
    Link link = 0;
  };

  // Without a cluster.
  Meeting() = default;
  // Attempts to reach the other tasks are due from `now` on.
  Meeting(const TaskName& self, const ClusterSpec& cluster, Time now);

  // Returns each action once, until opened(), met() or lost() follows for its task.
  std::optional<Action> next(Time now);
  // When next() is due again, barring other events. None: never.
  std::optional<Time> wake() const;

  // All of these ignore tasks that are not in the cluster file.
  void opened(const TaskName& task, Link link);
  // The two tasks have met over the open link.
  void met(const TaskName& task);
  // The link is gone or could not be opened. `goodbye`: the peer has left, and may return.
  enum class Loss { refused, broken, goodbye };
  void lost(const TaskName& task, Loss loss, Error why, Time now);

  // True if all tasks of a job ("": of all jobs) are up.
  bool all_up(const std::string& job) const;
  struct Missing {
    std::string text;  // tasks, their addresses and errors; "" if none
    Error hopeless;    // set if a task will never become a peer
  };
  Missing missing(const std::string& job) const;
  bool calling() const;  // an attempt or greeting is in progress or due

  const State* find(const TaskName& task) const;
  const std::map<TaskName, State>& states() const { return states_; }

 private:
  std::map<TaskName, State> states_;
};

}  // namespace troupe
