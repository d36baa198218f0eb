#include "troupe/messages/error.hpp"

#include <array>
#include <new>

namespace troupe {

std::string_view name(Code code) {
  static constexpr std::array<std::string_view, 17> kNames = {
      "ok",        "cancelled",      "unknown",           "invalid_argument",   "deadline_exceeded",
      "not_found", "already_exists", "permission_denied", "resource_exhausted", "failed_precondition",
      "aborted",   "out_of_range",   "unimplemented",     "internal",           "unavailable",
      "data_loss", "unauthenticated"};
  const auto index = static_cast<std::size_t>(code);
  return index < kNames.size() ? kNames[index] : "unknown";
}

Error Error::within(std::string_view where) const { return Error(code_, fmt::format("{}: {}", where, message_)); }

std::string Error::to_string() const { return fmt::format("{}: {}", name(code_), message_); }

Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(Code::resource_exhausted, "out of memory");
  } catch (const std::exception& error) {
    return Error(Code::internal, error.what());
  } catch (...) {
    return Error(Code::internal, "exception of unknown type");
  }
}

}  // namespace troupe
