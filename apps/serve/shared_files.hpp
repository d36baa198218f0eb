// Files of models, for servers on other machines (--share-models): a model's folder as web servers show one, so that it
// is a path of ServedModel there: http://HOST:8501/v1/models/NAME/files.
//
//   GET .../files/       a listing, in the XML of nginx's autoindex (devices/storage/remote/http_listing.hpp)
//   GET .../files/3/model.pb, Range: bytes=A-B
//
// A file has an ETag of its size and of when it was changed, and If-Match, If-None-Match and If-Range are kept (RFC
// 9110, 13): who reads it by ranges gets 412 once it has changed, instead of a part of another version. Files in object
// stores have none.
//
// Only what a listing shows can be read: no names that begin with '.', no symbolic links, nothing outside the folder. A
// model that is a file of ONNX is shown as a folder with 1.onnx.
#pragma once

#include <cstddef>
#include <string>

#include <troupe/actors/http/server.hpp>

namespace troupe {

// Bytes of a file in one answer: a longer range is answered by its beginning. Clients that read slowly hold so many.
inline constexpr std::size_t kMostSharedBytes = 1 << 20;

struct SharedFileRequest {
  std::string name{};  // of a file or folder of the model: "3/model.pb"; "": the model itself
  bool head = false;
  std::string range{}, if_match{}, if_none_match{}, if_range{};  // the headers; "": there is none
};

// Reads from the disk. `model_path`: ServedModel::path. Sizes are told by answers to ranges: HEAD of a file gets 405.
// Throws not_found, errors of the file system, invalid_argument for a long file that is asked for without a range,
// unavailable for a file that changes while it is read, and unimplemented for a model that this server itself reads
// from another.
HttpAnswer shared_file(const std::string& model_path, const SharedFileRequest& request);

}  // namespace troupe
