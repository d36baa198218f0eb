#include "troupe/actors/steps/direct_step.hpp"

#include <caf/send.hpp>

#include <troupe/scheduler/waits/wait_things.hpp>

namespace troupe {
namespace {

// A direct graph sends nothing out of its segment.
class NoOutbox final : public Outbox {
 public:
  void send(std::uint32_t, Tensor) override { fail(Code::internal, "a direct step sends nothing"); }
  void push(const PushTarget&, Tensor, Tensor) override { fail(Code::internal, "a direct step pushes nothing"); }
  void ask(const AskTarget&, Tensor) override { fail(Code::internal, "a direct step asks for no rows"); }
  void contribute(const ContributionTarget&, Tensor) override {
    fail(Code::internal, "a direct step contributes nothing");
  }
  void flush() override {}
};

}  // namespace

// ---- DirectSteps ---------------------------------------------------------------------------------------------------

void DirectSteps::add(DirectStep& step) {
  std::lock_guard lock(mutex_);
  step.next_ = first_;
  if (first_) first_->previous_ = &step;
  first_ = &step;
  step.listed_ = true;
}

Error DirectSteps::remove(DirectStep& step) {
  std::lock_guard lock(mutex_);
  if (!std::exchange(step.listed_, false)) return {};
  if (step.next_) step.next_->previous_ = step.previous_;
  (step.previous_ ? step.previous_->next_ : first_) = step.next_;
  step.running_ = nullptr;
  return std::move(step.cancelled_);
}

void DirectSteps::cancel(StepId id, const Error& error) {
  std::lock_guard lock(mutex_);
  for (DirectStep* step = first_; step; step = step->next_) {
    if (step->request.step != id || step->cancelled_) continue;
    step->cancelled_ = error;
    if (step->running_) step->running_->aborted.store(true, std::memory_order_relaxed);
  }
}

void DirectSteps::cancel_all(const Error& error) {
  std::lock_guard lock(mutex_);
  for (DirectStep* step = first_; step; step = step->next_) {
    if (!step->cancelled_) step->cancelled_ = error;
    if (step->running_) step->running_->aborted.store(true, std::memory_order_relaxed);
  }
}

// ---- DirectGraph ---------------------------------------------------------------------------------------------------

DirectGraph::DirectGraph(SessionId session, std::shared_ptr<LocalPartition> partition)
    : session_(session), partition_(std::move(partition)), frame_(partition_->partition->make_frame()) {}

bool DirectGraph::fits(const GraphHandle& graph) {
  if (!graph.participants.empty() || graph.partitions.size() != 1) return false;
  const LocalPartition& only = *graph.partitions[0];
  const Plan& plan = only.partition->plan();
  return plan.segments.size() == 1 && plan.arrivals.empty() && plan.sends.empty() && plan.pushes.empty() &&
         plan.asks.empty() && plan.contributions.empty();
}

void DirectGraph::inspect(ActorDetails& out) const {
  std::string node = frame_->running();
  if (node.empty()) return;
  const StepId step{step_.load(std::memory_order_relaxed)};
  const std::string& name = plan().device;
  TrainingStep training;
  if (const std::uint64_t number = number_.load(std::memory_order_relaxed); number != kNoNumber)
    training.number = number;
  const std::string task = wait_thing::task_of(name),
                    text = text_of(training, {session_, step}, device().attributes().name.task_name());
  out.waiting.things.push_back(
      {.id = wait_thing::step(session_, step), .text = training.number ? text : text + " on " + task, .task = task});
  out.waiting.things.push_back({.id = wait_thing::device(name),
                                .text = fmt::format("{} runs {} of {}", name, node, text),
                                .task = task,
                                .state = WaitThing::State::works});
  out.waiting.waits.push_back(
      {.waiter = wait_thing::step(session_, step), .awaited = wait_thing::device(name), .kind = "segment", .text = {}});
  out.running.emplace(name, std::move(node));
}

void DirectGraph::take_memory() {
  if (!memory_ || memory_->frame == frame_.get()) return;
  if (const auto last = memory_->last.lock()) last->release_blocks();
  memory_->last = frame_;
  memory_->frame = frame_.get();
}

// ---- DirectStep ----------------------------------------------------------------------------------------------------

DirectStep::~DirectStep() { steps_->remove(*this); }

void DirectStep::send(std::shared_ptr<DirectStep> step, bool here) {
  step->steps_->add(*step);
  step->borrowing.wanted = here;
  const std::shared_ptr<DirectGraph> graph = step->graph_;
  caf::anon_send(graph->actor(), ExecuteSegment{step});
  if (here && step->borrowing.granted) graph->device().compute().run_lent(std::move(step));
}

TraceStep DirectStep::traced_step() const {
  return TraceStep::of(request.session, request.step, number_of(request.training, request.step));
}

void DirectStep::trace_begin(Trace& trace) {
  trace_ = &trace;
  trace.begin_step(traced_step(), fmt::format("step {}", traced_step().number));
}

bool DirectStep::begin() {
  PlanFrame& frame = *graph_->frame_;
  const Plan& plan = graph_->plan();
  graph_->step_.store(request.step.value, std::memory_order_relaxed);
  graph_->number_.store(request.training.number.value_or(DirectGraph::kNoNumber), std::memory_order_relaxed);
  graph_->take_memory();
  frame.begin(request.random);
  {
    std::lock_guard lock(steps_->mutex_);
    if (cancelled_) return false;  // reported by remove()
    running_ = &frame;
  }
  for (std::size_t i = 0; i < plan.feed_slots.size(); ++i)
    if (plan.feed_slots[i] != Plan::kNoSlot && plan.slot_is_read[plan.feed_slots[i]])
      frame.slots[plan.feed_slots[i]] = std::move(request.feeds[i]);
  return true;
}

Error DirectStep::run_plan() {
  if (!paused_ && !begin()) return {};
  NoOutbox outbox;
  SharedDevice share(graph_->device(), graph_->session_);
  const TraceSlice slice(TraceKind::segment, "segment", TraceSlice::current() ? traced_step() : TraceStep());
  return run_segment(*graph_->frame_, 0, graph_->device(), outbox, &share);
}

std::uint64_t DirectStep::execute() {
  StepResult result{.error = run_plan(), .fetches = {}};
  paused_ = graph_->frame_->paused();
  if (paused_) return 0;
  PlanFrame& frame = *graph_->frame_;
  if (Error cancelled = steps_->remove(*this)) result.error = std::move(cancelled);
  if (!result.error) {
    result.fetches = std::move(request.fetches);
    const Plan& plan = graph_->plan();
    for (std::size_t i = 0; i < frame.fetches.size(); ++i)
      if (plan.fetch_indices[i] < result.fetches.size())
        result.fetches[plan.fetch_indices[i]] = std::move(frame.fetches[i]);
  }
  frame.clear();
  const std::uint64_t nodes = graph_->plan().nodes.size();
  if (graph_->device().attributes().synchronous)
    answer(std::move(result));
  else
    answer_when_done(std::move(result));
  return nodes;
}

void DirectStep::answer(StepResult result) {
  if (trace_) trace_->end_step(traced_step().key);
  request.answer(std::move(result));
}

void DirectStep::answer_when_done(StepResult result) {
  auto self = shared_from_this();
  std::vector<Tensor> fetches = std::move(result.fetches);
  bring_out(graph_->device(), std::move(fetches),
            [self, error = std::move(result.error)](std::vector<Tensor> brought, Error lost) mutable {
              if (!error) error = std::move(lost);
              if (error) brought.clear();
              self->answer({.error = std::move(error), .fetches = std::move(brought)});
            });
}

}  // namespace troupe
