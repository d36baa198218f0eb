// Loads libraries of ops of one's own (kernels/op_library.hpp; docs/guide/op-libraries.md).
#pragma once

#include <string>

#include <troupe/graph/loaded_ops.hpp>

namespace troupe {

// Loads a library into this process, for good. Its ops can be used in graphs, eager mode, tapes and functions of all
// tasks of the process, also of those that run already. The same file again gives the same library. Graphs name the
// libraries of their ops; other tasks that get a part of one must have loaded the same file. Thread-safe.
//
// Throws not_found if there is no such file; invalid_argument if it is no library of ops or cannot be opened;
// failed_precondition if it was built for another Troupe; already_exists if an op or a library of one of its names
// exists; otherwise what the library throws.
const LoadedOps& load_op_library(const std::string& path);

}  // namespace troupe
