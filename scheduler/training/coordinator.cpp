#include "troupe/scheduler/training/coordinator.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

namespace troupe {
namespace {

constexpr std::size_t kStates = 64;  // last versions kept for checkpoints
constexpr std::uint32_t kMaxWorkers = 1 << 20;
constexpr std::uint32_t kMaxSlots = 1 << 20;
constexpr std::uint32_t kMaxPhases = 64;

void check_options(const JobOptions& options) {
  if (options.workers == 0 || options.slots == 0 || options.batch == 0 || options.evaluation_batch == 0 ||
      options.steps_per_epoch == 0)
    invalid_argument(
        "training job: workers, slots, batch, evaluation_batch and steps_per_epoch must be at least 1; use a smaller "
        "batch if the data has too few examples for a step");
  if (options.phases == 0 || options.phases > kMaxPhases)
    invalid_argument("training job: a step has 1 to {} phases, not {}", kMaxPhases, options.phases);
  if (!options.phase_shards.empty() && options.phase_shards.size() != options.phases)
    invalid_argument("training job: shards of {} phases, but a step has {}", options.phase_shards.size(),
                     options.phases);
  if (std::uint64_t{options.slots} + options.backups > kMaxSlots)
    invalid_argument("training job: {} slots, at most {} are supported", options.slots + options.backups, kMaxSlots);
  if (options.steps_per_epoch > JobOptions::kUnknown || options.evaluation_batches > JobOptions::kUnknown)
    invalid_argument("training job: {} steps per epoch and {} batches of an evaluation, at most {} are supported",
                     options.steps_per_epoch, options.evaluation_batches, JobOptions::kUnknown - 1);
  if (options.min_workers > std::max(options.workers, options.max_workers))
    invalid_argument("training job: min_workers is {}, but the job has at most {} workers", options.min_workers,
                     std::max(options.workers, options.max_workers));
  if (options.workers > kMaxWorkers || options.max_workers > kMaxWorkers)
    invalid_argument("training job: {} workers, at most {} are supported",
                     std::max(options.workers, options.max_workers), kMaxWorkers);
  if (options.mode == TrainingMode::asynchronous && options.slots != 1)
    invalid_argument("training job: asynchronous training has one slot, not {}", options.slots);
  if (options.mode == TrainingMode::asynchronous && options.backups != 0)
    invalid_argument("training job: asynchronous training has no backup slots");
  if (options.commits && options.backups == 0)
    invalid_argument("training job: a commit log requires backup slots, and this job has none");
  if (options.commits && !options.commits->fits(options.slots, options.slots + options.backups))
    invalid_argument("training job: the commit log does not match: its steps do not use {} of {} slots", options.slots,
                     options.slots + options.backups);
  if (options.mode != TrainingMode::bounded_staleness && options.staleness != 0)
    invalid_argument("training job: staleness = {} requires bounded staleness", options.staleness);
}

template <class... Args>
[[noreturn]] void fail_resume(fmt::format_string<Args...> format, Args&&... args) {
  fail(Code::failed_precondition, "the state to resume belongs to another training job: {}",
       fmt::format(format, std::forward<Args>(args)...));
}

constexpr Nanoseconds kWord = 5'000'000'000;  // between log lines about the same wait

double seconds(Nanoseconds duration) { return static_cast<double>(duration) / 1e9; }

JobOptions checked(JobOptions options) {
  check_options(options);
  if (options.phase_shards.empty()) options.phase_shards.assign(options.phases, options.shards);
  return options;
}

SaveRounds::Options saving(const JobOptions& options) {
  return {.every = options.save_every,
          .begun = options.saved_step,
          .shards = options.shards,
          .asynchronous = options.mode == TrainingMode::asynchronous};
}

}  // namespace

Coordinator::Coordinator(JobOptions options, Nanoseconds now)
    : options_(checked(std::move(options))),
      created_(now),
      next_word_(now + kWord),
      started_(now),
      members_(options_),
      last_request_(members_.size()),
      decisions_(options_.control),
      saves_(saving(options_)) {
  versions_.resize(options_.shards.size());
  if (!options_.resume) return;
  check_resume();
  decisions_.replay(options_.resume->history);
  commits_ = options_.resume->commits;
  places_.add(options_.resume->place);
}

void Coordinator::check_resume() const {
  const JobState& state = *options_.resume;
  if (state.epoch >= std::max(options_.epochs, 1u)) fail_resume("epoch {} of {}", state.epoch, options_.epochs);
  const std::uint64_t steps = state.step - state.epoch_step;
  if (state.step < state.epoch_step || steps > options_.steps_per_epoch ||
      (options_.steps_per_epoch != JobOptions::kUnknown && state.epoch_step != state.epoch * options_.steps_per_epoch))
    fail_resume("step {} of epoch {}, which begins at step {} and has {}", state.step, state.epoch, state.epoch_step,
                options_.steps_per_epoch);
  if (state.examples > steps * options_.slots * options_.batch)
    fail_resume("{} examples of {} steps", state.examples, steps);
  if (options_.backups > 0 && !state.commits.empty() && state.commits.end() != state.step * options_.phases)
    fail_resume("step {}, but commits up to turn {}", state.step, state.commits.end());
}

// ---- Time -----------------------------------------------------------------------------------------------------------

std::optional<Nanoseconds> Coordinator::deadline() const {
  if (stage_ == Stage::finished || stage_ == Stage::failed) return std::nullopt;
  std::optional<Nanoseconds> first;
  const auto consider = [&](Nanoseconds time) { first = first ? std::min(*first, time) : time; };
  if (stage_ == Stage::joining) consider(std::min(next_word_, created_ + options_.join_timeout));
  const auto empty_since = members_.empty_since();
  if (stage_ != Stage::joining && options_.step_timeout > 0 && !empty_since)
    consider(progress_ + options_.step_timeout);
  if (empty_since) consider(*empty_since + options_.empty_timeout);
  if (const auto grace = members_.next_grace()) consider(*grace);
  return first;
}

void Coordinator::tick(Nanoseconds now, TrainingOutbox& out, const Explain& explain) {
  const auto limit = deadline();
  if (!limit || now < *limit) return;
  for (const std::uint32_t worker : members_.end_grace(now)) book_.release_kept(worker);
  serve(out);
  if (stage_ == Stage::joining) {
    if (now >= created_ + options_.join_timeout) return end_joining(now, out, explain);
    if (now < next_word_) return;
    next_word_ = now + kWord;
    members_.note(MembershipEvent::Kind::waits, std::nullopt, 0,
                  fmt::format("training is waiting for {} to join ({:.0f} of {:.0f} s)", members_.not_joined(),
                              seconds(now - created_), seconds(options_.join_timeout)));
    return;
  }
  if (const auto empty_since = members_.empty_since()) {
    if (now >= *empty_since + options_.empty_timeout)
      fail(Error(Code::unavailable, fmt::format("training job: no worker is left, and none has joined for {} s",
                                                seconds(options_.empty_timeout))),
           out);
    return;
  }
  if (options_.step_timeout <= 0 || now < progress_ + options_.step_timeout) return;
  fail_late(fmt::format("training job: no progress for {} s while {}; missing: {}", seconds(options_.step_timeout),
                        name(stage_), missing()),
            out, explain);
}

void Coordinator::fail_late(std::string text, TrainingOutbox& out, const Explain& explain) {
  const std::optional<std::string> why = explain ? explain() : "";
  if (why) fail(Error(Code::deadline_exceeded, std::move(text) + *why), out);
}

// Handles the join timeout: fails the job, or begins without the missing workers.
void Coordinator::end_joining(Nanoseconds now, TrainingOutbox& out, const Explain& explain) {
  if (options_.refused) return fail(options_.refused, out);
  const bool without = options_.min_workers == 0 && options_.on_loss != JobOptions::OnLoss::fail;
  if (without && members_.any() && members_.missing_shards().empty()) return begin(now, out);
  fail_late(fmt::format("training job: {} did not join within {} s; start them, or start the job with fewer workers",
                        members_.not_joined(), seconds(options_.join_timeout)),
            out, explain);
}

// Lists what blocks the job: incomplete tokens (synchronous training: of the first incomplete step), and workers that
// request none.
std::string Coordinator::missing() const {
  if (stage_ == Stage::finishing) return waits_for();
  const bool in_order = stage_ == Stage::training && options_.mode == TrainingMode::synchronous;
  std::string text = book_.outstanding(8, in_order);
  for (std::uint32_t i = 0; i < members_.size(); ++i) {
    const auto asks = std::ranges::find(requests_, i, &Request::worker);
    if (members_.is_member(i) && book_.held(i) == 0 && asks == requests_.end())
      text += fmt::format("{}{}, which requests no token", text.empty() ? "" : "; ", worker_name(i));
  }
  return text;
}

// ---- Tokens ---------------------------------------------------------------------------------------------------------

Error Coordinator::take_token(const TakeToken& message, Nanoseconds, TrainingOutbox& out) {
  Error error;
  if (!admits(message.worker, message.view, error, out)) return error;
  std::uint64_t& last = last_request_[message.worker];
  if (message.request <= last) {
    ++counters_.repeated;
    return {};
  }
  if (stage_ == Stage::finished)
    return refuse(Code::failed_precondition, worker_name(message.worker) + " requested a token, but the job is over");
  last = message.request;
  requests_.push_back({message.worker, message.request});
  serve(out);
  return {};
}

std::optional<std::uint32_t> Coordinator::fewest_held() const {
  std::size_t fewest = std::numeric_limits<std::size_t>::max();
  std::optional<std::uint32_t> who;
  const std::uint32_t members = members_.count();
  for (std::uint32_t i = 0; i < members_.size(); ++i)
    if (members_.is_member(i) && book_.held(i) < fewest && book_.has_token_for(i, members))
      fewest = book_.held(*(who = i));
  return who;
}

// The first request that may be answered now: from a worker that holds no more tokens than any other. Tokens of a lost
// worker go to anyone, or to the worker they are kept for.
std::deque<Coordinator::Request>::iterator Coordinator::next_request() {
  if (book_.returned() > 0) return requests_.begin();
  const auto keeps =
      std::ranges::find_if(requests_, [&](const Request& request) { return book_.keeps(request.worker); });
  if (keeps != requests_.end()) return keeps;
  const auto least = fewest_held();
  if (!least) return requests_.end();
  const std::size_t fewest = book_.held(*least);
  const std::uint32_t members = members_.count();
  return std::ranges::find_if(requests_, [&](const Request& request) {
    return book_.held(request.worker) <= fewest && book_.has_token_for(request.worker, members);
  });
}

// Answers parked requests while there are tokens.
void Coordinator::serve(TrainingOutbox& out) {
  if (stage_ == Stage::joining || stage_ == Stage::finished || failure_) return;
  while (!requests_.empty()) {
    const auto next = stage_ == Stage::finishing ? requests_.begin() : next_request();
    if (next == requests_.end()) break;
    const Request request = *next;
    std::optional<Token> token;
    if (stage_ == Stage::finishing) {
      token = finish_token();
    } else {
      token = book_.take(request.worker, members_.count());
    }
    if (!token) break;
    token->request = request.number;
    requests_.erase(next);
    ++counters_.tokens;
    out.push_back({Destination::worker(request.worker), *token});
  }
  const bool waits_for_turns = options_.lookahead > 0 || options_.staleness > 0;
  if (stage_ == Stage::training && waits_for_turns && requests_.empty()) serve_unasked(out);
}

Token Coordinator::finish_token() const {
  Token token;
  token.kind = TokenKind::finish;
  token.epoch = epoch_;
  token.step = book_.plan().first_step;
  token.slot = chief();
  token.min_version = book_.plan().version;
  token.keep = decisions_.has_kept();
  return token;
}

// Hands out returned tokens unrequested: workers that hold only tokens of later steps wait for them, and would never
// request them.
void Coordinator::serve_unasked(TrainingOutbox& out) {
  while (book_.returned() > 0 && members_.any()) {
    const std::uint32_t worker = *fewest_held();  // not empty: anyone may take a returned token
    const std::optional<Token> token = book_.take(worker);
    if (!token) return;
    ++counters_.tokens;
    out.push_back({Destination::worker(worker), *token});  // its request is 0
  }
}

Error Coordinator::count(TokenBook::Note note, std::string_view what, Nanoseconds now) {
  if (note == TokenBook::Note::counted) progress_ = now;
  if (note == TokenBook::Note::repeated) ++counters_.repeated;
  if (note == TokenBook::Note::late) ++counters_.late;
  if (note != TokenBook::Note::unexpected) return {};
  return refuse(
      Code::invalid_argument,
      fmt::format("training job: {} does not match a token handed out in epoch {} ({})", what, epoch_, name(stage_)));
}

Error Coordinator::token_done(const TokenDone& message, Nanoseconds now, TrainingOutbox& out) {
  if (message.token.kind == TokenKind::train) places_.add({message.token.epoch, message.token.batch, message.position});
  Error error;
  if (!admits(message.worker, message.view, error, out)) return error;
  const TokenBook::Note note = book_.done(message);
  if (note == TokenBook::Note::counted) {
    members_.use(message.worker, now);
    advance(now, out);
  }
  if (note == TokenBook::Note::late) serve(out);
  return count(note,
               fmt::format("the report of {} for step {} slot {}", worker_name(message.worker), message.token.step,
                           message.token.slot),
               now);
}

Error Coordinator::staged(const Staged& message, Nanoseconds now, TrainingOutbox& out) {
  if (failure_) return failure_;
  const TokenBook::Note note = book_.staged(message);
  if (note == TokenBook::Note::counted) {
    const auto shard = std::find(options_.shards.begin(), options_.shards.end(), message.shard);
    std::uint64_t& version = versions_[static_cast<std::size_t>(shard - options_.shards.begin())];
    version = std::max(version, message.version);
    advance(now, out);
  }
  return count(
      note, fmt::format("the report of shard {} for step {} slot {}", message.shard, message.step, message.slot), now);
}

// ---- Epochs ---------------------------------------------------------------------------------------------------------

void Coordinator::begin_training(Nanoseconds now) {
  stage_ = Stage::training;
  if (options_.resume) {
    epoch_ = options_.resume->epoch;
    epoch_step_ = options_.resume->epoch_step;
  }
  epoch_started_ = now;
  TokenPlan plan;
  plan.epoch = epoch_;
  plan.first_step = epoch_step_;
  plan.steps = options_.steps_per_epoch;
  plan.phases = options_.phases;
  plan.slots = tokens();
  plan.needed = options_.slots;
  plan.commits = options_.commits;
  plan.examples = options_.batch;
  plan.mode = options_.mode;
  plan.staleness = options_.staleness;
  plan.shards = options_.phase_shards;
  plan.rate_scale = decisions_.last().rate_scale;
  plan.keep = decisions_.last().keep;
  plan.phases_in_order = options_.phases_in_order;
  if (options_.on_loss != JobOptions::OnLoss::fail && options_.mode != TrainingMode::asynchronous)
    plan.lookahead = options_.staleness * options_.phases + options_.lookahead;
  book_.begin(std::move(plan));
  if (const auto resume = std::exchange(options_.resume, std::nullopt)) {
    book_.resume(resume->step, {resume->sums, resume->examples});
    started_ = now - resume->job_ns;
    epoch_started_ = now - resume->epoch_ns;
  }
  note_state(epoch_step_ + book_.complete_steps(), book_.figures(), now);
}

// Keeps the state at the end of an epoch, not that at the start of the next, so that a resumed job sends the epoch's
// figures again.
void Coordinator::note_state(std::uint64_t step, const TokenBook::Figures& figures, Nanoseconds now) {
  states_.try_emplace(step, JobState{.epoch = epoch_,
                                     .step = step,
                                     .epoch_step = epoch_step_,
                                     .examples = figures.examples,
                                     .job_ns = now - started_,
                                     .epoch_ns = now - epoch_started_,
                                     .sums = figures.sums,
                                     .history = decisions_.history(),
                                     .commits = {}});
  if (states_.size() > kStates) states_.erase(states_.begin());
}

JobState Coordinator::end_state() const {
  JobState state;
  state.epoch = epoch_ + 1;
  state.step = state.epoch_step = counters_.steps;
  state.history = decisions_.history();
  state.job_ns = static_cast<Nanoseconds>(figures_.seconds * 1e9);
  state.commits = commits_;
  return state;
}

DataPlace Coordinator::place() const {
  if (options_.resume) return options_.resume->place;
  return places_.before(epoch_, book_.complete_steps());
}

std::optional<JobState> Coordinator::state(std::uint64_t step) const {
  const auto found =
      options_.mode == TrainingMode::asynchronous && !states_.empty() ? std::prev(states_.end()) : states_.find(step);
  if (found == states_.end()) return std::nullopt;
  JobState state = found->second;
  state.place = places_.before(state.epoch, state.step - state.epoch_step);
  state.commits = commits_;
  state.commits.truncate(state.step * options_.phases);
  return state;
}

void Coordinator::advance(Nanoseconds now, TrainingOutbox& out) {
  for (TokenBook::Choice& choice : book_.take_choices()) {
    const Commit commit{choice.step, choice.phase, std::move(choice.slots)};
    out.push_back({Destination::shards(), commit});
    for (const std::uint32_t worker : choice.holders) out.push_back({Destination::worker(worker), commit});
    commits_.add(turn_of(commit.step, commit.phase, options_.phases), commit.slots);
  }
  for (const TokenBook::Boundary& boundary : book_.take_boundaries())
    note_state(boundary.next_step, boundary.figures, now);
  if (stage_ == Stage::training) {
    const std::uint64_t steps = epoch_step_ + book_.complete_steps();
    members_.advance(steps, now);
    counters_.steps = std::max(counters_.steps, steps);
  }
  if (book_.finished()) {
    if (stage_ == Stage::training) end_training(now, out);
    if (book_.finished() && !failure_) end_epoch(now, out);
  }
  serve(out);
}

// Switches to evaluation, which has no tokens without evaluation data.
void Coordinator::end_training(Nanoseconds now, TrainingOutbox& out) {
  const TokenBook::Figures& figures = book_.figures();
  if (book_.complete_steps() == 0)
    return fail(Error(Code::invalid_argument,
                      fmt::format("training job: the training data has no complete step in epoch {}: use a smaller "
                                  "batch, or fewer slots",
                                  epoch_)),
                out);
  figures_ = {};
  figures_.epoch = epoch_;
  figures_.training = figures.sums;
  figures_.examples = figures.examples;
  if (now > epoch_started_)
    figures_.examples_per_second = static_cast<double>(figures.examples) / seconds(now - epoch_started_);
  figures_.steps = counters_.steps;
  stage_ = Stage::evaluating;
  TokenPlan plan;
  plan.kind = TokenKind::evaluate;
  plan.epoch = epoch_;
  plan.first_step = epoch_step_ + book_.complete_steps();
  plan.version = plan.first_step * options_.phases;
  // Batches are not versions: shards may combine several into one update.
  if (options_.mode == TrainingMode::asynchronous && !versions_.empty())
    plan.version = *std::min_element(versions_.begin(), versions_.end());
  plan.steps = options_.evaluation_batches;
  plan.examples = options_.evaluation_batch;
  book_.begin(std::move(plan));
}

void Coordinator::end_epoch(Nanoseconds now, TrainingOutbox& out) {
  figures_.evaluation = book_.figures().sums;
  figures_.seconds = seconds(now - started_);
  figures_.chief = chief();
  decisions_.decide(figures_);
  for (std::uint32_t i = 0; i < members_.size(); ++i)
    if (members_.is_member(i)) out.push_back({Destination::worker(i), figures_});
  if (!members_.any()) untold_.push_back(figures_);
  epoch_step_ = book_.plan().first_step;
  if (epoch_ + 1 < options_.epochs && !figures_.decision.stop) {
    ++epoch_;
    begin_training(now);
  } else {
    stage_ = Stage::finishing;  // keeps the book, which has the final version
  }
}

Error Coordinator::barrier(const Barrier& message, Nanoseconds now, TrainingOutbox& out) {
  Error error;
  if (!admits(message.worker, message.view, error, out)) return error;
  if (members_.worker(message.worker).in_barrier) {
    ++counters_.repeated;
    return {};
  }
  if (stage_ != Stage::finishing)
    return refuse(Code::failed_precondition, fmt::format("{} has reached the end of its program, but the job is {}",
                                                         worker_name(message.worker), name(stage_)));
  members_.enter_barrier(message.worker);
  progress_ = now;
  open_barrier_when_full(out);
  return {};
}

void Coordinator::open_barrier_when_full(TrainingOutbox& out) {
  if (stage_ != Stage::finishing || !saves_.over() || !members_.any() || !members_.outside_barrier().empty()) return;
  stage_ = Stage::finished;
  out.push_back({Destination::everyone(), BarrierOpen{members_.in_barrier(), counters_.steps, 0, epoch_ + 1}});
}

// ---- Saving ---------------------------------------------------------------------------------------------------------

void Coordinator::save_when_due(bool writer_busy, Nanoseconds now, TrainingOutbox& out) {
  if (failure_) return;
  saves_.move({.training = stage_ == Stage::training,
               .over = counters_.steps == last_step() || stage_ >= Stage::finishing ||
                       (epoch_ + 1 >= options_.epochs && stage_ >= Stage::evaluating),
               .steps = counters_.steps,
               .step_ahead = step_ahead(),
               .state = [this](std::uint64_t step) { return state(step); }},
              writer_busy, now, out);
  if (!stopped_.empty() && saves_.hurried()) {
    const SaveRound& round = saves_.round();
    return fail(
        Error(Code::cancelled,
              round.error ? fmt::format("{} was stopped, and the job ended; it could not be saved: {}", stopped_,
                                        round.error.message())
                          : fmt::format("{} was stopped; the job has saved step {} and ended", stopped_, round.step)),
        out);
  }
  open_barrier_when_full(out);
}

// The number of steps of the job; max if unknown.
std::uint64_t Coordinator::last_step() const {
  return decisions_.any() || options_.steps_per_epoch == JobOptions::kUnknown
             ? std::numeric_limits<std::uint64_t>::max()
             : options_.epochs * options_.steps_per_epoch;
}

std::uint64_t Coordinator::step_ahead() const {
  const std::uint64_t next = stage_ == Stage::training ? book_.next_step() : book_.plan().first_step;
  return std::min(next + 1, last_step());
}

Error Coordinator::saved(const Saved& message) {
  if (failure_) return failure_;
  if (std::ranges::find(options_.shards, message.shard) == options_.shards.end())
    return refuse(Code::invalid_argument, fmt::format("{} has saved, but owns no slices", shard_name(message.shard)));
  if (!saves_.saved(message)) ++counters_.repeated;
  return {};
}

// ---- Reading --------------------------------------------------------------------------------------------------------

std::string Coordinator::waits_for() const {
  switch (stage_) {
    case Stage::joining:
      return "joins of " + members_.not_joined();
    case Stage::training:
    case Stage::evaluating: {
      const std::string outstanding = book_.outstanding();
      return outstanding.empty() ? "workers to take tokens" : outstanding;
    }
    case Stage::finishing:
      return !saves_.over() && members_.outside_barrier().empty() ? "the last checkpoint to be written"
                                                                  : "barrier: " + members_.outside_barrier();
    case Stage::finished:
    case Stage::failed:
      break;
  }
  return "";
}

JobCounters Coordinator::counters() const {
  JobCounters all = counters_;
  const JobMembers::Counts& members = members_.counts();
  all.repeated += members.repeated;
  all.refused += members.refused;
  all.ignored = members.ignored;
  all.fenced = members.fenced;
  all.joins = members.joins;
  all.losses = members.losses;
  return all;
}

std::string_view name(Coordinator::Stage stage) {
  switch (stage) {
    case Coordinator::Stage::joining:
      return "joining";
    case Coordinator::Stage::training:
      return "training";
    case Coordinator::Stage::evaluating:
      return "evaluating";
    case Coordinator::Stage::finishing:
      return "finishing";
    case Coordinator::Stage::finished:
      return "finished";
    case Coordinator::Stage::failed:
      return "failed";
  }
  return "unknown";
}

}  // namespace troupe
