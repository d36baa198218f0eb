#include "scheduler/training/coordinator.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace troupe {
namespace {

constexpr std::size_t kMaxDifferences = 3;
constexpr std::uint64_t kMaxExamples = std::numeric_limits<std::uint32_t>::max();  // as for permutation()

void check_options(const JobOptions& options) {
  if (options.workers == 0 || options.slots == 0 || options.batch == 0 || options.evaluation_chunk == 0)
    invalid_argument("training job: workers, slots, batch and evaluation_chunk must be at least 1");
  if (options.mode == TrainingMode::asynchronous && options.slots != 1)
    invalid_argument("training job: asynchronous training has one slot, not {}", options.slots);
  if (options.mode == TrainingMode::asynchronous && options.backups != 0)
    invalid_argument("training job: asynchronous training has no backup slots");
  if (options.mode != TrainingMode::bounded_staleness && options.staleness != 0)
    invalid_argument("training job: only bounded staleness takes staleness = {}", options.staleness);
  if (options.train_examples > kMaxExamples || options.test_examples > kMaxExamples)
    invalid_argument("training job: {} and {} examples, at most {} are supported", options.train_examples,
                     options.test_examples, kMaxExamples);
}

std::uint64_t steps_per_epoch(const JobOptions& options) {
  std::uint64_t step = 0;
  const std::uint64_t slots = std::uint64_t{options.slots} + options.backups;
  if (slots > std::numeric_limits<std::uint32_t>::max() || __builtin_mul_overflow(options.batch, slots, &step))
    invalid_argument("training job: {} slots of {} examples are too many", slots, options.batch);
  const std::uint64_t available = options.train_examples / step;
  if (available == 0)
    invalid_argument(
        "training job: {} examples are less than one step of {} slots x batch {}; use a smaller batch",
        options.train_examples, slots, options.batch);
  if (options.steps_per_epoch > available)
    invalid_argument("training job: {} steps per epoch, but {} examples make {}", options.steps_per_epoch,
                     options.train_examples, available);
  return options.steps_per_epoch == 0 ? available : options.steps_per_epoch;
}

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

// "batch is 64, expected 32; seed is missing, expected 7"
std::string differences(std::string_view expected_text, std::string_view actual_text) {
  const Settings expected = parse_settings(expected_text);
  const Settings actual = parse_settings(actual_text);
  const auto shown = [](const Settings& settings, std::string_view name) {
    const auto found = settings.find(name);
    return found == settings.end() ? std::string("missing")
                                   : fmt::format("'{}'", found->second.substr(0, 80));
  };
  Settings names = expected;
  names.insert(actual.begin(), actual.end());
  std::string text;
  std::size_t count = 0;
  for (const auto& [name, value] : names) {
    if (shown(expected, name) == shown(actual, name)) continue;
    if (++count > kMaxDifferences) return text + "; and more";
    text += fmt::format("{}{} is {}, expected {}", count == 1 ? "" : "; ", name.substr(0, 80),
                        shown(actual, name), shown(expected, name));
  }
  return text.empty() ? "the options agree, so the model does not: its variables or their order differ"
                      : text;
}

std::string describe_shard(std::uint32_t shard) { return fmt::format("/job:ps/task:{}", shard); }

double seconds(Nanoseconds duration) { return static_cast<double>(duration) / 1e9; }

}  // namespace

Coordinator::Coordinator(JobOptions options, Nanoseconds now)
    : options_(std::move(options)), created_(now), started_(now), workers_(options_.workers) {
  check_options(options_);
  options_.steps_per_epoch = troupe::steps_per_epoch(options_);
  versions_.assign(options_.shards.size(), options_.first_step);
}

// ---- Membership
// ----------------------------------------------------------------------------------------------------

Error Coordinator::refuse(Code code, std::string text) {
  ++counters_.refused;
  return Error(code, std::move(text));
}

std::string Coordinator::describe(std::uint32_t worker) const {
  return fmt::format("/job:worker/task:{}", worker);
}

std::string Coordinator::list(Presence presence, bool outside_barrier) const {
  std::string text;
  for (std::uint32_t i = 0; i < workers_.size(); ++i)
    if (workers_[i].presence == presence && !(outside_barrier && workers_[i].in_barrier))
      text += (text.empty() ? "" : ", ") + describe(i);
  return text;
}

