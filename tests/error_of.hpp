// The Error that a function throws; none if it returns.
#pragma once

#include <troupe/messages/error.hpp>

namespace troupe::testing {

template <class F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e;
  }
  return Error();
}

}  // namespace troupe::testing
