// The rules of ARCHITECTURE.md, "Folders and layers", as a check of one file's text:
//   apps, tools -> actors -> { scheduler, kernels } -> { graph, devices } -> messages
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe::repository {

// What the file at `path` (from the repository root, "graph/op.cpp") does against the rules, one line each:
// "graph/op.cpp:12: ...". The nine folders are checked; files elsewhere have no rules.
std::vector<std::string> violations(std::string_view path, std::string_view text);

}  // namespace troupe::repository
