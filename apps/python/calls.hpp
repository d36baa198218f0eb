// Python's functions in C++'s hands: threads without the interpreter's lock copy them, call them and let go of them.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

#include <troupe/messages/error.hpp>

namespace troupe::python {

// A Python object that any thread may let go of.
class HeldObject {
 public:
  HeldObject() = default;
  explicit HeldObject(nanobind::object object) : held_(std::make_shared<Held>(std::move(object))) {}
  // For threads that have the interpreter's lock.
  nanobind::handle get() const { return held_->object; }

 private:
  struct Held {
    explicit Held(nanobind::object given) : object(std::move(given)) {}
    ~Held() {
      if (!Py_IsInitialized()) {
        (void)object.release();  // the interpreter has ended
        return;
      }
      const nanobind::gil_scoped_acquire held;
      object.reset();
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    nanobind::object object;
  };
  std::shared_ptr<const Held> held_;
};

// "ValueError: no such word (words.py:12)": the error of a Python function, as one of ours. The caller has the lock.
Error error_of_python(nanobind::python_error& error);

// Calls what uses Python, with the interpreter's lock. Python's exceptions become Errors.
template <class Function>
auto with_python(Function&& function) {
  if (!Py_IsInitialized()) fail(Code::cancelled, "the Python interpreter has ended");
  const nanobind::gil_scoped_acquire held;
  try {
    return std::forward<Function>(function)();
  } catch (nanobind::python_error& error) {
    throw error_of_python(error);
  }
}

}  // namespace troupe::python
