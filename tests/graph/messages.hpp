// The message of the Error that `f` throws.
#pragma once

#include <string>

#include <troupe/messages/error.hpp>

namespace troupe::testing {

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

}  // namespace troupe::testing