std::uint32_t Coordinator::chief() const {
  const auto alive = std::find_if(workers_.begin(), workers_.end(),
                                  [](const Worker& worker) { return worker.presence != Presence::lost; });
  return static_cast<std::uint32_t>(alive - workers_.begin());
}

bool Coordinator::admits(std::uint32_t worker, std::uint64_t view, Error& error, TrainingOutbox& out) {
  if (failure_) {
    error = failure_;
  } else if (worker >= workers_.size()) {
    error = refuse(Code::invalid_argument, fmt::format("worker {} of {}", worker, workers_.size()));
  } else if (workers_[worker].presence == Presence::expected) {
    error = refuse(Code::failed_precondition, describe(worker) + " has not joined the job");
  } else if (workers_[worker].presence == Presence::lost || (view != 0 && view != workers_[worker].view)) {
    const bool lost = workers_[worker].presence == Presence::lost;
    ++(lost ? counters_.ignored : counters_.fenced);
    if (view != 0)
      out.push_back({Destination::worker(worker), Fence{worker, lost ? view_ : workers_[worker].view,
                                                        Error(Code::aborted, lost ? describe(worker) + " was given up for lost: it may join again"
                                                                                  : describe(worker) + " has joined anew")}});
  } else {
    return true;
  }
  return false;
}

Error Coordinator::join(const Join& message, Nanoseconds now, TrainingOutbox& out) {
  if (failure_) return failure_;
  if (message.shard) {
    Error error = join_shard(message, out);
    begin_when_joined(now, out);
    return error;
  }
  if (message.worker >= workers_.size())
    return refuse(Code::invalid_argument,
                  fmt::format("worker {} joins a job of {} workers", message.worker, workers_.size()));
  Worker& worker = workers_[message.worker];
  if (worker.presence != Presence::expected && worker.incarnation == message.incarnation) {
    ++(worker.presence == Presence::lost ? counters_.ignored : counters_.repeated);
    return {};
  }
  if (worker.presence == Presence::joined)
    return refuse(Code::already_exists,
                  describe(message.worker) + " has joined already, from another process");
  if (worker.presence == Presence::lost &&
      (options_.on_loss == JobOptions::OnLoss::fail || stage_ == Stage::finished))
    return refuse(Code::failed_precondition,
                  describe(message.worker) + " cannot join again: the job is over");
  if (Error error = other_job(message, describe(message.worker), out)) return error;
  worker = {Presence::joined, message.incarnation, 0, false, ++view_};
  begin_when_joined(now, out);
  return {};
}

Error Coordinator::join_shard(const Join& message, TrainingOutbox& out) {
  if (Error error = other_job(message, describe_shard(message.worker), out)) return error;
  shards_[message.worker] = message.incarnation;
  return {};
}

Error Coordinator::other_job(const Join& message, std::string who, TrainingOutbox& out) {
  if (message.fingerprint == options_.fingerprint && message.settings == options_.settings) return {};
  Error error = refuse(Code::failed_precondition,
                       fmt::format("{} was started for another training job: {}", who, differences(options_.settings, message.settings)));
  if (stage_ == Stage::joining || (message.shard && stage_ != Stage::finished)) fail(error, out);
  return error;
}

std::uint64_t Coordinator::view_of(const Join& message) const {
  if (message.shard || message.worker >= workers_.size()) return 0;
  const Worker& worker = workers_[message.worker];
  return worker.presence == Presence::joined && worker.incarnation == message.incarnation ? worker.view : 0;
}

void Coordinator::leave(const Leave& message, Nanoseconds now, TrainingOutbox& out) {
  const std::string reason = fmt::format("it has left the job: {}", message.reason.message());
  if (message.shard) {
    const auto shard = shards_.find(message.worker);
    if (shard == shards_.end() || shard->second != message.incarnation) return;
    shard->second = {};
    if (stage_ != Stage::joining) shard_down(message.worker, reason, out);
    return;
  }
  if (message.worker >= workers_.size()) return;
  Worker& worker = workers_[message.worker];
  if (worker.presence != Presence::joined || worker.incarnation != message.incarnation) return;
  if (stage_ != Stage::joining) return worker_down(message.worker, reason, now, out);
  worker = {};
  std::erase_if(requests_, [&](const Request& request) { return request.worker == message.worker; });
}

