// Steps of a Callable: which plan runs them, and how they get there.
#include <caf/send.hpp>
#include <condition_variable>
#include <mutex>

#include <troupe/actors/session/callable_state.hpp>
#include <troupe/messages/caf/instances.hpp>

namespace troupe {
namespace {

std::int64_t deadline_of(std::chrono::nanoseconds timeout) {
  if (timeout.count() < 0) invalid_argument("a timeout of {} ns is negative: 0 means none", timeout.count());
  return timeout.count() > 0 ? steady_now_ns() + timeout.count() : 0;
}

}  // namespace

ShapedPlan::~ShapedPlan() {
  if (node) caf::anon_send(node, DropGraph{session, graph});
}

StepId Callable::start(std::vector<Tensor> feeds, const RunOptions& options,
                       std::function<void(StepResult)> done) const {
  return start(std::move(feeds), options, std::move(done), Wait::no);
}

StepId Callable::start(std::vector<Tensor> feeds, const RunOptions& options, std::function<void(StepResult)> done,
                       Wait wait) const {
  if (!state_) fail(Code::failed_precondition, "this Callable has no session");
  if (!*state_->open) fail(Code::failed_precondition, "the session is closed");
  if (feeds.size() != state_->feeds.size())
    invalid_argument("the call takes {} feeds, got {}", state_->feeds.size(), feeds.size());
  for (std::size_t i = 0; i < feeds.size(); ++i) {
    const auto& [dtype, shape] = state_->feeds[i];
    if (!feeds[i].valid())
      invalid_argument("feed '{}' is a Tensor without a value: it must be {}{}", state_->feed_names[i], name(dtype),
                       shape.to_string());
    if (feeds[i].dtype() != dtype || !shape.compatible_with(feeds[i].shape()))
      invalid_argument("feed '{}' must be {}{}, not {}{}", state_->feed_names[i], name(dtype), shape.to_string(),
                       name(feeds[i].dtype()), feeds[i].shape().to_string());
  }
  const std::int64_t deadline_ns = deadline_of(options.timeout.count() != 0 ? options.timeout : state_->timeout);
  // Holds the plan until the step is on its way: it is dropped behind it.
  const std::shared_ptr<const ShapedPlan> shaped = state_->shapes ? state_->shapes->find(feeds) : nullptr;
  const StepId step{state_->next_step->fetch_add(1)};
  const auto fill = [&](StepRequest& request) {
    request.session = state_->session;
    request.graph = shaped ? shaped->graph : state_->graph;
    request.step = step;
    request.random = RandomKey{options.seed.value_or(state_->seed),
                               options.random_step >= 0 ? static_cast<std::uint64_t>(options.random_step) : step.value,
                               options.random_slot};
    request.training = options.training;
    request.feeds = std::move(feeds);
    request.fetches.resize(state_->num_fetches);
    request.deadline_ns = deadline_ns;
    request.done = std::move(done);
  };
  // The scheduler handles deadlines.
  if (state_->direct && deadline_ns == 0) {
    auto direct = std::make_shared<DirectStep>(shaped ? shaped->direct : state_->direct, state_->direct_steps);
    fill(direct->request);
    DirectStep::send(std::move(direct), wait == Wait::yes);
  } else {
    auto request = std::make_shared<StepRequest>();
    fill(*request);
    if (wait == Wait::yes)
      state_->gate->run(std::move(request));
    else
      caf::anon_send(state_->scheduler, RunStep{std::move(request)});
  }
  return step;
}

StepId Callable::start_here(std::vector<Tensor> feeds, const RunOptions& options,
                            std::function<void(StepResult)> done) const {
  return start(std::move(feeds), options, std::move(done), in_order() ? Wait::yes : Wait::no);
}

namespace {

// Where a blocking call waits for its answer.
class Answer {
 public:
  // Notifies under the lock: the waiting thread destroys this object.
  void set(StepResult result) {
    std::lock_guard lock(mutex_);
    result_ = std::move(result);
    there_ = true;
    wake_.notify_one();
  }
  StepResult get() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return there_; });
    return std::move(result_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool there_ = false;
  StepResult result_;
};

}  // namespace

std::vector<Tensor> Callable::operator()(std::vector<Tensor> feeds, const RunOptions& options) const {
  Answer answer;
  start(
      std::move(feeds), options, [&answer](StepResult result) { answer.set(std::move(result)); }, Wait::yes);
  StepResult result = answer.get();
  if (result.error) throw result.error;
  return std::move(result.fetches);
}

std::future<std::vector<Tensor>> Callable::async(std::vector<Tensor> feeds, const RunOptions& options) const {
  auto promise = std::make_shared<std::promise<std::vector<Tensor>>>();
  auto future = promise->get_future();
  start(std::move(feeds), options, [promise = std::move(promise)](StepResult result) {
    if (result.error)
      promise->set_exception(std::make_exception_ptr(std::move(result.error)));
    else
      promise->set_value(std::move(result.fetches));
  });
  return future;
}

bool Callable::in_order() const { return state_ && state_->direct && state_->timeout.count() == 0; }

SessionId Callable::session() const { return state_ ? state_->session : SessionId{}; }

}  // namespace troupe
