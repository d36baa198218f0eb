// The C API: eager mode, tapes, optimizers.
#include <fmt/format.h>

#include <atomic>
#include <optional>
#include <thread>

#include "apps/c/handles.hpp"
#include <troupe/actors/eager/eager.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/gradients/tape.hpp>
#include <troupe/graph/optimizers/optimizers.hpp>

namespace troupe::c {

// Values hold it: it ends with the last one.
struct EagerMode {
  EagerMode(std::shared_ptr<Task> on, const EagerOptions& options)
      : task(on ? std::move(on) : std::make_shared<Task>()), eager(*task, options) {}
  std::shared_ptr<Task> task;
  Eager eager;
};

}  // namespace troupe::c

struct troupe_eager : troupe::c::Handle<troupe::c::tag_of("ea")> {
  std::shared_ptr<troupe::c::EagerMode> mode;
};
struct troupe_value : troupe::c::Handle<troupe::c::tag_of("va")> {
  std::shared_ptr<troupe::c::EagerMode> mode;
  troupe::Output output;  // of a variable: its handle
  std::optional<troupe::VariableRef> variable{};
};
struct troupe_tape : troupe::c::Handle<troupe::c::tag_of("tp")> {
  std::shared_ptr<troupe::c::EagerMode> mode;
  const std::thread::id thread = std::this_thread::get_id();
  std::optional<troupe::GradientTape> tape;
  std::atomic<bool> deleted = false;
};
struct troupe_optimizer : troupe::c::Handle<troupe::c::tag_of("op")> {
  explicit troupe_optimizer(troupe::Optimizer kind) : optimizer(std::move(kind)) {}
  std::shared_ptr<troupe::c::EagerMode> mode;  // of the variables that it has updated
  troupe::EagerOptimizer optimizer;
};

namespace troupe::c {
namespace {

troupe_value* new_value(const std::shared_ptr<EagerMode>& mode, Output output) {
  auto out = std::make_unique<troupe_value>();
  out->mode = mode;
  out->output = std::move(output);
  return out.release();
}

// Copies the handles of a call: its results may be written over them.
std::vector<troupe_value*> copied_handles(troupe_value* const* values, std::size_t count, const Argument& argument) {
  const auto given = array(values, count, argument);
  return {given.begin(), given.end()};
}

// The values of a call, which are of one eager mode.
Outputs values_of(const EagerMode* mode, troupe_value* const* values, std::size_t count, const Argument& argument) {
  Outputs out;
  for (troupe_value* value : array(values, count, argument)) {
    const Argument which{argument.name, out.size()};
    const troupe_value& known = check(value, which);
    if (known.mode.get() != mode) refuse(which, "is of another troupe_eager");
    out.push_back(known.output);
  }
  return out;
}
const Output& value_of(const EagerMode* mode, const troupe_value* value, const Argument& argument) {
  const troupe_value& known = check(value, argument);
  if (known.mode.get() != mode) refuse(argument, "is of another troupe_eager");
  return known.output;
}
troupe_value& variable_value(troupe_value* value, const Argument& argument) {
  troupe_value& known = check(value, argument);
  if (!known.variable) refuse(argument, "is no variable");
  return known;
}

// The tapes of a thread: they must end on it, the last one first.
class TapesOfThread {
 public:
  ~TapesOfThread() {
    for (troupe_tape* tape : open_) tape->deleted = true;
    end_deleted();
  }
  void add(troupe_tape* tape) { open_.push_back(tape); }
  // A tape that is deleted before one within it, or by another thread, ends here, later.
  void end_deleted() {
    while (!open_.empty() && open_.back()->deleted) {
      delete open_.back();
      open_.pop_back();
    }
  }

 private:
  std::vector<troupe_tape*> open_;
};
thread_local TapesOfThread tapes;

troupe_tape& tape_of_thread(troupe_tape* tape) {
  troupe_tape& known = check(tape, "tape");
  if (known.thread != std::this_thread::get_id())
    fail(Code::failed_precondition, "the tape records another thread, which alone may use it");
  return known;
}

}  // namespace
}  // namespace troupe::c

using namespace troupe::c;  // NOLINT(google-build-using-namespace)

