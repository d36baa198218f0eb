#include "troupe/actors/session/session.hpp"

#include <algorithm>
#include <atomic>
#include <caf/after.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/system_messages.hpp>
#include <condition_variable>
#include <list>
#include <mutex>

#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/cluster/task_actors.hpp>
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/actors/session/compile.hpp>
#include <troupe/actors/session/made_once.hpp>
#include <troupe/actors/steps/client_gate.hpp>
#include <troupe/actors/steps/direct_step.hpp>

namespace troupe {

struct Callable::State {
  SessionId session;
  GraphId graph;
  std::uint64_t seed = 0;
  std::chrono::nanoseconds timeout{0};
  SchedulerActor scheduler;
  std::shared_ptr<ClientGate> gate;
  std::shared_ptr<DirectGraph> direct;  // null: steps go through the scheduler
  std::shared_ptr<DirectSteps> direct_steps;
  std::vector<std::pair<DType, Shape>> feeds;
  std::vector<std::string> feed_names;
  std::size_t num_fetches = 0;
  std::shared_ptr<std::atomic<std::uint64_t>> next_step;
  std::shared_ptr<std::atomic<bool>> open;
};

namespace {

std::int64_t deadline_of(std::chrono::nanoseconds timeout) {
  if (timeout.count() < 0) invalid_argument("a timeout of {} ns is negative: 0 means none", timeout.count());
  return timeout.count() > 0 ? steady_now_ns() + timeout.count() : 0;
}

// Names compile; numbers find the compiled call.
struct CallKey {
  std::vector<Endpoint> feeds, fetches, targets;
  auto operator<=>(const CallKey&) const = default;
};

Error session_closed() { return Error(Code::failed_precondition, "the session is closed"); }

// Sends a request to the node of a task, and throws the error that it answers, or that it does not answer. A Stop ends
// the wait: the session is closed.
template <class Request>
void ask_node(Task& task, caf::scoped_actor& self, const TaskName& where, Request message, const char* what,
              std::chrono::nanoseconds timeout) {
  const NodeActor node = task.handles().node_of(where);
  if (!node) fail(Code::unavailable, "{} has shut down", where.to_string());
  const ClientRecord::Pending pending = task.introspection().client().wait(where, what);
  // CAF drops requests to a dead node; monitors learn that it has died.
  self->monitor(node);
  self->send(node, std::move(message));
  Reply reply;
  self->receive([&](const Reply& r) { reply = r; },
                [&](const caf::down_msg&) {
                  reply = Reply::of(Error(Code::unavailable, fmt::format("{} is gone", where.to_string())));
                },
                [&](const Stop&) { reply = Reply::of(session_closed()); },
                caf::after(timeout) >>
                    [&] {
                      const auto& why = task.actors().why();
                      const std::string limit = wait_time(timeout.count());
                      reply = Reply::of(Error(Code::deadline_exceeded,
                                              fmt::format("{} was asked {} and has not answered within {}\n{}",
                                                          where.to_string(), what, limit, why ? why() : "")));
                    });
  if (reply.error()) throw reply.error();
}

}  // namespace

class Session::Impl {
 public:
  Impl(std::unique_ptr<Task> owned_task, Task& on, const Graph& source, SessionOptions given)
      : owned(std::move(owned_task)), task(on), options(std::move(given)), graph(source.clone()), sources{&source} {}

  // A call and its graph: extend() makes another graph.
  struct Call {
    CallKey key;
    std::shared_ptr<Graph> graph;
  };
  Call call(const std::vector<Output>& feeds, const std::vector<Output>& fetches, const std::vector<Output>& targets) {
    const std::lock_guard lock(mutex);
    return {call_key(feeds, fetches, targets), graph};
  }

  CallKey call_key(const std::vector<Output>& feeds, const std::vector<Output>& fetches,
                   const std::vector<Output>& targets) const {
    return {endpoints(feeds, "feed"), endpoints(fetches, "fetch"), endpoints(targets, "target")};
  }

