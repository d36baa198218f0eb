#include "troupe/actors/http/responses.hpp"

#include <microhttpd.h>

#include <memory>

namespace troupe {
namespace {

constexpr std::size_t kMovedBody = 64 << 10;  // bytes of an answer that is not copied

MHD_Response* with_headers(MHD_Response* response, const HttpAnswer& answer,
                           const std::map<std::string, std::string>& headers) {
  if (!response) return nullptr;
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer.type.c_str());
  for (const auto* all : {&headers, &answer.headers})
    for (const auto& [name, value] : *all) MHD_add_response_header(response, name.c_str(), value.c_str());
  return response;
}

MHD_Response* response_of(const std::string& body, MHD_ResponseMemoryMode mode) {
  return MHD_create_response_from_buffer(body.size(), const_cast<char*>(body.data()), mode);
}

}  // namespace

MHD_Response* make_response(HttpAnswer& answer, const std::map<std::string, std::string>& headers) {
  if (answer.body.size() < kMovedBody)
    return with_headers(response_of(answer.body, MHD_RESPMEM_MUST_COPY), answer, headers);
  auto body = std::make_unique<std::string>(std::move(answer.body));
  MHD_Response* const response = MHD_create_response_from_buffer_with_free_callback_cls(
      body->size(), body->data(), [](void* owned) { delete static_cast<std::string*>(owned); }, body.get());
  if (response) static_cast<void>(body.release());
  return with_headers(response, answer, headers);
}

MHD_Response* persistent_response(const HttpAnswer& answer, const std::map<std::string, std::string>& headers) {
  return with_headers(response_of(answer.body, MHD_RESPMEM_PERSISTENT), answer, headers);
}

}  // namespace troupe
