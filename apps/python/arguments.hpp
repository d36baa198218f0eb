// Axes, shapes and lists of integers, as Python's functions take them.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <vector>

#include "apps/python/operands.hpp"
#include <troupe/graph/builder/core.hpp>

namespace troupe::python {

// An int or a sequence of ints; None: none. Throws invalid_argument, naming the function.
std::optional<Integers> integers_of(nanobind::handle value, const char* function);
// The same as a shape; -1: to be found out.
Shape shape_from(nanobind::handle value, const char* function);
// Of an axis in [-rank, rank), that from the front. Throws out_of_range, naming the function.
std::int64_t axis_of(std::int64_t axis, int rank, const char* function);

}  // namespace troupe::python
