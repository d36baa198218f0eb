// Which versions of which models are loaded, and when.
//
//            aspire()       due(): load         loaded()       not aspired      quiesced()
//   a source ───────▶ New ───────────▶ Loading ──────────▶ Ready ─────────▶ Quiescing ────▶ Unloading ──▶ Unloaded
//                      ▲                  │                  ▲                  │          due(): unload
//                      │                  │ failed()         └──── aspired ─────┘
//                      ├─ after a pause ──┤
//                      └──── retry() ─── Error, after the last attempt
//
// A version is aspired if its source wants it to be served; a source always tells all that it wants of a model. The
// manager never unloads a version that is aspired, and
//   * preserving availability, keeps the newest ready version that is no longer aspired until one that is aspired is
//     ready: a new version that fails, or does not fit into memory beside it, changes nothing for users;
//   * preserving resources, unloads all that is no longer aspired before it loads anything of the model: two versions
//     need not fit beside each other, and there are moments without any.
// The bytes of all versions that are loaded, being loaded or unloaded do not exceed `memory`, as far as their files
// tell how many they need; one that turns out to need more than there is is unloaded again.
//
// A plain class: its driver loads and unloads, and hands versions to requests, each of which keeps its version to its
// end. Not thread-safe. Times are those of one steady clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/messages/error.hpp>
#include <troupe/messages/nanoseconds.hpp>

namespace troupe {

enum class ServableState : std::uint8_t { fresh, loading, ready, quiescing, unloading, unloaded, error };
std::string_view name(ServableState state);  // "New", "Loading", ...

// One version of one model.
struct ServableId {
  std::string model{};
  std::int64_t version = 0;
  auto operator<=>(const ServableId&) const = default;
  std::string to_string() const;  // "digits/3"
};

class ServableManager {
 public:
  enum class Transition : std::uint8_t { preserve_availability, preserve_resources };
  struct Options {
    Transition transition = Transition::preserve_availability;
    std::size_t memory = std::numeric_limits<std::size_t>::max();  // bytes
    std::size_t loads_at_once = 2;
    int attempts = 6;                   // to load a version
    Nanoseconds first_pause = kSecond;  // after a failed attempt; doubles with each
    Nanoseconds longest_pause = 60 * kSecond;
  };
  struct Aspired {
    std::int64_t version = 0;
    std::size_t bytes = 0;  // that it will need, as far as its files tell
  };
  struct Action {
    enum Kind : std::uint8_t { load, unload } kind = load;
    ServableId id{};
    bool operator==(const Action&) const = default;
  };
  struct Status {
    ServableId id{};
    ServableState state = ServableState::fresh;
    bool aspired = false;
    std::size_t bytes = 0;
    int attempts = 0;  // to load it, so far
    Error error{};     // of the last attempt; of a new version, why it is not being loaded, if it could be
  };

  // Throws invalid_argument for limits below 1.
  explicit ServableManager(const Options& options);

  // The versions of the model that its source wants from now on; none: the model goes. Throws invalid_argument for a
  // version that is negative or given twice.
  void aspire(const std::string& model, std::span<const Aspired> versions, Nanoseconds now);
  // A version in state Error is tried again as if it were new. Throws not_found or failed_precondition.
  void retry(const ServableId& id, Nanoseconds now);

  // What the driver has to begin now, each once. Versions that are no longer needed become Quiescing here: the driver
  // hands them to no request from then on.
  std::vector<Action> due(Nanoseconds now);
  // When due() may have something again, if nothing is called before; nullopt: never.
  std::optional<Nanoseconds> next_attempt() const;

  // Ends of actions. These throw failed_precondition, and change nothing, if the version is in another state.
  void loaded(const ServableId& id, std::size_t bytes, Nanoseconds now);  // bytes: as measured
  void failed(const ServableId& id, Error error, Nanoseconds now);
  void unloaded(const ServableId& id, Nanoseconds now);
  // The last request of a version that is Quiescing has ended. False: it is aspired again, and ready.
  bool quiesced(const ServableId& id);

  // Of the ready versions of a model, ascending: those that requests may get.
  std::vector<std::int64_t> ready(std::string_view model) const;
  // Versions of a model, ascending, or of all by model; with the last kMostEnded of each that are unloaded.
  std::vector<Status> status(std::string_view model) const;
  std::vector<Status> status() const;
  bool has(std::string_view model) const { return models_.find(model) != models_.end(); }
  // Of all versions that take memory.
  std::size_t bytes() const;
  // Whether due() left nothing that goes on or is tried again by itself.
  bool settled() const;

  static constexpr std::size_t kMostEnded = 8;

 private:
  struct Version {
    ServableState state = ServableState::fresh;
    bool aspired = true;
    bool idle = false;  // quiescing: no request has it
    std::size_t bytes = 0;
    int attempts = 0;
    Nanoseconds not_before = 0;  // of the next attempt
    Error error{};
    std::uint64_t ended = 0;  // order among those that are unloaded
  };
  using Versions = std::map<std::int64_t, Version>;
  using Models = std::map<std::string, Versions, std::less<>>;

  Version& in_state(const ServableId& id, ServableState state, std::string_view event);
  void end(Versions& versions, Version& version);
  void retire(Versions& versions) const;
  // Whether the model's transition allows to load this version now.
  bool may_load(const Versions& versions) const;
  std::size_t loading() const;

  Options options_;
  Models models_;
  Nanoseconds now_ = 0;  // of the last due()
  std::uint64_t ended_ = 0;
};

}  // namespace troupe
