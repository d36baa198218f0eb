// Which replica gets a request, and what becomes of it when replicas come and go.
//
//   add() ──▶ with a replica ── answered() ──▶ over
//                │      ▲
//                │      └── to another: it was lost, or refused because it is full
//                └── cancel(), expired() ──▶ over
//
// Of the replicas that have the version, a request goes to the one with the fewest requests under way; one with a key,
// to the replica that the key prefers of those that are there, so that requests with one key meet again (rendezvous
// hashing: when a replica comes or goes, only its own keys move). A request is answered once. One that no replica has
// is kept for `patience`: a replica that is restarted takes it up.
//
// A plain class: its driver sends what is returned, and answers clients. Not thread-safe. Times are those of one steady
// clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <troupe/messages/error.hpp>
#include <troupe/messages/nanoseconds.hpp>
#include <troupe/scheduler/serving/servable_manager.hpp>

namespace troupe {

class RequestRouter {
 public:
  using Replica = std::uint32_t;
  using Request = std::uint64_t;
  static constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();

  struct Options {
    int attempts = 4;                    // replicas that a request is sent to, at most
    Nanoseconds patience = 5 * kSecond;  // for a replica that has the version
    std::size_t most_waiting = 1024;     // requests without a replica
  };
  struct Send {
    Request request = 0;
    Replica replica = 0;
    bool operator==(const Send&) const = default;
  };
  // To answer: the request has failed.
  struct Fail {
    Request request = 0;
    Error error{};
    std::int64_t retry_after_ms = 0;
    std::optional<Replica> drops{};  // has it, and should stop
  };
  struct Actions {
    std::vector<Send> send{};
    std::vector<Fail> fail{};
  };

  explicit RequestRouter(const Options& options) : options_(options) {}

  // The replica is there, with these versions ready; again when they have changed.
  void up(Replica replica, std::set<ServableId> ready, Nanoseconds now, Actions& out);
  // What it had is sent to others.
  void down(Replica replica, Nanoseconds now, Actions& out);

  // `key`: "" for none.
  void add(Request request, ServableId wanted, const std::string& key, Nanoseconds deadline, Nanoseconds now,
           Actions& out);
  // From the replica. True: the answer is the client's; false: it is not wanted (the request is over, or with another
  // replica), or the request goes to another replica, since this one is full or does not have the version any more.
  bool answered(Request request, Replica replica, Code code, std::int64_t retry_after_ms, Nanoseconds now,
                Actions& out);
  // The replica that has it and should drop it, if any.
  std::optional<Replica> cancel(Request request);
  // Fails what is too late.
  void expired(Nanoseconds now, Actions& out);
  // When expired() may have something, if nothing is called before; nullopt: never.
  std::optional<Nanoseconds> next_time() const;

  // Versions of all replicas that are there, with how many have them.
  std::map<ServableId, std::size_t> ready() const;
  std::size_t replicas() const { return replicas_.size(); }
  std::size_t waiting() const { return waiting_; }
  std::size_t under_way(Replica replica) const;
  std::size_t requests() const { return requests_.size(); }

 private:
  struct Server {
    std::set<ServableId> ready{};
    std::set<Request> has{};
  };
  struct Routed {
    ServableId wanted{};
    std::string key{};
    Nanoseconds deadline = kNever;
    Nanoseconds gives_up = kNever;  // while no replica has it
    std::optional<Replica> replica{};
    std::set<Replica> refused{};  // by these
    int attempts = 0;
    std::int64_t retry_after_ms = 0;  // the shortest that was said
  };
  using Requests = std::map<Request, Routed>;

  std::optional<Replica> choose(const Routed& request) const;
  void place(Requests::iterator request, Nanoseconds now, Actions& out);
  void take_from(Requests::iterator request);
  void give_up_at(Requests::iterator request, Nanoseconds when);  // kNever: not
  void erase(Requests::iterator request);
  void fail_with(Requests::iterator request, Error error, Actions& out);

  const Options options_;
  std::map<Replica, Server> replicas_;
  Requests requests_;
  std::set<std::pair<Nanoseconds, Request>> due_;  // deadlines, and ends of patience
  std::size_t waiting_ = 0;                        // requests without a replica
  std::uint64_t turn_ = 0;                         // of replicas that have as few
};

}  // namespace troupe
