// Who takes part in a job: joins, losses, views. See coordinator.hpp.
#include <algorithm>
#include <utility>

#include <troupe/scheduler/training/coordinator.hpp>

namespace troupe {
namespace {

constexpr std::size_t kMaxDifferences = 3;
constexpr std::size_t kRetired = 8;  // incarnations of a worker that are remembered

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

}  // namespace

std::string setting_differences(std::string_view expected_text, std::string_view actual_text) {
  const Settings expected = parse_settings(expected_text);
  const Settings actual = parse_settings(actual_text);
  const auto shown = [](const Settings& settings, std::string_view name) {
    const auto found = settings.find(name);
    return found == settings.end() ? std::string("missing") : fmt::format("'{}'", found->second.substr(0, 80));
  };
  Settings names = expected;
  names.insert(actual.begin(), actual.end());
  std::string text;
  std::size_t count = 0;
  for (const auto& [name, value] : names) {
    if (shown(expected, name) == shown(actual, name)) continue;
    if (++count > kMaxDifferences) return text + "; and more";
    text += fmt::format("{}{} is {}, expected {}", count == 1 ? "" : "; ", name.substr(0, 80), shown(actual, name),
                        shown(expected, name));
  }
  return text.empty() ? "the options agree, so the model does not: its variables or their order differ" : text;
}

Error Coordinator::refuse(Code code, std::string text) {
  ++counters_.refused;
  return Error(code, std::move(text));
}

std::string Coordinator::describe(std::uint32_t worker) { return fmt::format("/job:worker/task:{}", worker); }

std::string Coordinator::describe_shard(std::uint32_t shard) { return fmt::format("/job:ps/task:{}", shard); }

std::string Coordinator::list(Presence presence, bool outside_barrier) const {
  std::string text;
  for (std::uint32_t i = 0; i < workers_.size(); ++i)
    if (workers_[i].presence == presence && !(outside_barrier && workers_[i].in_barrier))
      text += (text.empty() ? "" : ", ") + describe(i);
  return text;
}

std::uint32_t Coordinator::chief() const {
  const auto alive = std::ranges::find_if(workers_, [](const Worker& worker) {
    return worker.presence == Presence::joined || worker.presence == Presence::expected;
  });
  return static_cast<std::uint32_t>(alive - workers_.begin());
}

bool Coordinator::anyone() const {
  return std::ranges::any_of(workers_, [](const Worker& worker) { return worker.presence == Presence::joined; });
}

std::string Coordinator::members() const {
  const auto numbers = [&](const auto& chosen) {
    std::string text;
    for (std::uint32_t i = 0; i < workers_.size(); ++i)
      if (chosen(workers_[i])) text += fmt::format("{}{}", text.empty() ? "" : ", ", i);
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

void Coordinator::suspect(std::uint32_t index, bool suspect) {
  if (index >= workers_.size() || workers_[index].presence != Presence::joined ||
      std::exchange(workers_[index].suspect, suspect) == suspect)
    return;
  if (suspect)
    note(MembershipEvent::Kind::suspected, index, 0, describe(index) + " has not been heard of for a while");
  else
    note(MembershipEvent::Kind::heard, index, 0, describe(index) + " is heard again");
}

bool Coordinator::admits(std::uint32_t worker, std::uint64_t view, Error& error, TrainingOutbox& out) {
  if (failure_) {
    error = failure_;
  } else if (worker >= workers_.size()) {
    error = refuse(Code::invalid_argument, fmt::format("worker {} of {}", worker, workers_.size()));
  } else if (workers_[worker].presence == Presence::expected || workers_[worker].presence == Presence::absent) {
    if (view != 0) {  // from before it left again
      ++counters_.fenced;
      return false;
    }
    error = refuse(Code::failed_precondition, describe(worker) + " has not joined the job");
  } else if (workers_[worker].presence == Presence::lost ||
             (options_.fence && view != 0 && view != workers_[worker].view)) {
    const bool lost = workers_[worker].presence == Presence::lost;
    if (!std::exchange(workers_[worker].fenced, true))
      note(MembershipEvent::Kind::fenced, worker, 0,
           fmt::format("{} is a member no more: what it says is refused", describe(worker)));
    ++(lost ? counters_.ignored : counters_.fenced);
    if (view != 0)
      out.push_back({Destination::worker(worker),
                     Fence{worker, lost ? view_ : workers_[worker].view,
                           lost ? Error(Code::aborted, describe(worker) + " was given up for lost: it may join again")
                                : Error(Code::already_exists, describe(worker) + " has joined as another process")}});
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
  const bool stays = options_.on_loss == JobOptions::OnLoss::fail;
  if (worker.presence == Presence::joined && stays)
    return refuse(Code::already_exists, describe(message.worker) + " has joined already, from another process");
  if (options_.fence && std::ranges::find(worker.retired, message.incarnation) != worker.retired.end()) {
    ++counters_.fenced;
    return Error(Code::aborted, describe(message.worker) + " has joined as another process since: join again");
  }
  if (stage_ == Stage::finished || (worker.presence == Presence::lost && stays))
    return refuse(Code::failed_precondition, describe(message.worker) + " cannot join again: the job is over");
  if (Error error = other_job(message, describe(message.worker), out)) return error;
  // A task has one link, and this came over it: the process before is gone, though nobody has said so yet.
  if (worker.presence == Presence::joined)
    lose(message.worker, Error(Code::already_exists, describe(message.worker) + " has joined as another process"), now,
         out);
  admit(message.worker, message.incarnation, now, out);
  begin_when_joined(now, out);
  serve(out);
  return {};
}

void Coordinator::admit(std::uint32_t index, Incarnation incarnation, Nanoseconds now, TrainingOutbox& out) {
  Worker& worker = workers_[index];
  worker = {.presence = Presence::joined,
            .incarnation = incarnation,
            .view = ++view_,
            .joined = now,
            .retired = std::move(worker.retired),
            .kept_until = {}};
  note(MembershipEvent::Kind::joined, index, 0,
       stage_ == Stage::joining ? "" : fmt::format("{} has joined", describe(index)));
  ++counters_.joins;
  progress_ = now;
  empty_since_.reset();
  auto figures = std::exchange(untold_, {});
  if (figures.empty() && stage_ == Stage::finishing) figures.push_back(figures_);  // it may become the chief
  for (EpochDone& epoch : figures) {
    epoch.chief = chief();
    out.push_back({Destination::worker(index), std::move(epoch)});
  }
}

Error Coordinator::join_shard(const Join& message, TrainingOutbox& out) {
  if (Error error = other_job(message, describe_shard(message.worker), out)) return error;
  shards_[message.worker] = message.incarnation;
  return {};
}

Error Coordinator::other_job(const Join& message, std::string who, TrainingOutbox& out) {
  if (message.fingerprint == options_.fingerprint && message.settings == options_.settings) return {};
  Error error =
      refuse(Code::failed_precondition, fmt::format("{} was started for another training job: {}", who,
                                                    setting_differences(options_.settings, message.settings)));
  if (stage_ == Stage::joining) {
    cannot_begin(error);
    return {};
  }
  if (message.shard && stage_ != Stage::finished) fail(error, out);
  return error;
}

void Coordinator::cannot_begin(const Error& why) {
  if (options_.refused) return;
  options_.refused = why;
  note(MembershipEvent::Kind::waits, std::nullopt, 0,
       fmt::format("training cannot begin: {}; all are told once they have joined", why.message()));
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
    // One that cannot take part will not come again.
    const Code code = message.reason.code();
    const bool may_return = code == Code::cancelled || code == Code::unavailable || code == Code::aborted ||
                            code == Code::deadline_exceeded;
    if (stage_ == Stage::joining && !may_return) {
      cannot_begin(message.reason.within(describe_shard(message.worker)));
      return begin_when_joined(now, out);
    }
    shard->second = {};
    if (stage_ != Stage::joining) shard_down(message.worker, reason, out);
    return;
  }
  if (message.worker >= workers_.size()) return;
  Worker& worker = workers_[message.worker];
  if (worker.presence != Presence::joined || worker.incarnation != message.incarnation) return;
  if (stage_ != Stage::joining) return worker_down(message.worker, reason, now, out);
  worker = {.presence = message.worker < options_.workers ? Presence::expected : Presence::absent,
            .incarnation = {},
            .retired = {},
            .kept_until = {}};
  std::erase_if(requests_, [&](const Request& request) { return request.worker == message.worker; });
}

std::size_t Coordinator::missing_workers() const {
  const auto count = [&](Presence presence) {
    return static_cast<std::size_t>(std::ranges::count(workers_, presence, &Worker::presence));
  };
  if (options_.min_workers == 0) return count(Presence::expected);
  return options_.min_workers - std::min<std::size_t>(options_.min_workers, count(Presence::joined));
}

std::string Coordinator::not_joined() const {
  const std::size_t missing = missing_workers();
  std::string workers = missing > 0 ? list(Presence::expected, false) : "";
  if (options_.min_workers > 0 && missing > 0)
    workers = fmt::format("{} of {}", missing, workers.empty() ? "the workers that are lost" : workers);
  const std::string shards = missing_shards();
  return workers.empty() || shards.empty() ? workers + shards : workers + ", " + shards;
}

std::string Coordinator::missing_shards() const {
  std::string text;
  const auto add = [&](std::uint32_t shard) { text += (text.empty() ? "" : ", ") + describe_shard(shard); };
  for (const auto& [shard, incarnation] : shards_)
    if (incarnation == Incarnation{}) add(shard);
  for (const std::uint32_t shard : options_.joining)
    if (!shards_.contains(shard)) add(shard);
  return text;
}

void Coordinator::begin_when_joined(Nanoseconds now, TrainingOutbox& out) {
  if (stage_ == Stage::joining && missing_workers() == 0 && missing_shards().empty() && anyone()) begin(now, out);
}

// With those who are there.
void Coordinator::begin(Nanoseconds now, TrainingOutbox& out) {
  if (options_.refused) return fail(options_.refused, out);
  for (Worker& worker : workers_)
    if (worker.presence == Presence::expected) worker.presence = Presence::absent;
  started_ = progress_ = now;
  note(MembershipEvent::Kind::began, std::nullopt);
  if (options_.epochs == 0) {
    stage_ = Stage::finishing;
    Phase nothing;
    nothing.version = options_.first_step;
    book_ = TokenBook(std::move(nothing));
  } else {
    begin_training(now);
  }
  advance(now, out);
}

// It is a member no more. What it has not completed goes back into the book.
void Coordinator::lose(std::uint32_t index, const Error& why, Nanoseconds now, TrainingOutbox& out) {
  Worker& worker = workers_[index];
  if (worker.presence == Presence::joined) {
    worker.retired.push_back(worker.incarnation);
    if (worker.retired.size() > kRetired) worker.retired.pop_front();
  }
  worker.presence = Presence::lost;
  worker.in_barrier = false;
  worker.fenced = false;
  worker.suspect = false;
  ++view_;
  ++counters_.losses;
  std::erase_if(requests_, [&](const Request& request) { return request.worker == index; });
  if (options_.on_loss == JobOptions::OnLoss::fail) return;
  out.push_back({Destination::shards(), Fence{index, view_, why}});
  if (options_.on_loss == JobOptions::OnLoss::wait) {
    counters_.returned += book_.keep(index);
    worker.kept_until = now + options_.grace;
  } else {
    counters_.returned += book_.release(index);
  }
  if (!lost_at_ && stage_ != Stage::joining) lost_at_ = now;
  note(MembershipEvent::Kind::lost, index, 0, fmt::format("{}; {}", why.message(), members()));
}

void Coordinator::note(MembershipEvent::Kind kind, std::optional<std::uint32_t> worker, Nanoseconds took,
                       std::string text) {
  events_.push_back({kind, worker, counters_.steps, took, std::move(text)});
}

void Coordinator::release_kept(Nanoseconds now, TrainingOutbox& out) {
  for (std::uint32_t i = 0; i < workers_.size(); ++i) {
    if (!workers_[i].kept_until || now < *workers_[i].kept_until) continue;
    workers_[i].kept_until.reset();
    book_.release_kept(i);
  }
  serve(out);
}

void Coordinator::worker_down(std::uint32_t index, std::string_view reason, Nanoseconds now, TrainingOutbox& out) {
  if (index >= workers_.size() || failure_ || stage_ == Stage::finished) return;
  const Presence presence = workers_[index].presence;
  if (presence == Presence::lost || presence == Presence::absent) return;
  Error error(Code::unavailable, fmt::format("{} was lost: {}", describe(index), reason));
  lose(index, error, now, out);
  if (options_.on_loss == JobOptions::OnLoss::fail) return fail(std::move(error), out);
  if (chief() == workers_.size()) {
    if (options_.empty_timeout <= 0) return fail(error.within("no worker is left"), out);
    empty_since_ = now;
  }
  begin_when_joined(now, out);
  serve(out);
  if (stage_ == Stage::finishing && anyone() &&
      chief() > index) {  // another is the chief now, and does what the lost one did
    workers_[chief()].in_barrier = false;
    out.push_back({Destination::worker(chief()), finish_token()});
  }
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

}  // namespace troupe