troupe_eager* troupe_eager_new(troupe_task* task, const troupe_eager_options* options, troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_eager*>(nullptr), [&] {
    const auto o = options_of(options);
    auto out = std::make_unique<troupe_eager>();
    out->mode = std::make_shared<EagerMode>(task ? check(task, "task").task : nullptr,
                                            troupe::EagerOptions{.seed = o.seed, .device = text_or_empty(o.device)});
    return out.release();
  });
}

void troupe_eager_delete(troupe_eager* eager) { destroy(eager); }

troupe_code troupe_eager_set_seed(troupe_eager* eager, uint64_t seed, troupe_status* status) {
  return guarded(__func__, status, [&] { check(eager, "eager").mode->eager.set_seed(seed); });
}

troupe_value* troupe_eager_constant(troupe_eager* eager, const troupe_tensor* tensor, troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_value*>(nullptr), [&] {
    const auto& mode = check(eager, "eager").mode;
    return new_value(mode, constant(mode->eager, check(tensor, "tensor").tensor));
  });
}

int32_t troupe_eager_op(troupe_eager* eager, const char* op, troupe_value* const* inputs, size_t num_inputs,
                        const troupe_attributes* attributes, const troupe_node_options* options, troupe_value** outputs,
                        int32_t capacity, troupe_status* status) {
  return guarded(__func__, status, std::int32_t{-1}, [&] {
    const auto to = array(outputs, static_cast<std::size_t>(std::max(capacity, 0)), "outputs");
    const std::vector<troupe_value*> given = copied_handles(inputs, num_inputs, "inputs");
    std::ranges::fill(to, nullptr);
    const auto o = options_of(options);
    if (o.num_controls > 0) refuse("options.controls", "must be empty: ops run in the order of the program");
    const auto& mode = check(eager, "eager").mode;
    troupe::NodeSpec spec{.op = text_of(op, "op"),
                          .name = text_or_empty(o.name),
                          .inputs = values_of(mode.get(), given.data(), num_inputs, "inputs"),
                          .device = text_or_empty(o.device)};
    if (attributes) spec.attributes = check(attributes, "attributes").attributes;
    troupe::Outputs found = mode->eager.graph().apply(std::move(spec));
    const std::size_t wanted = std::min(found.size(), to.size());
    std::vector<std::unique_ptr<troupe_value>> made;
    for (std::size_t i = 0; i < wanted; ++i) made.emplace_back(new_value(mode, std::move(found[i])));
    for (std::size_t i = 0; i < wanted; ++i) to[i] = made[i].release();
    return static_cast<std::int32_t>(found.size());
  });
}

troupe_value* troupe_eager_variable(troupe_eager* eager, const char* name, const troupe_tensor* initial_value,
                                    const troupe_variable_options* options, troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_value*>(nullptr), [&] {
    const auto& mode = check(eager, "eager").mode;
    const auto o = options_of(options);
    // A variable writes to its memory: it gets some of its own.
    const troupe::Output first = constant(mode->eager, check(initial_value, "initial_value").tensor.clone());
    const auto made = variable(mode->eager, {.name = text_of(name, "name"),
                                             .initial_value = first,
                                             .trainable = !o.not_trainable,
                                             .device = text_or_empty(o.device)});
    std::unique_ptr<troupe_value> out(new_value(mode, made.handle));
    out->variable = made;
    return out.release();
  });
}

troupe_value* troupe_value_read(troupe_value* variable, troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_value*>(nullptr), [&] {
    const troupe_value& of = variable_value(variable, "variable");
    return new_value(of.mode, of.variable->read());
  });
}

troupe_code troupe_value_assign(troupe_value* variable, const troupe_value* value, troupe_status* status) {
  return guarded(__func__, status, [&] {
    const troupe_value& of = variable_value(variable, "variable");
    of.variable->assign(value_of(of.mode.get(), value, "value"));
  });
}

troupe_code troupe_value_assign_add(troupe_value* variable, const troupe_value* value, troupe_status* status) {
  return guarded(__func__, status, [&] {
    const troupe_value& of = variable_value(variable, "variable");
    of.variable->assign_add(value_of(of.mode.get(), value, "value"));
  });
}

troupe_value* troupe_value_share(const troupe_value* value, troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_value*>(nullptr), [&] {
    const troupe_value& of = check(value, "value");
    std::unique_ptr<troupe_value> out(new_value(of.mode, of.output));
    out->variable = of.variable;
    return out.release();
  });
}

