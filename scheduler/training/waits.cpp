// Describes what a training job and its shards wait for, as things and waits. Computed on demand.
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include <troupe/scheduler/training/coordinator.hpp>
#include <troupe/scheduler/training/shard_state.hpp>
#include <troupe/scheduler/waits/wait_things.hpp>

namespace troupe {
namespace {

constexpr std::size_t kMostTokens = 64;
constexpr std::size_t kMostWorkers = 64;

using State = WaitThing::State;

// "slot 1 of step 7", "slot 1 of phase 0 of step 7".
std::string words(const TokenPlace& place, std::uint32_t phases) {
  return fmt::format("slot {} of {}step {}", place.slot, phases > 1 ? fmt::format("phase {} of ", place.phase) : "",
                     place.step);
}

}  // namespace

class JobWaits {
 public:
  JobWaits(std::uint64_t job, Waiting& out) : job(job), out_(out) {}

  std::string thing(std::string id, std::string text, std::string task = {}, State state = State::waits) {
    out_.things.push_back({.id = id, .text = std::move(text), .task = std::move(task), .state = state});
    return id;
  }
  void wait(const std::string& waiter, const std::string& awaited, const char* kind, std::string text = {},
            std::int64_t for_ns = 0) {
    out_.waits.push_back(
        {.waiter = waiter, .awaited = awaited, .kind = kind, .text = std::move(text), .for_ns = for_ns});
  }

  std::string worker(std::uint32_t index) {
    return thing(wait_thing::worker(job, worker_name(index)), worker_name(index), worker_name(index), State::works);
  }
  std::string slot(const TokenPlace& place, std::uint32_t phases) {
    return thing(wait_thing::slot(job, turn_of(place.step, place.phase, phases), place.slot), words(place, phases));
  }
  std::string join(const std::string& task, std::string text) {
    return thing(wait_thing::join(job, task), std::move(text), task);
  }

  const std::uint64_t job;
  const std::string whole = fmt::format("job/{:x}", job);

