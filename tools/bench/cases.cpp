#include "tools/bench/cases.hpp"

namespace troupe::bench {

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  add_dispatch_cases(cases);
  add_step_cases(cases);
  return cases;
}

}  // namespace troupe::bench