  // An output of another graph would name the node with the same number in this one.
  std::vector<Endpoint> endpoints(const std::vector<Output>& outputs, std::string_view role) const {
    std::vector<Endpoint> out;
    for (const Output& o : outputs) {
      if (!o.valid()) invalid_argument("{} {} is not a tensor of a graph", role, out.size());
      if (std::ranges::find(sources, o.graph) == sources.end())
        invalid_argument("{} '{}' belongs to another graph: create a session for that graph", role, o.name());
      out.push_back({o.node, o.index});
    }
    return out;
  }

  static Signature signature(const Call& call) {
    Graph& graph = *call.graph;
    const auto name = [&](Endpoint e) {
      if (e.node >= graph.size())
        invalid_argument(
            "unknown tensor: it was added to the graph after the session was created (call Session::extend)");
      return graph.output(graph.node(e.node), e.index).name();
    };
    Signature out;
    for (Endpoint e : call.key.feeds) out.feeds.push_back(name(e));
    for (Endpoint e : call.key.fetches) out.fetches.push_back(name(e));
    for (Endpoint e : call.key.targets) {
      name(e);
      out.targets.push_back(graph.node(e.node).name);
    }
    return out;
  }

  Compiled compile_call(const Call& call, GraphId id) const {
    return compile(*call.graph, signature(call), task.devices(), task.device(), task.kernels(),
                   {.session = session,
                    .graph = id,
                    .client = task.name(),
                    .optimize = options.optimize,
                    .soft_placement = options.soft_placement,
                    .precision = options.precision,
                    .check_numerics = options.check_numerics,
                    .inference = options.inference ? std::optional(options.inference->switched_off) : std::nullopt,
                    .shards = options.shards,
                    .container = options.container});
  }

  Callable callable(const std::vector<Output>& feeds, const std::vector<Output>& fetches,
                    const std::vector<Output>& targets) {
    const Call wanted = call(feeds, fetches, targets);
    return callables.get(wanted.key, [&] { return make_callable(wanted); });
  }

  // Compiles and registers without holding the mutex: that is slow, and other calls continue.
  Callable make_callable(const Call& call) {
    const GraphId id{next_graph.fetch_add(1)};
    const Compiled compiled = compile_call(call, id);
    tell_user(compiled);
    // The client's own task last: its scheduler then knows that the others are ready.
    for (const auto& [name, body] : compiled.tasks)
      if (name != task.name()) register_at(name, body, nullptr);
    if (const auto own = compiled.tasks.find(task.name()); own != compiled.tasks.end())
      register_at(task.name(), own->second, compiled.tensors);
    else
      register_at(task.name(), coordinator_only(compiled, id), nullptr);

    auto state = std::make_shared<Callable::State>();
    state->session = session;
    state->graph = id;
    state->seed = options.seed;
    state->timeout = options.timeout;
    state->scheduler = task.handles().scheduler;
    state->gate = task.client_gate();
    state->direct = lend(id);
    state->direct_steps = direct_steps;
    for (Endpoint e : call.key.feeds) {
      state->feeds.emplace_back(call.graph->dtype(e), call.graph->shape(e));
      state->feed_names.push_back(call.graph->output(call.graph->node(e.node), e.index).name());
    }
    state->num_fetches = call.key.fetches.size();
    state->next_step = next_step;
    state->open = open;
    Callable made;
    made.state_ = std::move(state);
    return made;
  }

  // Serialised: one thread at a time calls the user's functions.
  void tell_user(const Compiled& compiled) {
    const std::lock_guard lock(telling);
    if (options.on_placement) options.on_placement(compiled.placement);
    for (const Fallback& f : compiled.fallbacks) {
      if (!fallbacks_told.insert(f.requested).second) continue;
      std::string text = fmt::format("'{}' requests {}, which is missing or cannot run it: it runs on {}", f.node,
                                     f.requested, f.used);
      if (!task.accelerators().empty()) text += fmt::format("; GPUs of this task: {}", task.accelerators());
      if (options.on_warning)
        options.on_warning(text);
      else
        fmt::print(stderr, "warning: {}\n", text);
    }
  }

