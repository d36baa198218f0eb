#include "troupe/actors/training/shard_actor.hpp"

#include <algorithm>

namespace troupe {
namespace {

constexpr std::size_t kMessagesTogether = 64;
constexpr std::uint64_t kVersionsTogether = 64;  // per write of the history
constexpr std::size_t kLongWork = 64 << 10;      // bytes of a gradient that may take a while to apply

}  // namespace

ShardActorImpl::ShardActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, Config settings)
    : Counted(config, std::move(record)), config_(std::move(settings)), links_(config_.self) {
  if (!config_.prepare) begin();
}

void ShardActorImpl::begin() {
  if (state_) return;
  if (config_.prepare) config_.prepare(config_.options);
  state_.emplace(config_.options, config_.slices, *config_.store, config_.packs);
  for (const Fence& fence : std::exchange(early_fences_, {})) state_->fence(fence);
}

caf::resumable::resume_result ShardActorImpl::resume(caf::execution_unit* unit, std::size_t max_throughput) {
  cork_.emplace();
  const auto result = Counted::resume(unit, std::min(max_throughput, kMessagesTogether));
  cork_.reset();
  return result;
}

ShardActorImpl::behavior_type ShardActorImpl::make_behavior() {
  tell_of_itself();
  return {
      [this](const JobRoutes& routes) {
        links_.set(routes);
        if (routes.job != 0) begin();
      },
      [this](const Outbound& message) { coordinator_.say(message, telling()); },
      [this](const Inbound<Joined>& message) {
        if (config_.joined) config_.joined(message.frame);
      },
      [this](const Inbound<Pull>& message) {
        TrainingOutbox out;
        const Pull& pull = message.frame;
        if (Error error = state_->pull(pull, out))
          out.push_back(
              {Destination::worker(pull.worker), Put{pull.reply_to, state_->version(), {}, std::move(error)}});
        deliver(out);
      },
      // Not const: the message is not shared, so the shard may accumulate in the gradient's own memory.
      [this](Inbound<Push>& message) {
        if (message.frame.gradient.num_bytes() >= kLongWork) {  // send earlier messages first
          cork_.reset();
          cork_.emplace();
        }
        TrainingOutbox out;
        const std::uint32_t worker = message.frame.worker;
        if (Error error = state_->push(std::move(message.frame), out)) {
          // Messages of a healthy worker are never refused: its job ends, and it receives the reason.
          const bool all = static_cast<bool>(state_->failure());
          out.push_back({all ? Destination::everyone() : Destination::worker(worker),
                         JobFailed{error.within(config_.self.to_string())}});
          if (all) end(error);
        }
        deliver(out);
      },
      [this](const Inbound<Commit>& message) {
        TrainingOutbox out;
        if (Error error = state_->commit(message.frame, out)) {  // the shards would diverge
          out.push_back({Destination::everyone(), JobFailed{error.within(config_.self.to_string())}});
          end(error);
        }
        deliver(out);
      },
      [this](const Inbound<Fence>& message) {
        if (state_)
          state_->fence(message.frame);
        else
          early_fences_.push_back(message.frame);
      },
      [this](const Inbound<Save>& message) {
        const Save save = message.frame;
        const Error refused =
            config_.save ? state_->cut(save.step,
                                       [this, save](const ShardState::Cut& cut) {
                                         write_history(false, true);
                                         config_.save(save, cut);
                                       })
                         : Error(Code::unimplemented, config_.self.to_string() + " has no directory of checkpoints");
        if (!refused) return;
        TrainingOutbox out;
        out.push_back({Destination::coordinator(),
                       Saved{.shard = config_.options.shard, .step = save.step, .files = {}, .error = refused}});
        deliver(out);
      },
      [this](const Inbound<BarrierOpen>& message) {
        open_ = message.frame;
        end(Error());
      },
      [this](const Inbound<JobFailed>& message) { end(message.frame.error); },
      [this](const PeerUp& message) {
        links_.up(message);
        coordinator_.up(message, telling());
      },
      [this](const PeerDown& message) {
        links_.down(message);
        if (state_ && message.task.job == "worker") state_->worker_down(static_cast<std::uint32_t>(message.task.index));
        if (message.task == kCoordinatorTask)
          end(Error(Code::unavailable, fmt::format("lost the coordinator's task {}: {}", message.task.to_string(),
                                                   message.reason.message())));
      },
      [](const Tick&) {},
      [this](const ProvenanceRequest& request) { return Reply::of(describe(request.version)); },
      [this](const Stop&) {
        links_.clear();
        coordinator_.down();
        quit();
      },
  };
}

