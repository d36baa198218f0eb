// Listings of folders that web servers give: the XML of nginx's autoindex
// (nginx.org/en/docs/http/ngx_http_autoindex_module.html), which troupe-serve --share-models writes, too.
//
//   <list><directory mtime="...">variables</directory><file mtime="..." size="5">model.pb</file></list>
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/devices/storage/file_system.hpp>

namespace troupe {

// Sorted; names as they stand in URLs ("a%20b"). Throws data_loss for what is no such listing.
std::vector<DirectoryEntry> parse_http_listing(std::string_view xml);
// Of names that need no encoding for XML but for '&', '<' and '>': those without control characters.
std::string print_http_listing(std::span<const DirectoryEntry> entries);

}  // namespace troupe
