// The eager mode of Python's tensors: one Eager on a task of its own, made when it is first needed and ended with the
// interpreter. Values outlive it, and can be read; ops on them then fail.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>

#include <troupe/graph/graph.hpp>

namespace troupe {
class Eager;
}  // namespace troupe

namespace troupe::python {

// Throws failed_precondition once the interpreter ends.
Graph& eager_graph();
// The same without making it: null if there is none.
Graph* eager_graph_if_any();
Eager& eager();

// Throws failed_precondition once the interpreter ends: for threads that would wait on.
void refuse_if_ended();

// What must end before the eager mode: called with it, without the interpreter's lock.
void at_end_of_eager(std::function<void()> end);

// Releases the interpreter's lock for an op that takes long. The eager mode does not end meanwhile.
class ReleasedForOp {
 public:
  ReleasedForOp();
  ReleasedForOp(const ReleasedForOp&) = delete;
  ReleasedForOp& operator=(const ReleasedForOp&) = delete;
  ~ReleasedForOp();

 private:
  PyThreadState* state_;
};

}  // namespace troupe::python
