// File systems by the scheme of a path: where users name files, they may lie elsewhere.
//
//   data.csv, /data/train.csv, file:///data/train.csv   this machine
//   https://host/train.csv, http://host/train.csv        a web server: read-only, without listing
//   s3://bucket/train.csv                                an object store of S3's interface: read-only
//
// Read when the first such path is used: CURL_CA_BUNDLE (a file of certificates that TLS trusts), and for s3://
// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION or AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3 or
// AWS_ENDPOINT_URL. Others' options: HttpFileSystem, S3FileSystem.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <troupe/devices/storage/file_system.hpp>

namespace troupe {

// The file system that takes this path, as it is. Lives as long as the process. Throws invalid_argument for an unknown
// scheme, and if the environment's variables do not fit each other.
FileSystem& file_system_of(std::string_view path);

// Of all the paths. Throws invalid_argument if there are none or they are of several file systems.
FileSystem& file_system_of(const std::vector<std::string>& paths);

}  // namespace troupe
