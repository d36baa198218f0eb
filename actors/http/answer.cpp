// Statuses of errors.
#include <algorithm>
#include <array>

#include <troupe/actors/http/json_text.hpp>
#include <troupe/actors/http/server.hpp>

namespace troupe {
namespace {

struct StatusOfCode {
  Code code;
  int status;
};
constexpr std::array<StatusOfCode, 13> kStatuses = {{{Code::invalid_argument, 400},
                                                     {Code::out_of_range, 400},
                                                     {Code::unauthenticated, 401},
                                                     {Code::permission_denied, 403},
                                                     {Code::not_found, 404},
                                                     {Code::failed_precondition, 409},
                                                     {Code::already_exists, 409},
                                                     {Code::aborted, 409},
                                                     {Code::resource_exhausted, 429},
                                                     {Code::internal, 500},
                                                     {Code::unimplemented, 501},
                                                     {Code::unavailable, 503},
                                                     {Code::deadline_exceeded, 504}}};

}  // namespace

int http_status_of(Code code) {
  const auto found = std::ranges::find(kStatuses, code, &StatusOfCode::code);
  return found == kStatuses.end() ? 500 : found->status;
}

Code code_of_http_status(int status) {
  // The first of several codes for one status; 409 usually means a wrong state.
  const auto found = std::ranges::find(kStatuses, status, &StatusOfCode::status);
  return found == kStatuses.end() ? Code::internal : found->code;
}

HttpAnswer HttpAnswer::of(const Error& error) {
  return {http_status_of(error.code()), "application/json", json_text({{"error", error.message()}})};
}

}  // namespace troupe
