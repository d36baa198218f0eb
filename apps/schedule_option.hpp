// Parses the option --schedule of programs that train.
#pragma once

#include <string>
#include <string_view>

#include <troupe/graph/optimizers/schedules.hpp>

namespace troupe {

// A course and its parameters, like "cosine,steps=1000,end=1e-5,warmup=100", starting at `rate`:
//
//   constant
//   step,every=N[,factor=F]         exponential,factor=F[,every=N]
//   cosine,steps=N[,end=R]          polynomial,steps=N[,end=R][,power=P]
//   piecewise,N=R[,N=R]...          R from update N on
//
// each with optional [,warmup=N]. Throws invalid_argument naming what is wrong.
Schedule parse_schedule(std::string_view text, double rate);

}  // namespace troupe
