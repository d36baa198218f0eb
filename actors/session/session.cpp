#include "troupe/actors/session/session.hpp"

#include <algorithm>
#include <atomic>
#include <caf/after.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/system_messages.hpp>
#include <list>
#include <mutex>

#include <troupe/actors/cluster/private_device.hpp>
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/cluster/task_actors.hpp>
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/actors/session/background.hpp>
#include <troupe/actors/session/callable_state.hpp>
#include <troupe/actors/session/compile.hpp>
#include <troupe/actors/session/made_once.hpp>

namespace troupe {

namespace {

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
  self->demonitor(node.address());  // or the node would keep the memory of `self` for its own lifetime
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

  Compiler compiler() const {
    if (options.device) return {{&options.device->info(), 1}, options.device->device(), task.kernels()};
    return {task.devices(), task.device(), task.kernels()};
  }
  CompileOptions compile_options(GraphId id) const {
    return {.session = session,
            .graph = id,
            .client = task.name(),
            .optimize = options.optimize,
            .soft_placement = options.soft_placement,
            .precision = options.precision,
            .check_numerics = options.check_numerics,
            .inference = options.inference ? std::optional(options.inference->switched_off) : std::nullopt,
            .shape_classes = options.inference && options.inference->shape_classes > 0 &&
                             !options.inference->switched_off.contains("shape_classes"),
            .shards = options.shards,
            .container = options.container};
  }
  Compiled compile_call(const Call& call, GraphId id) const {
    return compile(*call.graph, signature(call), compiler(), compile_options(id));
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
    if (compiled.prepared && state->direct) prepare_shapes(state, compiled.prepared);
    Callable made;
    made.state_ = std::move(state);
    return made;
  }

  // Lets the call have plans for the shapes that it is fed.
  void prepare_shapes(const std::shared_ptr<Callable::State>& state, std::shared_ptr<const Graph> prepared) {
    for (int id = 0; id < prepared->size(); ++id)
      if (const Node& node = prepared->node(id); node.op->role == OpRole::feed && !node.output_shapes[0].fully_known())
        state->open_feeds.push_back(static_cast<std::size_t>(node.attributes.integer("index")));
    if (state->open_feeds.empty()) return;
    state->prepared = std::move(prepared);
    state->memory = std::make_shared<CallMemory>();
    state->direct->share(state->memory);
    const auto want = [this, weak = std::weak_ptr(state),
                       background = background](const std::vector<Shape>& shapes) mutable {
      background->post([this, weak, shapes] {
        if (const auto call = weak.lock()) make_shaped_plan(*call, shapes);
      });
    };
    state->shapes =
        std::make_shared<ShapeClasses<ShapedPlan>>(state->open_feeds, options.inference->shape_classes, want);
    const std::lock_guard lock(mutex);
    shaped_calls.push_back(state->shapes);
  }

  // On the background thread.
  void make_shaped_plan(Callable::State& state, const std::vector<Shape>& shapes) {
    auto plan = std::make_shared<ShapedPlan>(session, GraphId{next_graph.fetch_add(1)}, task.handles().node);
    std::string told = shapes_text(state, shapes);
    try {
      std::map<std::int64_t, Shape> feeds;
      for (std::size_t i = 0; i < shapes.size(); ++i) feeds[static_cast<std::int64_t>(state.open_feeds[i])] = shapes[i];
      const Compiled compiled = compile_for_shapes(*state.prepared, feeds, compiler(), compile_options(plan->graph));
      register_at(task.name(), compiled.tasks.at(task.name()), compiled.tensors);
      plan->direct = lend(plan->graph);
      // Only behind steps of the same device are steps in order.
      if (compiled.tasks.size() > 1 || !plan->direct || plan->direct->plan().device != state.direct->plan().device)
        fail(Code::unimplemented, "it would not run as a whole on {}", state.direct->plan().device);
      plan->direct->share(state.memory);
      plan->report = compiled.report;
      told += ": has a plan of its own";
    } catch (...) {
      plan = nullptr;
      told += ": keeps the general plan: " + current_error().message();
    }
    state.shapes->made(shapes, std::move(plan));
    const std::lock_guard lock(telling);
    if (options.inference->on_shapes) options.inference->on_shapes(told);
  }

  static std::string shapes_text(const Callable::State& state, const std::vector<Shape>& shapes) {
    std::string text;
    for (std::size_t i = 0; i < shapes.size(); ++i)
      text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", state.feed_names[state.open_feeds[i]],
                          name(state.feeds[state.open_feeds[i]].first), shapes[i].to_string());
    return text;
  }

  // For `explain`.
  std::string shape_classes_text(const Call& call, bool possible) {
    const std::optional<Callable> made = callables.find(call.key);
    if (made ? !made->state_->shapes : !possible) return "";
    if (!made)
      return fmt::format("shape classes: at most {}; the call has not been made\n", options.inference->shape_classes);
    const auto lines = made->state_->shapes->list();
    std::string text =
        fmt::format("shape classes: {} have plans, at most {}\n", lines.size(), made->state_->shapes->most());
    for (const auto& line : lines)
      text += fmt::format("for {}: {} steps\n{}{}", shapes_text(*made->state_, line.shapes), line.steps,
                          line.plan->report, line.plan->direct->plan().summary());
    return text;
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
    request(
        self, where,
        RegisterGraphRequest{std::move(bytes), std::move(tensors), where == task.name() ? options.variables : nullptr},
        "to build its part of the graph");
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
    background->close();
    std::vector<std::weak_ptr<ShapeClasses<ShapedPlan>>> shaped;
    {
      const std::lock_guard lock(mutex);
      shaped.swap(shaped_calls);
    }
    for (const auto& weak : shaped)
      if (const auto call = weak.lock()) call->close();
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
  std::shared_ptr<Background> background = std::make_shared<Background>();
  std::mutex mutex;  // guards the five members below
  std::shared_ptr<Graph> graph;
  std::vector<const Graph*> sources;  // graphs whose outputs are valid here: the one copied, and those that extended it
  std::set<TaskName> users;           // tasks that know the session
  std::list<caf::actor> registering;  // threads waiting for a task to register a graph
  std::vector<std::weak_ptr<ShapeClasses<ShapedPlan>>> shaped_calls;
  std::mutex telling;
  std::set<std::string> fallbacks_told;  // requested devices already reported; guarded by `telling`
  std::shared_ptr<std::atomic<std::uint64_t>> next_step = std::make_shared<std::atomic<std::uint64_t>>(1);
  std::shared_ptr<DirectSteps> direct_steps = std::make_shared<DirectSteps>();
  std::shared_ptr<std::atomic<bool>> open = std::make_shared<std::atomic<bool>>(true);
};

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
  const Impl::Call call = impl_->call(feeds, fetches, targets);
  const Compiled compiled = impl_->compile_call(call, GraphId{0});
  return explain_call(compiled, impl_->task.kernels()) +
         impl_->shape_classes_text(call, compiled.prepared && compiled.parts.size() == 1);
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
