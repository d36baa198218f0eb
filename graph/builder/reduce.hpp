// Builder API for reductions. Axes may be negative; without axes, all are reduced. Results are of x's dtype where the
// comment names no other.
#pragma once

#include <troupe/graph/builder/core.hpp>

namespace troupe {

using Axes = IntegersArg;  // none: all axes

struct ReduceOptions {
  bool keep_dims = false;  // reduced dimensions stay, as 1
  Name name{};
};

// Integers: sums and products wrap, means round towards zero. Without elements: sum 0, mean NaN, product 1.
Output sum(Output x, Axes axes = {}, ReduceOptions options = {});
Output mean(Output x, Axes axes = {}, ReduceOptions options = {});
Output max(Output x, Axes axes = {}, ReduceOptions options = {});  // NaN if there is one
Output min(Output x, Axes axes = {}, ReduceOptions options = {});
Output prod(Output x, Axes axes = {}, ReduceOptions options = {});
// Of bool.
Output reduce_all(Output x, Axes axes = {}, ReduceOptions options = {});
Output reduce_any(Output x, Axes axes = {}, ReduceOptions options = {});

Output reduce_l1(Output x, Axes axes = {}, ReduceOptions options = {});      // sum |x|
Output reduce_l2(Output x, Axes axes = {}, ReduceOptions options = {});      // sqrt(sum x^2), with gradient 0 at 0
Output sum_square(Output x, Axes axes = {}, ReduceOptions options = {});     // sum x^2
Output log_sum(Output x, Axes axes = {}, ReduceOptions options = {});        // log(sum x)
Output log_sum_exp(Output x, Axes axes = {}, ReduceOptions options = {});    // log(sum exp(x)), without overflow
Output count_nonzero(Output x, Axes axes = {}, ReduceOptions options = {});  // i64, of any dtype but string
// The mean of (x - mean)^2, and its root.
Output variance(Output x, Axes axes = {}, ReduceOptions options = {});
Output standard_deviation(Output x, Axes axes = {}, ReduceOptions options = {});
struct Moments {
  Output mean{};
  Output variance{};
};
Moments moments(Output x, Axes axes = {}, ReduceOptions options = {});

struct ArgOptions {
  bool select_last_index = false;  // of several, the last; else the first
  Name name{};
};
// Index (i64) of the greatest or least element along an axis; NaN counts as it. The axis is one number or scalar.
Output arg_max(Output x, IntegersArg axis, ArgOptions options = {});
Output arg_min(Output x, IntegersArg axis, ArgOptions options = {});

Output l2_loss(Output x, Name name = {});  // sum(x^2) / 2

}  // namespace troupe
