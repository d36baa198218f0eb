#include "troupe/actors/training/coordinator_actor.hpp"

#include <caf/send.hpp>

#include <troupe/actors/training/job.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kLate = 1'000'000;  // delay of a tick after its deadline, ns

std::map<std::string, std::uint64_t> counts_of(const JobCounters& c) {
  return {{"tokens", c.tokens}, {"returned", c.returned}, {"joins", c.joins},     {"losses", c.losses},
          {"fenced", c.fenced}, {"ignored", c.ignored},   {"refused", c.refused}, {"repeated", c.repeated},
          {"late", c.late},     {"steps", c.steps}};
}

std::string_view mode_name(TrainingMode mode) {
  switch (mode) {
    case TrainingMode::synchronous:
      return SyncMode::kName;
    case TrainingMode::bounded_staleness:
      return SspMode::kName;
    case TrainingMode::asynchronous:
      return AsyncMode::kName;
  }
  return "";
}

}  // namespace

CoordinatorActorImpl::CoordinatorActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record,
                                           Config settings)
    : Counted(config, std::move(record)),
      keeper_(std::move(settings.keeper)),
      on_event_(std::move(settings.on_event)),
      on_end_(std::move(settings.on_end)),
      coordinator_(std::move(settings.options), steady_now_ns()),
      links_(std::move(settings.self)) {}

CoordinatorActorImpl::behavior_type CoordinatorActorImpl::make_behavior() {
  tell_of_itself();
  return {
      [this](const JobRoutes& routes) {  // from the node, after all its peers
        links_.set(routes);
        schedule_tick();
      },
      [this](const Inbound<Join>& m) {
        if (m.held) m.held->run();
        TrainingOutbox out;
        const Error error = coordinator_.join(m.frame, steady_now_ns(), out);
        links_.reply(m.from,
                     Joined{.incarnation = m.frame.incarnation,
                            .job = links_.job(),
                            .step = coordinator_.options().saved_step,
                            .error = error,
                            .view = coordinator_.view_of(m.frame),
                            .place = coordinator_.place()},
                     [this](const auto& to, auto&& what) { tell(to, std::forward<decltype(what)>(what)); });
        deliver(out, m.from, Error());
      },
      [this](const Inbound<Leave>& m) {
        TrainingOutbox out;
        coordinator_.leave(m.frame, steady_now_ns(), out);
        links_.reply(m.from, left(m.frame, links_.job()),
                     [this](const auto& to, auto&& what) { tell(to, std::forward<decltype(what)>(what)); });
        deliver(out, m.from, Error());
      },
      [this](const Inbound<TakeToken>& m) {
        TrainingOutbox out;
        const Error error = coordinator_.take_token(m.frame, steady_now_ns(), out);
        deliver(out, m.from, error);
      },
      [this](const Inbound<TokenDone>& m) {
        TrainingOutbox out;
        const Error error = coordinator_.token_done(m.frame, steady_now_ns(), out);
        deliver(out, m.from, error);
      },
      [this](const Inbound<Staged>& m) {
        TrainingOutbox out;
        const Error error = coordinator_.staged(m.frame, steady_now_ns(), out);
        deliver(out, m.from, error);
      },
      [this](const Inbound<Saved>& m) {
        TrainingOutbox out;
        const Error error = coordinator_.saved(m.frame);
        deliver(out, m.from, error);
      },
      [this](const Inbound<Barrier>& m) {
        TrainingOutbox out;
        const Error error = coordinator_.barrier(m.frame, steady_now_ns(), out);
        deliver(out, m.from, error);
      },
      [this](const PeerUp& message) { links_.up(message); },
      [this](const PeerDown& message) {
        links_.down(message);
        TrainingOutbox out;
        const auto index = static_cast<std::uint32_t>(message.task.index);
        if (message.task.job == "worker")
          coordinator_.worker_down(index, message.reason.message(), steady_now_ns(), out);
        if (message.task.job == "ps") coordinator_.shard_down(index, message.reason.message(), out);
        deliver(out, message.task, Error());
      },
      [this](const PeerSuspected& message) {
        if (message.task.job != "worker") return;
        coordinator_.suspect(static_cast<std::uint32_t>(message.task.index), message.suspect);
        tell_events();
      },
      [this](const Tick&) {
        const std::int64_t now = steady_now_ns();
        if (now >= next_tick_) next_tick_ = 0;  // otherwise another is scheduled
        TrainingOutbox out;
        coordinator_.tick(now, out, std::ref(explainer_));
        deliver(out, {}, Error());
      },
      [this](const Stop&) {
        explainer_.stop();
        links_.clear();
        quit();
      },
  };
}

