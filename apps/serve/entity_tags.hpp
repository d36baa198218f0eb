// Tags of versions of a file, in the headers of requests that are answered for one version alone (RFC 9110, 13.1).
#pragma once

#include <string_view>

namespace troupe {

// Whether a list, such as `"a", W/"b"` or `*`, has the tag, which is `"a"`, or "" of what has none: only `*` is any. By
// the strong comparison, as If-Match and If-Range want it, weak tags are no tag's.
bool has_entity_tag(std::string_view list, std::string_view tag);
// By the weak comparison, as If-None-Match wants it.
bool has_weak_entity_tag(std::string_view list, std::string_view tag);

}  // namespace troupe