std::string Coordinator::not_joined() const {
  std::string text = list(Presence::expected, false);
  const auto add = [&](std::uint32_t shard) { text += (text.empty() ? "" : ", ") + describe_shard(shard); };
  for (const auto& [shard, incarnation] : shards_)
    if (incarnation == Incarnation{}) add(shard);
  for (const std::uint32_t shard : options_.joining)
    if (!shards_.contains(shard)) add(shard);
  return text;
}

void Coordinator::begin_when_joined(Nanoseconds now, TrainingOutbox& out) {
  if (stage_ != Stage::joining || !not_joined().empty()) return;
  started_ = progress_ = now;
  if (options_.epochs == 0) {
    stage_ = Stage::finishing;
    Phase nothing;
    nothing.version = options_.first_step;
    book_ = TokenBook(std::move(nothing));
  } else {
    begin_training(now);
  }
  serve(out);
}

void Coordinator::worker_down(std::uint32_t index, std::string_view reason, Nanoseconds now, TrainingOutbox& out) {
  if (index >= workers_.size() || failure_ || stage_ == Stage::finished) return;
  Worker& worker = workers_[index];
  if (worker.presence == Presence::lost) return;
  worker.presence = Presence::lost;
  worker.in_barrier = false;
  ++view_;
  std::erase_if(requests_, [&](const Request& request) { return request.worker == index; });
  Error error(Code::unavailable, fmt::format("{} was lost: {}", describe(index), reason));
  if (options_.on_loss == JobOptions::OnLoss::fail) return fail(std::move(error), out);
  if (chief() == workers_.size()) return fail(error.within("no worker is left"), out);
  out.push_back({Destination::shards(), Fence{index, view_, error}});
  counters_.returned += book_.release(index);
  begin_when_joined(now, out);
  serve(out);
  open_barrier_when_full(out);
}

void Coordinator::shard_down(std::uint32_t shard, std::string_view reason, TrainingOutbox& out) {
  if (stage_ != Stage::finished)
    fail(Error(Code::unavailable, fmt::format("{} was lost: {}", describe_shard(shard), reason)), out);
}

void Coordinator::fail(Error error, TrainingOutbox& out) {
  if (failure_) return;
  stage_ = Stage::failed;
  failure_ = std::move(error);
  requests_.clear();
  out.push_back({Destination::everyone(), JobFailed{failure_}});
}

std::optional<Nanoseconds> Coordinator::deadline() const {
  if (stage_ == Stage::joining) return created_ + options_.join_timeout;
  if (stage_ == Stage::finished || stage_ == Stage::failed || options_.step_timeout <= 0) return std::nullopt;
  return progress_ + options_.step_timeout;
}

void Coordinator::tick(Nanoseconds now, TrainingOutbox& out) {
  const auto limit = deadline();
  if (!limit || now < *limit) return;
  if (stage_ == Stage::joining)
    return fail(Error(Code::deadline_exceeded,
                      fmt::format("training job: {} did not join within {} s; start them, or start the job with fewer workers",
                                  not_joined(), seconds(options_.join_timeout))),
                out);
  fail(Error(Code::deadline_exceeded, fmt::format("training job: nothing has moved on for {} s while {}; missing: {}",
                                                  seconds(options_.step_timeout), name(stage_), missing())),
       out);
}

// What keeps the job from going on: tokens of the step that is next to be complete, and workers that ask for none.
std::string Coordinator::missing() const {
  if (stage_ == Stage::finishing) return waits_for();
  const bool in_order = stage_ == Stage::training && options_.mode == TrainingMode::synchronous;
  std::string text = book_.outstanding(8, in_order);
  for (std::uint32_t i = 0; i < workers_.size(); ++i) {
    const auto asks = std::ranges::find(requests_, i, &Request::worker);
    if (workers_[i].presence == Presence::joined && book_.held(i) == 0 && asks == requests_.end())
      text += fmt::format("{}{}, which asks for no token", text.empty() ? "" : "; ", describe(i));
  }
  return text;
}

// ---- Tokens
// --------------------------------------------------------------------------------------------------------

Error Coordinator::take_token(const TakeToken& message, Nanoseconds, TrainingOutbox& out) {
  Error error;
  if (!admits(message.worker, message.view, error, out)) return error;
  Worker& worker = workers_[message.worker];
  if (message.request <= worker.last_request) {
    ++counters_.repeated;
    return {};
  }
  if (stage_ == Stage::finished)
    return refuse(Code::failed_precondition,
                  describe(message.worker) + " asks for work, but the job is over");
  worker.last_request = message.request;
  requests_.push_back({message.worker, message.request});
  serve(out);
  return {};
}