 private:
  Waiting& out_;
};

std::vector<Coordinator::Member> Coordinator::list_members() const {
  std::vector<Member> out;
  using Presence = JobMembers::Presence;
  for (std::uint32_t i = 0; i < members_.size(); ++i) {
    const JobMembers::Worker& worker = members_.worker(i);
    if (worker.presence == Presence::absent) continue;
    const std::string_view state = worker.presence == Presence::expected ? "expected"
                                   : worker.presence == Presence::lost   ? "lost"
                                   : worker.suspect                      ? "suspect"
                                   : worker.in_barrier                   ? "in barrier"
                                                                         : "joined";
    out.push_back({i, state, book_.held_by(i)});
  }
  return out;
}

Waiting Coordinator::waiting(std::uint64_t job, Nanoseconds now) const {
  Waiting out;
  if (stage_ == Stage::finished || stage_ == Stage::failed) return out;
  JobWaits say(job, out);
  say.thing(say.whole,
            fmt::format("the training job ({})", stage_ == Stage::training
                                                     ? fmt::format("training, {} steps are complete", counters_.steps)
                                                     : name(stage_)));
  out.things.back().for_ns = now - (stage_ == Stage::joining ? created_ : progress_);
  switch (stage_) {
    case Stage::joining:
      say_joins(say);
      break;
    case Stage::training:
    case Stage::evaluating:
      say_tokens(say, now);
      break;
    default:
      say_barrier(say);
  }
  say_save(say);
  return out;
}

void Coordinator::say_barrier(JobWaits& say) const {
  const std::string barrier = say.thing(wait_thing::barrier(say.job), "the barrier at the end of the job");
  say.wait(say.whole, barrier, "barrier");
  for (std::uint32_t i = 0; i < members_.size(); ++i)
    if (members_.is_member(i) && !members_.worker(i).in_barrier)
      say.wait(barrier, say.worker(i), "barrier", "it has not reached the end of its program");
  if (!saves_.over() && members_.outside_barrier().empty())
    say.wait(barrier,
             say.thing(wait_thing::save(say.job), "the last checkpoint is being written", shard_name(0), State::works),
             "barrier");
  if (!members_.any())
    say.wait(barrier,
             say.thing(fmt::format("workers/{:x}", say.job),
                       "no worker is left: the job cannot end until one joins; start one", {}, State::never),
             "join");
}

void Coordinator::say_save(JobWaits& say) const {
  const SaveRound& round = saves_.round();
  if (round.complete) return;
  const std::string save =
      say.thing(wait_thing::save(say.job), fmt::format("the checkpoint of step {} ({} of {} shards have saved)",
                                                       round.step, round.shards.size(), options_.shards.size()));
  for (const std::uint32_t shard : options_.shards)
    if (!round.shards.contains(shard))
      say.wait(
          save,
          say.thing(wait_thing::version(say.job, shard, round.step * options_.phases),
                    fmt::format("version {} of the parameters on {}", round.step * options_.phases, shard_name(shard)),
                    shard_name(shard)),
          "staging");
}

void Coordinator::say_joins(JobWaits& say) const {
  const std::size_t missing = members_.missing_workers();
  const std::uint32_t joined = members_.count();
  const std::string why =
      options_.min_workers > 0
          ? fmt::format("training begins with {} workers, and {} {} joined; start more, or start the job with fewer",
                        options_.min_workers, joined, joined == 1 ? "has" : "have")
          : "";
  std::vector<std::string> absent;
  for (std::uint32_t i = 0; i < members_.size() && missing > 0 && absent.size() < kMostWorkers; ++i) {
    const bool lost = members_.worker(i).presence == JobMembers::Presence::lost;
    if (!lost && members_.worker(i).presence != JobMembers::Presence::expected) continue;
    absent.push_back(say.join(worker_name(i),
                              fmt::format("{} to join the job{}", worker_name(i), lost ? " again: it was lost" : "")));
  }
  if (missing > 0 && absent.empty())
    absent.push_back(say.thing(fmt::format("workers/{:x}", say.job),
                               fmt::format("workers that have not been started: {} more must join", missing), {},
                               State::never));
  for (const std::uint32_t shard : members_.missing_shards())
    absent.push_back(say.join(shard_name(shard), fmt::format("{} to join the job{}", shard_name(shard),
                                                             members_.has_left(shard) ? " again" : "")));
  for (const std::string& join : absent) say.wait(say.whole, join, "join", why);
  std::set<std::uint32_t> asking;
  for (const Request& request : requests_)
    if (asking.insert(request.worker).second)
      say.wait(say.thing(wait_thing::token(say.job, worker_name(request.worker)),
                         fmt::format("the first token of {}", worker_name(request.worker))),
               say.whole, "token", "training has not begun");
}

void Coordinator::say_tokens(JobWaits& say, Nanoseconds now) const {
  const bool all = options_.mode == TrainingMode::asynchronous || stage_ == Stage::evaluating;
  const std::vector<TokenBook::Open> open = book_.open(kMostTokens, all);
  std::vector<std::uint32_t> members;
  for (std::uint32_t i = 0; i < members_.size() && members.size() < kMostWorkers; ++i)
    if (members_.is_member(i)) members.push_back(i);
  const Nanoseconds quiet = now - progress_;
  if (members.empty()) {
    const std::string nobody = say.thing(
        fmt::format("workers/{:x}", say.job),
        members_.empty_since()
            ? fmt::format("no worker is left: the job cannot continue until one joins; start one (it gives up in {})",
                          wait_time(*members_.empty_since() + options_.empty_timeout - now))
            : "no worker is left: the job cannot continue until one joins; start one",
        {}, State::never);
    say.wait(say.whole, nobody, "join", {}, quiet);
  }
  for (const TokenBook::Open& token : open) {
    const std::string slot = say.slot(token.place, options_.phases);
    say.wait(say.whole, slot, "token", {}, quiet);
    if (token.kept) {
      const auto until = members_.worker(*token.kept).kept_until;
      const std::string left = until ? wait_time(*until - now) : "a while";
      say.wait(
          slot,
          say.join(worker_name(*token.kept), fmt::format("{} to join again: it was lost", worker_name(*token.kept))),
          "join", fmt::format("its token is reserved for another {}, then goes to others", left));
    } else if (token.worker && !token.done) {
      const bool suspect = members_.worker(*token.worker).suspect;
      say.wait(slot, say.worker(*token.worker), "token",
               suspect ? "it has the token, and has not been heard from for a while" : "it has the token");
    } else if (token.worker) {
      for (const std::uint32_t shard : token.unstaged) {
        const std::string from = worker_name(*token.worker), to = shard_name(shard);
        say.wait(slot,
                 say.thing(wait_thing::link(from, to), fmt::format("the connection from {} to {}", from, to), from),
                 "credit", fmt::format("its gradient has been computed, but {} has not received all of it", to));
      }
    } else {
      const char* why =
          token.handed_out ? "its worker was lost, and no other worker has taken it yet" : "no worker has taken it yet";
      for (const std::uint32_t i : members) say.wait(slot, say.worker(i), "token", why);
    }
  }
  say_requests(say, open);
}

void Coordinator::say_requests(JobWaits& say, const std::vector<TokenBook::Open>& open) const {
  std::set<std::uint32_t> asking;
  for (const Request& request : requests_) {
    if (!asking.insert(request.worker).second) continue;
    const std::string task = worker_name(request.worker);
    const std::string token = say.thing(wait_thing::token(say.job, task), fmt::format("a token for {}", task));
    bool others = false;
    for (const TokenBook::Open& of : open) {
      if (of.worker == request.worker) continue;
      others = true;
      say.wait(token, wait_thing::slot(say.job, turn_of(of.place.step, of.place.phase, options_.phases), of.place.slot),
               "token", "all available tokens have been handed out");
    }
    if (!others) say.thing(token, fmt::format("a token for {}, which holds others", task), {}, State::works);
  }
}

Waiting ShardState::waiting(std::uint64_t job, const std::string& task) const {
  Waiting out;
  if (parked_.empty() && cuts_.empty()) return out;
  const ShardWait next = waiting();
  const auto version = [&](std::uint64_t v, State state = State::waits) {
    std::string id = wait_thing::version(job, options_.shard, v);
    out.things.push_back(
        {.id = id, .text = fmt::format("version {} of the parameters on {}", v, task), .task = task, .state = state});
    return id;
  };
  const auto wait = [&](const std::string& waiter, std::string awaited, std::string text = {}, std::uint64_t have = 0,
                        std::uint64_t need = 0) {
    out.waits.push_back({.waiter = waiter,
                         .awaited = std::move(awaited),
                         .kind = "staging",
                         .text = std::move(text),
                         .have = have,
                         .need = need});
  };
  std::set<std::uint64_t> wanted;
  for (const Pull& pull : parked_) wanted.insert(pull.min_version);
  for (const auto& [v, cut] : cuts_) wanted.insert(v);
  const bool asynchronous = options_.mode == TrainingMode::asynchronous;
  for (const std::uint64_t v : wanted) {
    if (asynchronous)
      version(v, State::works);  // waits for the puller's own batch
    else if (v <= version_)
      wait(version(v), version(next.version), "some slices have already moved to the next version");
    else if (v > next.version)
      wait(version(v), version(next.version), "versions are published in order");
  }
  if (asynchronous) return out;
  const std::string id = version(next.version);
  const std::string text = fmt::format("{} of {} slots are staged", next.have, next.need);
  for (const std::uint32_t slot : next.missing) {
    const SlotSource source = source_of(version_, slot, Fate::applied);
    out.things.push_back({.id = wait_thing::slot(job, version_, slot),
                          .text = words({source.step, source.phase, slot}, options_.phases),
                          .task = {}});
    wait(id, wait_thing::slot(job, version_, slot), text, next.have, next.need);
  }
  if (next.uncommitted && next.have >= next.need) {
    const std::string choice = fmt::format("choice/{:x}/{}", job, version_);
    out.things.push_back(
        {.id = choice,
         .text = fmt::format("the coordinator's choice of the slots of step {}", version_ / options_.phases),
         .task = shard_name(0)});
    wait(id, choice, text, next.have, next.need);
  }
  return out;
}

}  // namespace troupe
