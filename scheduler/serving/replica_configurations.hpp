// Which configuration of models each replica of a router has, and how a new one comes to all of them, or to none.
//
//   begin() ──▶ trial ── all would take it ──▶ decided: each is told ── all have it ──▶ over
//                 │                               └── one fails, or is silent ──▶ over, with its error
//                 └── one would not, or is silent ──▶ over, with its error: nothing has changed
//
// What is decided is the current configuration. A replica that comes without it is told, and is not usable until it has
// it: else two replicas would serve different models. One that fails, or is silent for `patience`, is not usable any
// more, and is told again. Replicas report what they have: if that is newer, it is of another router, or of this one
// before it was started again, and becomes the current one here, too.
//
// A plain class: its driver sends what is returned, and answers whoever began. Not thread-safe. Times are those of one
// steady clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <troupe/messages/configured_model.hpp>
#include <troupe/messages/error.hpp>
#include <troupe/messages/nanoseconds.hpp>

namespace troupe {

class ReplicaConfigurations {
 public:
  using Replica = std::uint32_t;
  static constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();

  struct Options {
    Nanoseconds patience = 10 * kSecond;  // for the answer of a replica
    std::size_t most_bytes = 256 << 10;   // of a configuration: it is a part of a frame
  };
  // As ConfigureModels.
  struct Send {
    Replica replica = 0;
    std::uint64_t request = 0;
    bool decided = false;
    ModelConfiguration configuration{};
  };
  struct Actions {
    std::vector<Send> send{};
    std::optional<Error> over{};          // what begin() began has ended: ok, or why not
    std::vector<std::string> troubles{};  // for people to read: replicas that are not usable any more
  };

  ReplicaConfigurations() : ReplicaConfigurations(Options{}) {}
  explicit ReplicaConfigurations(const Options& options) : options_(options) {}

  // The replica can be reached. It is not usable before it reports.
  void up(Replica replica);
  void down(Replica replica, Nanoseconds now, Actions& out);
  // What the replica has; number 0: no router's.
  void reports(Replica replica, const ModelConfiguration& has, Nanoseconds now, Actions& out);

  // The replicas that have reported are to serve these models. `clock`: of this machine; numbers grow with it, also
  // those of several routers. An error: nothing has begun, since another has begun and is not over (aborted), there is
  // no replica (unavailable), or the configuration is too long (invalid_argument).
  [[nodiscard]] Error begin(std::vector<ConfiguredModel> models, std::uint64_t clock, Nanoseconds now, Actions& out);
  // As ModelsConfigured.
  void answered(Replica replica, std::uint64_t request, const Error& error, Nanoseconds now, Actions& out);
  // Ends what waits for silent replicas.
  void expired(Nanoseconds now, Actions& out);
  // When expired() may have something, if nothing is called before; nullopt: never.
  std::optional<Nanoseconds> next_time() const;

  // Whether the replica may be asked for models.
  bool usable(Replica replica) const;
  const ModelConfiguration& current() const { return current_; }
  // Those that have not the current configuration.
  std::vector<Replica> behind() const;

 private:
  struct Known {
    std::optional<std::uint64_t> has{};  // the number that it reported last
    bool usable = false;
    std::uint64_t request = 0;  // that it was told with, and has not answered; 0: none
    Nanoseconds due = kNever;   // when it is told again
    bool troubled = false;      // which was said
  };
  enum class Phase { idle, trial, decided };

  void tell(Replica replica, Known& known, Nanoseconds now, Actions& out);
  void decide(Nanoseconds now, Actions& out);
  void failed(Replica replica, Known& known, Error error, Actions& out);
  void end(Error error, Actions& out);
  void end_if_all_have_answered(Nanoseconds now, Actions& out);
  Error silence() const;

  const Options options_;
  std::map<Replica, Known> replicas_;
  ModelConfiguration current_;
  std::uint64_t last_request_ = 0;

  // Of what was begun.
  Phase phase_ = Phase::idle;
  std::vector<ConfiguredModel> models_;
  std::uint64_t clock_ = 0;
  std::uint64_t trial_ = 0;  // the request of the trial
  Nanoseconds trial_ends_ = kNever;
  std::set<Replica> awaited_;
  Error first_error_;
};

}  // namespace troupe