  // The graph if its steps may go straight to their device.
  std::shared_ptr<DirectGraph> lend(GraphId id) {
    std::shared_ptr<DirectGraph> out;
    caf::scoped_actor self(task.system());
    self->request(task.handles().scheduler, caf::infinite, LendGraph{session, id})
        .receive([&](const GraphLent& lent) { out = std::static_pointer_cast<DirectGraph>(lent.graph); },
                 [](const caf::error&) {});  // the task has shut down: the step will report it
    return out;
  }

  // For a call with no nodes on the client's task: it still starts the others and awaits their results.
  proto::RegisterGraph coordinator_only(const Compiled& compiled, GraphId id) const {
    proto::RegisterGraph body;
    body.set_session(session.value);
    body.set_graph(id.value);
    body.set_client(task.name().to_string());
    body.set_container(options.container);
    for (const auto& [name, unused] : compiled.tasks) body.add_participant(name.to_string());
    return body;
  }

  // `tensors`: those that the body counts; null for another process.
  void register_at(const TaskName& where, const proto::RegisterGraph& body,
                   std::shared_ptr<const std::vector<Tensor>> tensors) {
    std::string bytes;
    if (!body.SerializeToString(&bytes) || bytes.size() > (std::size_t{1} << 30))
      fail(Code::resource_exhausted,
           "the part of the graph for {} is larger than 1 GiB: feed large constants, or load them into variables",
           where.to_string());
    caf::scoped_actor self(task.system());
    const Registering registering(*this, where, caf::actor_cast<caf::actor>(self));
    request(self, where, RegisterGraphRequest{std::move(bytes), std::move(tensors)}, "to build its part of the graph");
  }

  // While it lives, close() ends a request that `waiter` waits for. Throws if the session is already closed.
  class Registering {
   public:
    Registering(Impl& session, const TaskName& where, caf::actor waiter) : session_(session) {
      const std::lock_guard lock(session_.mutex);
      if (!*session_.open) throw session_closed();
      session_.users.insert(where);
      place_ = session_.registering.insert(session_.registering.end(), std::move(waiter));
    }
    ~Registering() {
      const std::lock_guard lock(session_.mutex);
      session_.registering.erase(place_);
    }
    Registering(const Registering&) = delete;
    Registering& operator=(const Registering&) = delete;

   private:
    Impl& session_;
    std::list<caf::actor>::iterator place_;
  };

  template <class Request>
  void request(caf::scoped_actor& self, const TaskName& where, Request message, const char* what) {
    ask_node(task, self, where, std::move(message), what, options.build_timeout);
  }

  void close() {
    {
      const std::lock_guard lock(mutex);
      if (!open->exchange(false)) return;
      for (const caf::actor& waiter : registering) caf::anon_send(waiter, Stop{});
    }
    callables.close(session_closed());
    direct_steps->cancel_all(Error(Code::cancelled, "the session was closed"));
    if (task_alive.expired()) return;
    std::set<TaskName> told;  // final: no more are added
    {
      const std::lock_guard lock(mutex);
      told.swap(users);
    }
    for (const TaskName& name : told) {
      try {
        caf::scoped_actor self(task.system());
        request(self, name, CloseSessionRequest{session.value}, "to end the session");
      } catch (const Error&) {
        // A task that is gone has nothing to close.
      }
    }
  }

