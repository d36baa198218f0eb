// The rules of docs/design/overview.md, "Folders and layers", as a check of one file's text:
//   apps, tools -> actors -> { scheduler, kernels } -> { graph, devices } -> messages
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::repository {

// What the file at `path` (from the repository root, "graph/op.cpp") does against the rules, one line each:
// "graph/op.cpp:12: ...". The nine folders are checked; files elsewhere have no rules.
std::vector<std::string> violations(std::string_view path, std::string_view text);

// Headers that include, directly or through others, a library that takes long to compile, and are not on the list of
// those that may. `files`: all of the repository, by path. Also names what is on the list and is no file.
std::vector<std::string> reach_violations(const std::map<std::string, std::string>& files);

}  // namespace troupe::repository
