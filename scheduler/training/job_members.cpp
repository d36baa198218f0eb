#include "troupe/scheduler/training/job_members.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace troupe {
namespace {

constexpr std::size_t kMaxDifferences = 3;
constexpr std::size_t kRetired = 8;  // past incarnations remembered per worker

using Settings = std::map<std::string_view, std::string_view>;

Settings parse_settings(std::string_view text) {
  Settings settings;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t equals = std::min(line.find('='), line.size());
    settings[line.substr(0, equals)] = line.substr(std::min(equals + 1, line.size()));
  }
  return settings;
}

void append(std::string& text, std::string_view more) {
  if (!text.empty()) text += ", ";
  text += more;
}

constexpr std::string_view kGraph = "graph";

}  // namespace

std::string worker_name(std::uint32_t worker) { return fmt::format("/job:worker/task:{}", worker); }
std::string shard_name(std::uint32_t shard) { return fmt::format("/job:ps/task:{}", shard); }

std::string setting_differences(std::string_view expected_text, std::string_view actual_text) {
  const Settings expected = parse_settings(expected_text);
  const Settings actual = parse_settings(actual_text);
  constexpr std::size_t kMostShown = 160;
  const auto of = [](const Settings& settings, std::string_view name) {
    const auto found = settings.find(name);
    return found == settings.end() ? std::string("missing") : fmt::format("'{}'", found->second);
  };
  const auto shown = [&](const Settings& settings, std::string_view name) {
    const std::string whole = of(settings, name);
    return whole.size() <= kMostShown ? whole : whole.substr(0, kMostShown) + "...";
  };
  Settings names = expected;
  names.insert(actual.begin(), actual.end());
  names.erase(std::string(kGraph));  // a hash says nothing to people
  std::string text;
  std::size_t count = 0;
  for (const auto& [name, value] : names) {
    if (of(expected, name) == of(actual, name)) continue;
    if (++count > kMaxDifferences) return text + "; and more";
    text += fmt::format("{}{} is {}, expected {}", count == 1 ? "" : "; ", name.substr(0, 80), shown(actual, name),
                        shown(expected, name));
  }
  if (!text.empty()) return text;
  return of(expected, kGraph) == of(actual, kGraph)
             ? "the options match, but the models differ: in their variables or the order of these"
             : "the options match, but the programs build other graphs";
}

JobMembers::JobMembers(const JobOptions& options)
    : options_(options), workers_(std::max(options.workers, options.max_workers)) {
  for (std::uint32_t i = 0; i < options.workers; ++i) workers_[i].presence = Presence::expected;
}

// ---- Messages ------------------------------------------------------------------------------------------------------

Error JobMembers::refuse(Code code, std::string text) {
  ++counts_.refused;
  return Error(code, std::move(text));
}

bool JobMembers::admits(std::uint32_t index, std::uint64_t view, Error& error, TrainingOutbox& out) {
  if (index >= workers_.size()) {
    error = refuse(Code::invalid_argument, fmt::format("worker {} of {}", index, workers_.size()));
    return false;
  }
  Worker& worker = workers_[index];
  if (worker.presence == Presence::expected || worker.presence == Presence::absent) {
    if (view == 0)
      error = refuse(Code::failed_precondition, worker_name(index) + " has not joined the job");
    else  // sent before it left
      ++counts_.fenced;
    return false;
  }
  const bool lost = worker.presence == Presence::lost;
  if (!lost && (!options_.fence || view == 0 || view == worker.view)) return true;
  if (!std::exchange(worker.fenced, true))
    note(MembershipEvent::Kind::fenced, index, 0,
         fmt::format("{} is no longer a member: its messages are refused", worker_name(index)));
  ++(lost ? counts_.ignored : counts_.fenced);
  if (view != 0)
    out.push_back({Destination::worker(index),
                   Fence{index, lost ? view_ : worker.view,
                         lost ? Error(Code::aborted, worker_name(index) + " was declared lost: it may join again")
                              : Error(Code::already_exists, worker_name(index) + " rejoined from another process")}});
  return false;
}

// ---- Joins ---------------------------------------------------------------------------------------------------------

bool JobMembers::may_join(const Join& message, bool over, Error& error) {
  if (message.worker >= workers_.size()) {
    error = refuse(Code::invalid_argument,
                   fmt::format("worker {} cannot join a job of {} workers", message.worker, workers_.size()));
    return false;
  }
  const Worker& worker = workers_[message.worker];
  if (worker.presence != Presence::expected && worker.incarnation == message.incarnation) {
    ++(worker.presence == Presence::lost ? counts_.ignored : counts_.repeated);
    return false;
  }
  const bool stays = options_.on_loss == JobOptions::OnLoss::fail;
  if (worker.presence == Presence::joined && stays) {
    error = refuse(Code::already_exists, worker_name(message.worker) + " has already joined, from another process");
    return false;
  }
  if (options_.fence && std::ranges::find(worker.retired, message.incarnation) != worker.retired.end()) {
    ++counts_.fenced;
    error = Error(Code::aborted,
                  worker_name(message.worker) + " has since left, or rejoined from another process: join again");
    return false;
  }
  if (!over && (worker.presence != Presence::lost || !stays)) return true;
  error = refuse(Code::failed_precondition, worker_name(message.worker) + " cannot join again: the job is over");
  return false;
}

