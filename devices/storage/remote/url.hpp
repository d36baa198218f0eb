// Text of URLs (RFC 3986), and paths that may be URLs.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe {

// "https" of "https://host/x", "" of paths without a scheme. Schemes are lower-case letters and digits here.
std::string_view scheme_of(std::string_view path);
bool is_http(std::string_view path);  // http or https

// The bytes of the part that is above all folders: "/", "s3://bucket/", "https://host", "file:///"; 0 of a relative
// path.
std::size_t root_bytes(std::string_view path);

// A path as errors and pages show it: of a URL, without user, password, query and fragment, which may hold secrets.
// Other paths as they are.
std::string shown_path(std::string_view path);

// A text that may quote the path, or longer ones, such as an error: without the user and password of a URL.
std::string without_secrets(std::string text, std::string_view path);

// The path with a suffix behind its name: in a URL of http before the query.
std::string with_suffix(std::string_view path, std::string_view suffix);

// Replaces all bytes but letters, digits and "-._~" by %XX, as AWS's signatures want it; `keep_slashes`: and '/'.
std::string percent_encode(std::string_view text, bool keep_slashes = false);
// The reverse, of a query's value: '+' is a space. Throws data_loss for a '%' without two hexadecimal digits.
std::string percent_decode(std::string_view text);

}  // namespace troupe
