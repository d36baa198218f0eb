// Finds code that asks for an op by its name. Passes, placement and plans ask for traits (graph/op.hpp) instead; only
// an op's own family, the kernels and a few tables of patterns know names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe::repository {

// Comparisons with op names in the file at `path` (from the repository root) that are not allowed there, one line each:
// "graph/rewrite.cpp:12: ...". To make a node of a named op (.op = "Cast", add_op("Cast", ...)) is no comparison.
std::vector<std::string> op_name_violations(std::string_view path, std::string_view text,
                                            const std::vector<std::string>& ops);

}  // namespace troupe::repository