// The first that may be answered now: of a worker that holds no more tokens than any other.
std::deque<Coordinator::Request>::iterator Coordinator::next_request() {
  std::size_t fewest = std::numeric_limits<std::size_t>::max();
  for (std::uint32_t i = 0; i < workers_.size(); ++i)
    if (workers_[i].presence == Presence::joined) fewest = std::min(fewest, book_.held(i));
  return std::ranges::find_if(requests_,
                              [&](const Request& request) { return book_.held(request.worker) <= fewest; });
}

// Answers parked requests while there are tokens.
void Coordinator::serve(TrainingOutbox& out) {
  if (stage_ == Stage::joining || stage_ == Stage::finished) return;
  while (!requests_.empty()) {
    const auto next = stage_ == Stage::finishing ? requests_.begin() : next_request();
    if (next == requests_.end()) return;
    const Request request = *next;
    std::optional<Token> token;
    if (stage_ == Stage::finishing) {
      token = Token{};
      token->kind = TokenKind::finish;
      token->epoch = epoch_;
      token->step = book_.phase().first_step;
      token->min_version = book_.phase().version;
    } else {
      token = book_.take(request.worker);
    }
    if (!token) return;
    token->request = request.number;
    requests_.erase(next);
    ++counters_.tokens;
    out.push_back({Destination::worker(request.worker), *token});
  }
}

Error Coordinator::count(TokenBook::Note note, std::string_view what, Nanoseconds now) {
  if (note == TokenBook::Note::counted) progress_ = now;
  if (note == TokenBook::Note::repeated) ++counters_.repeated;
  if (note == TokenBook::Note::late) ++counters_.late;
  if (note != TokenBook::Note::unexpected) return {};
  return refuse(Code::invalid_argument,
                fmt::format("training job: {} does not fit the tokens handed out in epoch {} ({})", what,
                            epoch_, name(stage_)));
}