Error JobMembers::other_job(const Join& message) {
  if (message.fingerprint == options_.fingerprint && message.settings == options_.settings) return {};
  return refuse(Code::failed_precondition,
                fmt::format("{} was started for another training job: {}",
                            message.shard ? shard_name(message.worker) : worker_name(message.worker),
                            setting_differences(options_.settings, message.settings)));
}

void JobMembers::admit(std::uint32_t index, Incarnation incarnation, Nanoseconds now, bool tell) {
  Worker& worker = workers_[index];
  worker = {.presence = Presence::joined,
            .incarnation = incarnation,
            .view = ++view_,
            .joined = now,
            .retired = std::move(worker.retired),
            .kept_until = {}};
  note(MembershipEvent::Kind::joined, index, 0, tell ? fmt::format("{} has joined", worker_name(index)) : "");
  ++counts_.joins;
  empty_since_.reset();
}

void JobMembers::begin() {
  for (Worker& worker : workers_)
    if (worker.presence == Presence::expected) worker.presence = Presence::absent;
  note(MembershipEvent::Kind::began);
}

// ---- Losses --------------------------------------------------------------------------------------------------------

bool JobMembers::leaves(const Leave& message) const {
  if (message.shard) {
    const auto shard = shards_.find(message.worker);
    return shard != shards_.end() && shard->second == message.incarnation;
  }
  return message.worker < workers_.size() && is_member(message.worker) &&
         workers_[message.worker].incarnation == message.incarnation;
}

void JobMembers::leave(const Leave& message) {
  if (message.shard) {
    shards_[message.worker] = {};
  } else {
    Worker& worker = workers_[message.worker];
    retire(worker);
    worker = {.presence = message.worker < options_.workers ? Presence::expected : Presence::absent,
              .incarnation = {},
              .retired = std::move(worker.retired),
              .kept_until = {}};
  }
}

// A Join of this incarnation that comes once more is refused.
void JobMembers::retire(Worker& worker) {
  worker.retired.push_back(worker.incarnation);
  if (worker.retired.size() > kRetired) worker.retired.pop_front();
}

void JobMembers::lose(std::uint32_t index, const Error& why, bool training, Nanoseconds now, TrainingOutbox& out) {
  Worker& worker = workers_[index];
  if (worker.presence == Presence::joined) retire(worker);
  worker.presence = Presence::lost;
  worker.in_barrier = worker.fenced = worker.suspect = false;
  ++view_;
  ++counts_.losses;
  if (chief() == size()) empty_since_ = now;
  if (options_.on_loss == JobOptions::OnLoss::fail) return;
  out.push_back({Destination::shards(), Fence{index, view_, why}});
  if (options_.on_loss == JobOptions::OnLoss::wait) worker.kept_until = now + options_.grace;
  if (!lost_at_ && training) lost_at_ = now;
  note(MembershipEvent::Kind::lost, index, 0, fmt::format("{}; {}", why.message(), to_string()));
}

std::vector<std::uint32_t> JobMembers::end_grace(Nanoseconds now) {
  std::vector<std::uint32_t> ended;
  for (std::uint32_t i = 0; i < workers_.size(); ++i) {
    if (!workers_[i].kept_until || now < *workers_[i].kept_until) continue;
    workers_[i].kept_until.reset();
    ended.push_back(i);
  }
  return ended;
}

std::optional<Nanoseconds> JobMembers::next_grace() const {
  std::optional<Nanoseconds> next;
  for (const Worker& worker : workers_)
    if (worker.kept_until) next = std::min(next.value_or(*worker.kept_until), *worker.kept_until);
  return next;
}

void JobMembers::suspect(std::uint32_t index, bool suspect) {
  if (index >= workers_.size() || !is_member(index) || std::exchange(workers_[index].suspect, suspect) == suspect)
    return;
  if (suspect)
    note(MembershipEvent::Kind::suspected, index, 0, worker_name(index) + " has not been heard from for a while");
  else
    note(MembershipEvent::Kind::heard, index, 0, worker_name(index) + " has been heard from again");
}

// ---- Work ----------------------------------------------------------------------------------------------------------

void JobMembers::use(std::uint32_t index, Nanoseconds now) {
  if (!std::exchange(workers_[index].used, true))
    note(MembershipEvent::Kind::used, index, now - workers_[index].joined);
}

