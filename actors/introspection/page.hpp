// The introspector's web page: a single HTML document that loads data only from its own server, /snapshot, /why and
// /flight. Its parts are in page/, combined at build time.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace troupe {

// UTF-8. Serve as "text/html; charset=utf-8".
std::string_view introspection_page();

// Headers for serving the page: they permit only what it needs.
inline const std::map<std::string, std::string> kIntrospectionHeaders = {
    {"Content-Security-Policy",
     "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"Cache-Control", "no-store"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"}};

}  // namespace troupe
