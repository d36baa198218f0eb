// Gradients in eager mode: GradientTape of C++ as a context of Python.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <thread>

#include "apps/python/indexed_slices.hpp"
#include "apps/python/operands.hpp"
#include <troupe/graph/gradients/tape.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

// The handle of a variable, or a value.
Output watched(nb::handle x, const char* function) {
  if (is_variable(x)) return nb::cast<const PyVariable&>(x).variable.handle;
  if (is_tensor(x)) return tensor_of(x).output();
  invalid_argument("{}: {} is neither a tensor nor a variable", function, nb::repr(x).c_str());
}

// A tape records from enter() to exit(), on one thread, and gives gradients then and later.
class PyTape {
 public:
  PyTape(bool persistent, bool watch_variables)
      : options_{.persistent = persistent, .watch_variables = watch_variables} {}
  PyTape(PyTape&&) = delete;
  ~PyTape() {
    // A tape that was never left is in the list of its thread: it stays there if this is another.
    if (entered_ && thread_ != std::this_thread::get_id()) (void)tape_.release();
  }

  void enter() {
    if (tape_) fail(Code::failed_precondition, "GradientTape: a tape is entered once; make another one");
    thread_ = std::this_thread::get_id();
    tape_ = std::make_unique<GradientTape>(options_);
    entered_ = true;
  }

  void exit() {
    if (!entered_) return;
    if (thread_ != std::this_thread::get_id())
      fail(Code::failed_precondition, "GradientTape: a tape is left on the thread that has entered it");
    const bool in_order = tape_->is_innermost();
    tape_->stop();
    tape_->leave();
    entered_ = false;
    if (!in_order)
      fail(Code::failed_precondition,
           "GradientTape: tapes are left in the reverse order; one that was entered later still records");
  }

  void watch(nb::handle x) { recording("watch").watch(watched(x, "GradientTape.watch")); }
  void pause() { recording("stop_recording").stop(); }
  void resume() { recording("stop_recording").resume(); }

  nb::list gradients(const std::vector<nb::object>& ys, const std::vector<nb::object>& xs,
                     const std::vector<nb::object>& grad_ys) {
    if (!tape_)
      fail(Code::failed_precondition, "GradientTape.gradient: the tape has recorded nothing: use it in `with`");
    if (entered_ && thread_ != std::this_thread::get_id())
      fail(Code::failed_precondition, "GradientTape.gradient: the tape still records, on another thread");
    if (busy_) fail(Code::failed_precondition, "GradientTape.gradient: another thread computes gradients of this tape");
    Outputs targets, sources;
    for (const nb::object& y : ys) targets.push_back(operand({&eager_graph()}, y));
    for (const nb::object& x : xs) sources.push_back(watched(x, "GradientTape.gradient"));
    GradientOptions options;
    for (const nb::object& dy : grad_ys) options.grad_ys.push_back(operand({&eager_graph()}, dy));
    busy_ = true;
    std::vector<Gradient> found;
    try {
      const ReleasedForOp released;
      found = tape_->gradients_by_kind(targets, sources, options);
    } catch (...) {
      busy_ = false;
      throw;
    }
    busy_ = false;
    nb::list out;
    for (std::size_t i = 0; i < found.size(); ++i) out.append(gradient_for(xs[i], found[i]));
    return out;
  }

 private:
  // That of rows of a variable stays sparse.
  static nb::object gradient_for(nb::handle x, const Gradient& gradient) {
    if (!gradient) return nb::none();
    if (gradient.is_dense()) return to_python({nullptr, gradient.dense});
    return nb::cast(PyIndexedSlices{tensor_of(to_python({nullptr, gradient.values})),
                                    tensor_of(to_python({nullptr, gradient.indices})),
                                    nb::cast<const PyVariable&>(x).variable.shape});
  }

  GradientTape& recording(const char* method) {
    if (!entered_)
      fail(Code::failed_precondition, "GradientTape.{}: the tape does not record: use it in `with`", method);
    if (thread_ != std::this_thread::get_id())
      fail(Code::failed_precondition, "GradientTape.{}: the tape records another thread", method);
    return *tape_;
  }

  const TapeOptions options_;
  std::unique_ptr<GradientTape> tape_;
  std::thread::id thread_;
  bool entered_ = false;
  bool busy_ = false;
};

}  // namespace

void bind_tapes(nb::module_& m) {
  nb::class_<PyTape>(m, "Tape")
      .def(nb::init<bool, bool>(), "persistent"_a, "watch_variables"_a)
      .def("enter", &PyTape::enter)
      .def("exit", &PyTape::exit)
      .def("watch", &PyTape::watch, "x"_a)
      .def("pause", &PyTape::pause)
      .def("resume", &PyTape::resume)
      .def("gradients", &PyTape::gradients, "ys"_a, "xs"_a, "grad_ys"_a);
}

}  // namespace troupe::python