  std::unique_ptr<Task> owned;
  Task& task;
  std::weak_ptr<const void> task_alive = task.alive();
  SessionOptions options;
  SessionId session{random_id()};
  MadeOnce<CallKey, Callable> callables;
  std::atomic<std::uint32_t> next_graph = 0;
  std::mutex mutex;  // guards the four members below
  std::shared_ptr<Graph> graph;
  std::vector<const Graph*> sources;  // graphs whose outputs are valid here: the one copied, and those that extended it
  std::set<TaskName> users;           // tasks that know the session
  std::list<caf::actor> registering;  // threads waiting for a task to register a graph
  std::mutex telling;
  std::set<std::string> fallbacks_told;  // requested devices already reported; guarded by `telling`
  std::shared_ptr<std::atomic<std::uint64_t>> next_step = std::make_shared<std::atomic<std::uint64_t>>(1);
  std::shared_ptr<DirectSteps> direct_steps = std::make_shared<DirectSteps>();
  std::shared_ptr<std::atomic<bool>> open = std::make_shared<std::atomic<bool>>(true);
};

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
  const StepId step{state_->next_step->fetch_add(1)};
  const auto fill = [&](StepRequest& request) {
    request.session = state_->session;
    request.graph = state_->graph;
    request.step = step;
    request.random =
        RandomKey{state_->seed, options.random_step >= 0 ? static_cast<std::uint64_t>(options.random_step) : step.value,
                  options.random_slot};
    request.training = options.training;
    request.feeds = std::move(feeds);
    request.fetches.resize(state_->num_fetches);
    request.deadline_ns = deadline_ns;
    request.done = std::move(done);
  };
  // The scheduler handles deadlines.
  if (state_->direct && deadline_ns == 0) {
    auto direct = std::make_shared<DirectStep>(state_->direct, state_->direct_steps);
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

Session::Session(const Graph& graph, SessionOptions options) {
  auto task = std::make_unique<Task>();
  Task& on = *task;
  impl_ = std::make_unique<Impl>(std::move(task), on, graph, std::move(options));
}

Session::Session(Task& task, const Graph& graph, SessionOptions options)
    : impl_(std::make_unique<Impl>(nullptr, task, graph, std::move(options))) {}

Session::~Session() { close(); }

void Session::close() { impl_->close(); }

Callable Session::callable(const std::vector<Output>& feeds, const std::vector<Output>& fetches,
                           const std::vector<Output>& targets) {
  return impl_->callable(feeds, fetches, targets);
}

std::vector<Tensor> Session::run(const Feeds& feeds, const std::vector<Output>& fetches,
                                 const std::vector<Output>& targets, const RunOptions& options) {
  std::vector<Output> fed;
  std::vector<Tensor> values;
  for (const auto& [output, tensor] : feeds) {
    fed.push_back(output);
    values.push_back(tensor);
  }
  return callable(fed, fetches, targets)(std::move(values), options);
}

void Session::cancel(StepId step) {
  impl_->direct_steps->cancel(step,
                              Error(Code::cancelled, fmt::format("step {} was cancelled by its client", step.value)));
  caf::anon_send(impl_->task.handles().scheduler, CancelStep{impl_->session, step});
}

void Session::extend(const Graph& graph) {
  std::lock_guard lock(impl_->mutex);
  const Graph& known = *impl_->graph;
  for (int id = 0; id < known.size(); ++id) {
    const bool same = id < graph.size() && graph.node(id).name == known.node(id).name &&
                      graph.node(id).op == known.node(id).op && graph.node(id).inputs == known.node(id).inputs;
    if (!same)
      invalid_argument("the graph does not extend the session's graph: node {} '{}' has changed", id,
                       known.node(id).name);
  }
  impl_->graph = graph.clone();
  if (std::ranges::find(impl_->sources, &graph) == impl_->sources.end()) impl_->sources.push_back(&graph);
}

std::string Session::explain(const std::vector<Output>& feeds, const std::vector<Output>& fetches,
                             const std::vector<Output>& targets) {
  return explain_call(impl_->compile_call(impl_->call(feeds, fetches, targets), GraphId{0}), impl_->task.kernels());
}

void reset_container(Task& task, const std::string& container) {
  std::set<TaskName> tasks{task.name()};
  for (const DeviceInfo& device : task.devices()) tasks.insert(device.name.task_name());
  caf::scoped_actor self(task.system());
  for (const TaskName& where : tasks)
    ask_node(task, self, where, ResetContainerRequest{container}, "to reset a container",
             SessionOptions{}.build_timeout);
}

}  // namespace troupe
