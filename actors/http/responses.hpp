// Answers as responses of libmicrohttpd; null if out of memory.
#pragma once

#include <map>
#include <string>

#include <troupe/actors/http/server.hpp>

struct MHD_Response;

namespace troupe {

// With these headers beside the answer's. Takes a body that is long rather than copy it.
MHD_Response* make_response(HttpAnswer& answer, const std::map<std::string, std::string>& headers);
// The answer must outlive the response.
MHD_Response* persistent_response(const HttpAnswer& answer, const std::map<std::string, std::string>& headers);

}  // namespace troupe
