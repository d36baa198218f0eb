// The web page of the introspector: one document of HTML that loads nothing but what it asks its server for,
// /snapshot, /why and /flight. Its parts are in page/, and are put together when Troupe is built.
#pragma once

#include <string_view>

namespace troupe {

// UTF-8. To be served as "text/html; charset=utf-8" with the policy below.
std::string_view introspection_page();

// For the header Content-Security-Policy: the page needs no more.
inline constexpr std::string_view kIntrospectionPagePolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'";

}  // namespace troupe
