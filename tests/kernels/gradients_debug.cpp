// Cases of gradient_test.cpp.
#include "tests/kernels/gradient_cases.hpp"

namespace troupe::testing {

std::vector<GradientCase> debug_gradients() {
  return {{.name = "CheckNumerics", .shapes = {{3}}, .build = of([](auto& x) { return check_numerics(square(x[0])); })},
          {.name = "Print",
           .shapes = {{}},
           .build = of([](auto& x) { return print(square(x[0]), {}, {.message = "printed by a test"}); }),
           .prints = true}};
}

}  // namespace troupe::testing