void JobMembers::advance(std::uint64_t steps, Nanoseconds now) {
  if (steps <= steps_) return;
  if (lost_at_) {
    const Nanoseconds took = now - *std::exchange(lost_at_, std::nullopt);
    note(MembershipEvent::Kind::went_on, std::nullopt, took,
         fmt::format("training continued at step {}, {:.2f} s after the loss", steps, static_cast<double>(took) / 1e9));
  }
  steps_ = steps;
}

void JobMembers::note(MembershipEvent::Kind kind, std::optional<std::uint32_t> worker, Nanoseconds took,
                      std::string text) {
  events_.push_back({kind, worker, steps_, took, std::move(text)});
}

// ---- Reading -------------------------------------------------------------------------------------------------------

std::uint32_t JobMembers::count() const {
  return static_cast<std::uint32_t>(std::ranges::count(workers_, Presence::joined, &Worker::presence));
}

std::uint32_t JobMembers::in_barrier() const {
  return static_cast<std::uint32_t>(std::ranges::count(workers_, true, &Worker::in_barrier));
}

std::uint64_t JobMembers::view_of(const Join& message) const {
  if (message.shard || message.worker >= workers_.size()) return 0;
  const Worker& worker = workers_[message.worker];
  return worker.presence == Presence::joined && worker.incarnation == message.incarnation ? worker.view : 0;
}

std::uint32_t JobMembers::chief() const {
  const auto alive = std::ranges::find_if(workers_, [](const Worker& worker) {
    return worker.presence == Presence::joined || worker.presence == Presence::expected;
  });
  return static_cast<std::uint32_t>(alive - workers_.begin());
}

std::size_t JobMembers::missing_workers() const {
  if (options_.min_workers == 0)
    return static_cast<std::size_t>(std::ranges::count(workers_, Presence::expected, &Worker::presence));
  return options_.min_workers - std::min(options_.min_workers, count());
}

std::vector<std::uint32_t> JobMembers::missing_shards() const {
  std::vector<std::uint32_t> missing;
  for (const auto& [shard, incarnation] : shards_)
    if (incarnation == Incarnation{}) missing.push_back(shard);
  for (const std::uint32_t shard : options_.joining)
    if (!shards_.contains(shard)) missing.push_back(shard);
  return missing;
}

bool JobMembers::has_left(std::uint32_t shard) const { return shards_.contains(shard); }

std::string JobMembers::not_joined() const {
  const std::size_t missing = missing_workers();
  std::string text = missing > 0 ? list(Presence::expected) : "";
  if (options_.min_workers > 0 && missing > 0)
    text = fmt::format("{} of {}", missing, text.empty() ? "the lost workers" : text);
  for (const std::uint32_t shard : missing_shards()) append(text, shard_name(shard));
  return text;
}

template <class Chosen>
std::string JobMembers::list_if(Chosen chosen) const {
  std::string text;
  for (std::uint32_t i = 0; i < workers_.size(); ++i)
    if (chosen(workers_[i])) append(text, worker_name(i));
  return text;
}

std::string JobMembers::list(Presence presence) const {
  return list_if([&](const Worker& worker) { return worker.presence == presence; });
}

std::string JobMembers::outside_barrier() const {
  return list_if([](const Worker& worker) { return worker.presence == Presence::joined && !worker.in_barrier; });
}

std::string JobMembers::to_string() const {
  const auto numbers = [&](const auto& chosen) {
    std::string text;
    for (std::uint32_t i = 0; i < workers_.size(); ++i)
      if (chosen(workers_[i])) append(text, std::to_string(i));
    return text;
  };
  const auto are = [](Presence presence) {
    return [presence](const Worker& worker) { return worker.presence == presence; };
  };
  const std::string joined = numbers(are(Presence::joined));
  std::string text = fmt::format("view {}: workers {} of {}", view_, joined.empty() ? "none" : joined, workers_.size());
  const auto add = [&](std::string_view what, const std::string& found) {
    if (!found.empty()) text += fmt::format("; {}: {}", what, found);
  };
  add("suspect", numbers([](const Worker& worker) { return worker.suspect; }));
  add("expected", numbers(are(Presence::expected)));
  add("lost", numbers(are(Presence::lost)));
  return text;
}

std::string_view name(MembershipEvent::Kind kind) {
  switch (kind) {
    case MembershipEvent::Kind::waits:
      return "waits";
    case MembershipEvent::Kind::began:
      return "began";
    case MembershipEvent::Kind::joined:
      return "joined";
    case MembershipEvent::Kind::used:
      return "used";
    case MembershipEvent::Kind::suspected:
      return "suspected";
    case MembershipEvent::Kind::heard:
      return "heard";
    case MembershipEvent::Kind::lost:
      return "lost";
    case MembershipEvent::Kind::went_on:
      return "went_on";
    case MembershipEvent::Kind::fenced:
      return "fenced";
  }
  return "unknown";
}

}  // namespace troupe