void troupe_value_delete(troupe_value* value) { destroy(value); }

troupe_tensor* troupe_value_tensor(const troupe_value* value, troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_tensor*>(nullptr), [&] {
    troupe_tensor* out = nullptr;
    give_tensors({check(value, "value").output.value()}, &out);
    return out;
  });
}

troupe_tape* troupe_tape_new(troupe_eager* eager, bool persistent, troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_tape*>(nullptr), [&] {
    tapes.end_deleted();
    auto out = std::make_unique<troupe_tape>();
    out->mode = check(eager, "eager").mode;
    tapes.add(out.get());
    out->tape.emplace(troupe::TapeOptions{.persistent = persistent});
    return out.release();
  });
}

troupe_code troupe_tape_watch(troupe_tape* tape, const troupe_value* value, troupe_status* status) {
  return guarded(__func__, status, [&] {
    troupe_tape& of = tape_of_thread(tape);
    of.tape->watch(value_of(of.mode.get(), value, "value"));
  });
}

troupe_code troupe_tape_stop(troupe_tape* tape, troupe_status* status) {
  return guarded(__func__, status, [&] { tape_of_thread(tape).tape->stop(); });
}

troupe_code troupe_tape_gradients(troupe_tape* tape, troupe_value* const* ys, size_t num_ys, troupe_value* const* xs,
                                  size_t num_xs, troupe_value* const* grad_ys, troupe_value** gradients,
                                  troupe_status* status) {
  return guarded(__func__, status, [&] {
    const auto to = array(gradients, num_xs, "gradients");
    const std::vector<troupe_value*> wanted = copied_handles(xs, num_xs, "xs");
    std::ranges::fill(to, nullptr);
    troupe_tape& of = tape_of_thread(tape);
    const troupe::Outputs from = values_of(of.mode.get(), ys, num_ys, "ys"),
                          by = values_of(of.mode.get(), wanted.data(), num_xs, "xs");
    troupe::GradientOptions options;
    if (grad_ys) options.grad_ys = values_of(of.mode.get(), grad_ys, num_ys, "grad_ys");
    const std::vector<troupe::Gradient> found = of.tape->gradients(from, by, options);
    std::vector<std::unique_ptr<troupe_value>> made(found.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!found[i]) continue;
      const troupe::Output like = found[i].is_sparse() && wanted[i]->variable ? wanted[i]->variable->read() : by[i];
      made[i].reset(new_value(of.mode, dense(found[i], like)));
    }
    for (std::size_t i = 0; i < made.size(); ++i) to[i] = made[i].release();
  });
}

void troupe_tape_delete(troupe_tape* tape) {
  if (!tape || !tape->is_whole()) return;
  const bool own = tape->thread == std::this_thread::get_id();
  tape->deleted = true;
  if (own) tapes.end_deleted();
}

troupe_optimizer* troupe_optimizer_new(const char* optimizer, troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_optimizer*>(nullptr),
                 [&] { return new troupe_optimizer(troupe::parse_optimizer(text_of(optimizer, "optimizer"))); });
}

void troupe_optimizer_delete(troupe_optimizer* optimizer) { destroy(optimizer); }

troupe_code troupe_optimizer_apply(troupe_optimizer* optimizer, troupe_value* const* gradients,
                                   troupe_value* const* variables, size_t count, troupe_status* status) {
  return guarded(__func__, status, [&] {
    troupe_optimizer& with = check(optimizer, "optimizer");
    const auto given = array(gradients, count, "gradients"), to = array(variables, count, "variables");
    std::vector<troupe::GradientAndVariable> pairs;
    for (std::size_t i = 0; i < count; ++i) {
      const troupe_value& variable = variable_value(to[i], {"variables", i});
      if (!with.mode) with.mode = variable.mode;
      if (with.mode != variable.mode) refuse({"variables", i}, "is of another troupe_eager");
      const troupe::Output& gradient = value_of(with.mode.get(), given[i], {"gradients", i});
      pairs.push_back({.gradient = {.dense = gradient}, .variable = *variable.variable});
    }
    with.optimizer.apply(pairs);
  });
}