Error Coordinator::token_done(const TokenDone& message, Nanoseconds now, TrainingOutbox& out) {
  Error error;
  if (!admits(message.worker, message.view, error, out)) return error;
  const TokenBook::Note note = book_.done(message);
  if (note == TokenBook::Note::counted) advance(now, out);
  if (note == TokenBook::Note::late) serve(out);
  return count(note, fmt::format("the report of {} on step {} slot {}", describe(message.worker),
                                 message.token.step, message.token.slot),
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
  return count(note, fmt::format("the report of shard {} on step {} slot {}", message.shard, message.step,
                                 message.slot),
               now);
}

// ---- Phases
// --------------------------------------------------------------------------------------------------------

void Coordinator::begin_training(Nanoseconds now) {
  stage_ = Stage::training;
  phase_started_ = now;
  Phase phase;
  phase.epoch = epoch_;
  phase.first_step = options_.first_step + epoch_ * options_.steps_per_epoch;
  phase.steps = options_.steps_per_epoch;
  phase.slots = tokens();
  phase.needed = options_.slots;
  phase.commits = options_.commits;
  phase.chunk = options_.batch;
  phase.examples = options_.train_examples;
  phase.mode = options_.mode;
  phase.staleness = options_.staleness;
  phase.shards = options_.shards;
  if (options_.on_loss == JobOptions::OnLoss::reassign && options_.mode != TrainingMode::asynchronous)
    phase.lookahead = options_.staleness;
  book_.begin(std::move(phase));
}

void Coordinator::advance(Nanoseconds now, TrainingOutbox& out) {
  for (TokenBook::Choice& choice : book_.take_choices()) {
    const Commit commit{choice.step, std::move(choice.slots)};
    out.push_back({Destination::shards(), commit});
    for (const std::uint32_t worker : choice.holders) out.push_back({Destination::worker(worker), commit});
    commits_.add(commit.step, commit.slots);
  }
  if (stage_ == Stage::training) {
    const std::uint64_t steps = book_.phase().first_step - options_.first_step + book_.complete_steps();
    counters_.steps = std::max(counters_.steps, steps);
  }
  if (book_.finished()) {
    if (stage_ == Stage::training) end_training(now);
    if (book_.finished()) end_epoch(now, out);
  }
  serve(out);
}

// Goes over to the evaluation; without test examples it is one without tokens.
void Coordinator::end_training(Nanoseconds now) {
  const TokenBook::Figures& figures = book_.figures();
  const auto examples = static_cast<double>(figures.examples);
  figures_ = {};
  figures_.epoch = epoch_;
  figures_.loss = figures.loss_sum / examples;
  figures_.train_accuracy = static_cast<double>(figures.correct) / examples;
  if (now > phase_started_) figures_.images_per_second = examples / seconds(now - phase_started_);
  figures_.steps = counters_.steps;
  stage_ = Stage::evaluating;
  Phase phase;
  phase.kind = TokenKind::evaluate;
  phase.epoch = epoch_;
  phase.first_step = book_.phase().first_step + book_.phase().steps;
  phase.version = phase.first_step;
  // Batches are not versions: shards may make one update of several.
  if (options_.mode == TrainingMode::asynchronous && !versions_.empty())
    phase.version = *std::min_element(versions_.begin(), versions_.end());
  phase.steps = 1;
  phase.chunk = options_.evaluation_chunk;
  phase.examples = options_.test_examples;
  phase.slots = static_cast<std::uint32_t>((options_.test_examples + phase.chunk - 1) / phase.chunk);
  book_.begin(std::move(phase));
}

void Coordinator::end_epoch(Nanoseconds now, TrainingOutbox& out) {
  if (options_.test_examples > 0)
    figures_.test_accuracy =
        static_cast<double>(book_.figures().correct) / static_cast<double>(options_.test_examples);
  figures_.seconds = seconds(now - started_);
  out.push_back({Destination::worker(chief()), figures_});
  if (epoch_ + 1 < options_.epochs) {
    ++epoch_;
    begin_training(now);
  } else {
    stage_ = Stage::finishing;  // the book stays: it knows the final version
  }
}

Error Coordinator::barrier(const Barrier& message, Nanoseconds now, TrainingOutbox& out) {
  Error error;
  if (!admits(message.worker, message.view, error, out)) return error;
  if (workers_[message.worker].in_barrier) {
    ++counters_.repeated;
    return {};
  }
  if (stage_ != Stage::finishing)
    return refuse(Code::failed_precondition, fmt::format("{} is at the end of its program, but the job is {}",
                                                         describe(message.worker), name(stage_)));
  workers_[message.worker].in_barrier = true;
  progress_ = now;
  open_barrier_when_full(out);
  return {};
}

void Coordinator::open_barrier_when_full(TrainingOutbox& out) {
  if (stage_ != Stage::finishing || !list(Presence::joined, true).empty()) return;
  stage_ = Stage::finished;
  const auto count =
      std::count_if(workers_.begin(), workers_.end(), [](const Worker& w) { return w.in_barrier; });
  out.push_back({Destination::everyone(), BarrierOpen{static_cast<std::uint32_t>(count)}});
}

// ---- Saving
// --------------------------------------------------------------------------------------------------------

Error Coordinator::save(std::uint64_t version, TrainingOutbox& out) {
  if (failure_) return failure_;
  if (stage_ == Stage::joining || stage_ == Stage::finished)
    return Error(Code::failed_precondition, fmt::format("nothing to save: the job is {}", name(stage_)));
  if (!save_.complete) return Error(Code::failed_precondition, fmt::format("version {} is still being saved", save_.version));
  save_ = {};
  save_.version = version;
  save_.complete = false;
  out.push_back({Destination::shards(), Save{version}});
  return {};
}

Error Coordinator::saved(const Saved& message) {
  if (failure_) return failure_;
  if (std::ranges::find(options_.shards, message.shard) == options_.shards.end())
    return refuse(Code::invalid_argument, fmt::format("{} has saved, but owns nothing", describe_shard(message.shard)));
  if (message.version != save_.version || save_.complete || !save_.shards.emplace(message.shard, message).second) {
    ++counters_.repeated;
    return {};
  }
  if (message.error && !save_.error) save_.error = message.error.within(describe_shard(message.shard));
  save_.complete = save_.shards.size() == options_.shards.size();
  return {};
}

// ---- Reading
// -------------------------------------------------------------------------------------------------------

std::string Coordinator::waits_for() const {
  switch (stage_) {
    case Stage::joining:
      return "joins of " + not_joined();
    case Stage::training:
    case Stage::evaluating: {
      const std::string outstanding = book_.outstanding();
      return outstanding.empty() ? "workers to take tokens" : outstanding;
    }
    case Stage::finishing:
      return "barrier: " + list(Presence::joined, true);
    case Stage::finished:
    case Stage::failed:
      break;
  }
  return "";
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
