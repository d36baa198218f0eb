// Errors. In the synchronous API misuse throws troupe::Error; across actors and the wire the same object travels as a
// value (Code::ok means "no error"). A message says what is wrong, where, and what to do:
//   MatMul 'dense/matmul': inner dimensions differ: [32,784] x [128,10]
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace troupe {

// The canonical codes of gRPC, with its numbers.
enum class Code : std::uint8_t {
  ok = 0,
  cancelled = 1,
  unknown = 2,
  invalid_argument = 3,
  deadline_exceeded = 4,
  not_found = 5,
  already_exists = 6,
  permission_denied = 7,
  resource_exhausted = 8,
  failed_precondition = 9,
  aborted = 10,
  out_of_range = 11,
  unimplemented = 12,
  internal = 13,
  unavailable = 14,
  data_loss = 15,
  unauthenticated = 16,
};

std::string_view name(Code code);

class Error : public std::exception {
 public:
  Error() = default;  // Code::ok
  Error(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  bool ok() const { return code_ == Code::ok; }
  explicit operator bool() const { return !ok(); }  // true: there is an error
  const char* what() const noexcept override { return message_.c_str(); }

  // The same error with its message prefixed by "where: ".
  Error within(std::string_view where) const;
  // "invalid_argument: message"
  std::string to_string() const;

 private:
  Code code_ = Code::ok;
  std::string message_;
};

// The Error in flight: call inside a catch block. Other exception types become Code::internal, allocation failures
// Code::resource_exhausted.
Error current_error();

template <class... Args>
[[noreturn]] void fail(Code code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
[[noreturn]] void invalid_argument(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(Code::invalid_argument, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace troupe