void ShardActorImpl::deliver(TrainingOutbox& out) {
  for (Outgoing& message : out) links_.deliver(std::move(message), telling());
  write_history_when_due();
}

void ShardActorImpl::write_history_when_due() {
  if (state_->version() >= written_ + kVersionsTogether) write_history(false, false);
}

void ShardActorImpl::write_history(bool all, bool flush) {
  if (!config_.history || !state_) return;
  written_ = state_->version();
  config_.history(state_->take_history(all), flush);
}

std::string ShardActorImpl::describe(std::uint64_t version) const {
  const std::string who = fmt::format("{}, job {}", config_.self.to_string(), links_.job());
  if (!state_) return who + ": has not started\n";
  const Provenance* found = state_->provenance(version);
  if (found) return fmt::format("{}: {}\n", who, found->to_string());
  return fmt::format("{}: version {} is unknown: the shard has version {} and keeps the provenance of the last {}\n",
                     who, version, state_->version(), config_.options.provenance);
}

void ShardActorImpl::escalate(const Error& why) {
  TrainingOutbox out;
  if (state_) state_->fail(why, out);
  out.push_back({Destination::everyone(), JobFailed{why}});
  for (Outgoing& message : out) links_.deliver(std::move(message), telling());
  end(why);
}

void ShardActorImpl::inspect(ActorDetails& out) const {
  if (!state_) return;
  const ShardWait wait = state_->waiting();
  const ShardCounters& c = state_->counters();
  ShardSnapshot shard{.shard = config_.options.shard,
                      .job = links_.job(),
                      .slices = config_.slices.size(),
                      .version = state_->version()};
  for (const SliceSpec& slice : config_.slices)
    shard.bytes += static_cast<std::uint64_t>(slice.shape.num_elements()) * size_of(slice.dtype);
  shard.staged = wait.have;
  shard.needed = wait.need;
  shard.missing = wait.missing;
  shard.parked = wait.parked;
  shard.counts = {{"pulls", c.pulls},
                  {"parked_ever", c.parked},
                  {"pushes", c.pushes},
                  {"duplicates", c.duplicates},
                  {"stale", c.stale},
                  {"uncommitted", c.uncommitted},
                  {"fenced", c.fenced},
                  {"refused", c.refused},
                  {"abandoned", c.abandoned},
                  {"batches", c.batches},
                  {"updates", c.updates},
                  {"staged_bytes", c.staged_bytes},
                  {"rows_pulled", c.rows_pulled},
                  {"rows_pushed", c.rows_pushed}};
  shard.staleness.assign(c.staleness.begin(), c.staleness.end());
  if (wait.parked > 0) shard.waits_for = wait.to_string();
  out.waits_for = shard.waits_for;
  out.shards.push_back(std::move(shard));
  out.waiting.append(state_->waiting(links_.job(), config_.self.to_string()));
}

void ShardActorImpl::end(Error error) {
  if (!config_.ended) return;
  const auto ended = std::move(config_.ended);
  config_.ended = nullptr;
  write_history(true, true);
  if (state_)
    ended(std::move(error), state_->counters(), state_->cut(), open_);
  else
    ended(std::move(error), {}, {}, {});
}

}  // namespace troupe
