// What object stores of S3's interface answer: pages of listings, and errors
// (docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html, .../ErrorResponses.html).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <troupe/devices/storage/file_system.hpp>
#include <troupe/devices/storage/remote/http_transport.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {

struct S3Page {
  std::vector<DirectoryEntry> entries{};  // names behind the prefix
  std::string next{};                     // the token that asks for the next page; "": this is the last
};

// Of keys that begin with `prefix`, by the delimiter '/'. Throws data_loss for what is no such page.
S3Page parse_s3_page(std::string_view xml, std::string_view prefix);

// What an answer of status 300 or more means, and what to do. `signed_for`: the region, "" if the request was
// anonymous.
Error s3_refusal(const RemoteAnswer& answer, const std::string& signed_for);

}  // namespace troupe
