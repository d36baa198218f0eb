// The web page of troupe-serve: a single HTML document that loads data only from its own server, /snapshot and models'
// metadata. Its parts are in page/, and in actors/introspection/page; they are combined at build time.
#pragma once

#include <string_view>

namespace troupe {

// UTF-8. Serve as "text/html; charset=utf-8", with kIntrospectionHeaders (actors/introspection/page.hpp).
std::string_view serving_page();

}  // namespace troupe
