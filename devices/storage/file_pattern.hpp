// Files by pattern.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <troupe/devices/storage/file_system.hpp>

namespace troupe {

// Whether the name matches: '*' stands for any bytes, '?' for one, others for themselves.
bool matches_pattern(std::string_view name, std::string_view pattern);

// The files whose paths match, sorted. '*' and '?' do not stand for '/'; without any of them it is the file itself.
// In URLs of http, which begins a query with '?', only the file itself is found; '*' is unimplemented. Schemes, hosts
// and buckets are no patterns. Throws not_found, naming the pattern, if there are none, and what FileSystem throws.
std::vector<std::string> files_matching(FileSystem& files, const std::string& pattern);

}  // namespace troupe