void CoordinatorActorImpl::deliver(TrainingOutbox& out, const TaskName& from, const Error& error) {
  // An invalid message from a shard ends the job: nobody else would notice.
  if (error && from.job == "ps") coordinator_.fail(error, out);
  if (error && from.job == "worker")
    out.push_back({Destination::worker(static_cast<std::uint32_t>(from.index)), JobFailed{error}});
  save_when_due(out);
  tell_end();
  for (Outgoing& message : out)
    links_.deliver(std::move(message),
                   [this](const auto& to, auto&& what) { tell(to, std::forward<decltype(what)>(what)); });
  tell_events();
  schedule_tick();
}

void CoordinatorActorImpl::escalate(const Error& why) {
  TrainingOutbox out;
  coordinator_.fail(why, out);
  for (Outgoing& message : out)
    links_.deliver(std::move(message),
                   [this](const auto& to, auto&& what) { tell(to, std::forward<decltype(what)>(what)); });
}

void CoordinatorActorImpl::tell_events() {
  for (MembershipEvent& event : coordinator_.take_events())
    tell_event({.kind = std::string(troupe::name(event.kind)),
                .task = event.worker ? worker_task(*event.worker) : TaskName{},
                .step = event.step,
                .seconds = static_cast<double>(event.took) / 1e9,
                .text = std::move(event.text),
                .counts = {}});
  using Stage = Coordinator::Stage;
  if (ended_ || (coordinator_.stage() != Stage::finished && coordinator_.stage() != Stage::failed)) return;
  ended_ = true;
  tell_event({.kind = "job_ended",
              .task = kCoordinatorTask,
              .step = coordinator_.counters().steps,
              .text = "",
              .counts = counts_of(coordinator_.counters())});
}

// Called before other tasks hear: this task may end then.
void CoordinatorActorImpl::tell_end() {
  using Stage = Coordinator::Stage;
  if (!on_end_ || (coordinator_.stage() != Stage::finished && coordinator_.stage() != Stage::failed)) return;
  std::exchange(on_end_, nullptr)(coordinator_.end_state());
}

void CoordinatorActorImpl::save_when_due(TrainingOutbox& out) {
  for (int written = written_->exchange(0); written > 0; --written) coordinator_.written();
  coordinator_.save_when_due(keeper_ && keeper_->checkpoints.busy(), steady_now_ns(), out);
  for (const SaveEvent& event : coordinator_.take_saves()) {
    if (event.kind == SaveEvent::Kind::left_out)
      keeper_->checkpoints.leave_out(event.step);
    else if (event.kind == SaveEvent::Kind::failed)
      tell_event(failed_to_save(event.round.step, keeper_->checkpoints.directory(), event.round.error));
    else
      commit(event.round);
  }
}

void CoordinatorActorImpl::commit(const SaveRound& round) {
  keeper_->commit(round, coordinator_.steps_per_epoch(), [self = CoordinatorActor(this), written = written_] {
    written->fetch_add(1);
    caf::anon_send(self, Tick{});
  });
}

void CoordinatorActorImpl::inspect(ActorDetails& out) const {
  const JobOptions& options = coordinator_.options();
  JobSnapshot job{.job = links_.job(),
                  .mode = std::string(mode_name(options.mode)),
                  .stage = std::string(troupe::name(coordinator_.stage())),
                  .view = coordinator_.view()};
  job.epochs = options.epochs;
  job.epoch = std::min<std::uint64_t>(coordinator_.epoch() + 1, job.epochs);
  job.step = coordinator_.counters().steps;
  job.steps = options.epochs * coordinator_.steps_per_epoch();
  for (const Coordinator::Member& member : coordinator_.list_members()) {
    MemberSnapshot& shown = job.members.emplace_back();
    shown.task = worker_task(member.worker).to_string();
    shown.state = member.state;
    for (const TokenPlace& token : member.tokens) shown.tokens.push_back(token.to_string(options.phases));
  }
  job.counts = counts_of(coordinator_.counters());
  out.waits_for = job.waits_for = coordinator_.waits_for();
  out.job = std::move(job);
  out.waiting.append(coordinator_.waiting(links_.job(), steady_now_ns()));
}

void CoordinatorActorImpl::schedule_tick() {
  const auto deadline = coordinator_.deadline();
  if (links_.job() == 0 || !deadline || (next_tick_ != 0 && next_tick_ <= *deadline + kLate)) return;
  const std::int64_t now = steady_now_ns();
  if (explainer_.pending() && next_tick_ > now) return;
  next_tick_ =
      std::max(*deadline, now) + (explainer_.pending() ? std::chrono::nanoseconds(Explainer::kAgain).count() : kLate);
  const std::int64_t wait = next_tick_ - now;
  delayed_send(CoordinatorActor(this), std::chrono::nanoseconds(wait), Tick{});
}

}  // namespace troupe
