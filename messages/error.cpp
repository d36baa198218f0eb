#include "troupe/messages/error.hpp"

#include <new>

namespace troupe {

std::string_view name(Code code) {
  switch (code) {
    case Code::ok:
      return "ok";
    case Code::cancelled:
      return "cancelled";
    case Code::unknown:
      return "unknown";
    case Code::invalid_argument:
      return "invalid_argument";
    case Code::deadline_exceeded:
      return "deadline_exceeded";
    case Code::not_found:
      return "not_found";
    case Code::already_exists:
      return "already_exists";
    case Code::permission_denied:
      return "permission_denied";
    case Code::resource_exhausted:
      return "resource_exhausted";
    case Code::failed_precondition:
      return "failed_precondition";
    case Code::aborted:
      return "aborted";
    case Code::out_of_range:
      return "out_of_range";
    case Code::unimplemented:
      return "unimplemented";
    case Code::internal:
      return "internal";
    case Code::unavailable:
      return "unavailable";
    case Code::data_loss:
      return "data_loss";
    case Code::unauthenticated:
      return "unauthenticated";
  }
  return "unknown";
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
