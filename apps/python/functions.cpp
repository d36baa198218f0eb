// Functions of Python that are traced (actors/eager/function.hpp).
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "apps/python/calls.hpp"
#include "apps/python/operands.hpp"
#include <troupe/actors/eager/function.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

class PyTracedFunction;

// They end before the eager mode, whose task runs their steps.
class AllFunctions {
 public:
  void add(PyTracedFunction* function) {
    const std::lock_guard lock(mutex_);
    all_.insert(function);
  }
  void remove(PyTracedFunction* function) {
    const std::lock_guard lock(mutex_);
    all_.erase(function);
  }
  void end();

 private:
  std::mutex mutex_;
  std::set<PyTracedFunction*> all_;
};

AllFunctions& all_functions() {
  static AllFunctions* const all = [] {
    auto* const made = new AllFunctions;
    at_end_of_eager([made] { made->end(); });
    return made;
  }();
  return *all;
}

class PyTracedFunction {
 public:
  // `function` is called with tensors. `general`: describes a call with other arguments, as (tensors, key, closure,
  // places of tensors with any number of rows), and a result that is not one tensor, as (tensors, form).
  PyTracedFunction(nb::object function, nb::object describe_call, nb::object take_apart, nb::object put_together,
                   const std::string& name, bool reduce_retracing, std::size_t max_traces)
      : function_(std::move(function)),
        describe_call_(std::move(describe_call)),
        take_apart_(std::move(take_apart)),
        put_together_(std::move(put_together)),
        options_{.name = name, .relax_shapes = reduce_retracing, .most_traces = max_traces} {
    all_functions().add(this);
  }
  PyTracedFunction(PyTracedFunction&&) = delete;
  ~PyTracedFunction() {
    all_functions().remove(this);
    // A session closes: not with the interpreter's lock, which its device may need to let go of arrays.
    const nb::gil_scoped_release released;
    traced_ = nullptr;
  }

  nb::object operator()(const nb::args& args, const nb::kwargs& kwargs) {
    const CallOf call = call_of(args, kwargs);
    std::shared_ptr<TracedFunction> held = traced_function();
    TracedFunction::Formed formed;
    {
      const ReleasedForOp released;
      const std::shared_ptr<TracedFunction> traced = std::move(held);  // let go of before the eager mode may end
      formed = traced->call(call.inputs, call.key, body(call.closure), call.open_rows);
    }
    if (!formed.form) return to_python({nullptr, formed.results.at(0)});
    const CallGraph of{&eager_graph()};
    return put_together_(static_cast<const HeldObject*>(formed.form.get())->get(), to_python(of, formed.results));
  }

  std::string explain(const nb::args& args, const nb::kwargs& kwargs) {
    const CallOf call = call_of(args, kwargs);
    std::shared_ptr<TracedFunction> held = traced_function();
    const ReleasedForOp released;
    const std::shared_ptr<TracedFunction> traced = std::move(held);  // see above
    return traced->explain(call.inputs, call.key, body(call.closure), call.open_rows);
  }

  std::uint64_t traces() const { return traced_ ? traced_->traces() : 0; }
  nb::object function() const { return function_; }
  void end() { traced_ = nullptr; }

 private:
  struct CallOf {
    Outputs inputs;
    std::string key;
    nb::object closure;          // called with the tensors
    std::vector<int> open_rows;  // the places of tensors of which one trace serves any number of rows
  };

  // Most calls have tensors alone.
  CallOf call_of(const nb::args& args, const nb::kwargs& kwargs) const {
    bool plain = kwargs.size() == 0;
    for (const nb::handle x : args) plain = plain && is_tensor(x);
    CallOf out{.inputs = {}, .key = {}, .closure = function_, .open_rows = {}};
    if (plain) {
      for (const nb::handle x : args) out.inputs.push_back(tensor_of(x).output());
      return out;
    }
    const nb::object described = describe_call_(args, kwargs);
    const CallGraph of{&eager_graph()};
    for (const nb::handle x : nb::cast<nb::list>(described[0])) out.inputs.push_back(operand(of, x));
    out.key = nb::cast<std::string>(described[1]);
    out.closure = described[2];
    out.open_rows = nb::cast<std::vector<int>>(described[3]);
    return out;
  }

  TracedFunction::FormedBody body(const nb::object& closure) const {
    return [this, &closure](const Outputs& in) {
      const nb::gil_scoped_acquire held;
      const CallGraph of{&eager_graph()};
      const nb::object arguments = to_python(of, in);
      const nb::object result = closure(*nb::cast<nb::tuple>(arguments));
      if (is_tensor(result)) return TracedFunction::Formed{{tensor_of(result).output()}, nullptr};
      const nb::object apart = take_apart_(result);
      TracedFunction::Formed formed;
      for (const nb::handle x : nb::cast<nb::list>(apart[0])) formed.results.push_back(operand(of, x));
      formed.form = std::make_shared<const HeldObject>(nb::object(apart[1]));
      return formed;
    };
  }

  std::shared_ptr<TracedFunction> traced_function() {
    if (!traced_) traced_ = std::make_shared<TracedFunction>(eager(), options_);
    return traced_;
  }

  const nb::object function_, describe_call_, take_apart_, put_together_;
  const FunctionOptions options_;
  std::shared_ptr<TracedFunction> traced_;  // made when it is first called: an import makes no eager mode
};

void AllFunctions::end() {
  const std::lock_guard lock(mutex_);
  for (PyTracedFunction* function : all_) function->end();
}

}  // namespace

void bind_functions(nb::module_& m) {
  nb::class_<PyTracedFunction>(m, "TracedFunction")
      .def(nb::init<nb::object, nb::object, nb::object, nb::object, const std::string&, bool, std::size_t>(),
           "function"_a, "describe_call"_a, "take_apart"_a, "put_together"_a, "name"_a, "reduce_retracing"_a,
           "max_traces"_a)
      .def("__call__", &PyTracedFunction::operator())
      .def("explain", &PyTracedFunction::explain)
      .def_prop_ro("traces", &PyTracedFunction::traces)
      .def_prop_ro("python_function", &PyTracedFunction::function);
}

}  // namespace troupe::python
