// The web page of the introspector: one document of HTML that loads nothing but what it asks its server for,
// /snapshot, /why and /flight. Its parts are in page/, and are put together when Troupe is built.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace troupe {

// UTF-8. To be served as "text/html; charset=utf-8".
std::string_view introspection_page();

// With which it is to be served: it needs no more than it may do then.
inline const std::map<std::string, std::string> kIntrospectionHeaders = {
    {"Content-Security-Policy",
     "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"Cache-Control", "no-store"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"}};

}  // namespace troupe
