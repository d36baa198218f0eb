// File systems by the scheme of a path: where users name files, they may lie elsewhere.
//
//   data.csv, /data/train.csv, file:///data/train.csv   this machine
//   https://host/train.csv, http://host/train.csv        a web server: read-only, listed if the server does
//   s3://bucket/train.csv                                an object store of S3's interface: read-only
//
// Read when the first such path is used: CURL_CA_BUNDLE (a file of certificates that TLS trusts), and for s3://
// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION or AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3 or
// AWS_ENDPOINT_URL. Others' options: HttpFileSystem, S3FileSystem.
#pragma once

#include <string_view>

#include <troupe/devices/storage/file_system.hpp>

namespace troupe {

// Whether requests to other machines that fail for reasons that may pass are tried again, with growing waits; `once`:
// for callers that come again anyway, and must not be held up.
enum class RemoteAttempts { several, once };

// The file system that takes this path, as it is. Lives as long as the process. Throws invalid_argument for an unknown
// scheme, and if the environment's variables do not fit each other.
FileSystem& file_system_of(std::string_view path, RemoteAttempts attempts = RemoteAttempts::several);

// Takes all of these paths, each by its scheme: for paths that may lie in several places. rename() and exchange() of
// two places are unimplemented. Lives as long as the process.
FileSystem& all_file_systems();

}  // namespace troupe
