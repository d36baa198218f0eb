// The sources of the repository, for tests that read them.
#pragma once

#include <map>
#include <string>

namespace troupe::repository {

// Text by path from the repository root ("graph/op.cpp"). Not those of tests/consumer, a project of its own.
const std::map<std::string, std::string>& sources();

}  // namespace troupe::repository
