#include "troupe/devices/storage/remote/s3_answers.hpp"

#include <map>
#include <utility>

#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/devices/storage/remote/xml.hpp>

namespace troupe {
namespace {

constexpr std::size_t kMostShown = 300;  // bytes of a server's own words

// Text of a server for an error: short, of one line.
std::string said_by_server(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kMostShown)) out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  return out;
}

// The elements of an error's XML: "Code", "Message", "Region" ... Empty if it is none.
std::map<std::string, std::string, std::less<>> error_elements(std::string_view xml) {
  std::map<std::string, std::string, std::less<>> out;
  constexpr std::string_view kRoot = "Error/";
  try {
    read_xml(xml, [&](std::string_view path, const std::string& text) {
      if (path.starts_with(kRoot)) out.emplace(path.substr(kRoot.size()), said_by_server(text));
    });
  } catch (const Error&) {  // a page of a proxy, or cut
    out.clear();
  }
  return out;
}

}  // namespace

S3Page parse_s3_page(std::string_view xml, std::string_view prefix) {
  S3Page page;
  bool encoded = false, truncated = false, is_listing = false;
  std::vector<std::pair<std::string, bool>> keys;  // and whether it is a folder
  read_xml(xml, [&](std::string_view path, const std::string& text) {
    constexpr std::string_view kRoot = "ListBucketResult/";
    if (!path.starts_with(kRoot)) return;
    is_listing = true;
    const std::string_view name = path.substr(kRoot.size());
    if (name == "Contents/Key")
      keys.emplace_back(text, false);
    else if (name == "CommonPrefixes/Prefix")
      keys.emplace_back(text, true);
    else if (name == "EncodingType")
      encoded = text == "url";
    else if (name == "IsTruncated")
      truncated = text == "true";
    else if (name == "NextContinuationToken")
      page.next = text;
  });
  if (!is_listing) fail(Code::data_loss, "XML: expected a ListBucketResult");
  if (truncated && page.next.empty()) fail(Code::data_loss, "XML: expected a NextContinuationToken: more keys follow");
  if (!truncated) page.next.clear();
  for (auto& [text, is_folder] : keys) {
    const std::string key = encoded ? percent_decode(text) : std::move(text);
    if (!key.starts_with(prefix)) fail(Code::data_loss, "key '{}' does not begin with '{}'", key, prefix);
    std::string_view name = std::string_view(key).substr(prefix.size());
    if (is_folder && name.ends_with('/')) name.remove_suffix(1);
    // Nameless is the object "folder/" with which some programs make a folder, and what lies behind "//".
    if (!name.empty() && name.find('/') == name.npos) page.entries.push_back({std::string(name), is_folder});
  }
  return page;
}

Error s3_refusal(const RemoteAnswer& answer, const std::string& signed_for) {
  auto elements = error_elements(answer.text);
  const std::string code = elements["Code"], message = elements["Message"];
  std::string region = elements["Region"];
  if (region.empty()) region = said_by_server(answer.header("x-amz-bucket-region"));
  std::string said = code.empty() ? "" : fmt::format(", {}: {}", code, message);
  said = fmt::format(" (HTTP status {}{})", answer.status, said);
  const auto refused = [&](const std::string& why) { return Error(Code::permission_denied, why + said); };

  if (code == "RequestTimeTooSkewed")
    return refused(
        fmt::format("the clock of this machine differs too much from the server's: it is {} there; set the "
                    "clock, or let it be set (NTP)",
                    elements["ServerTime"]));
  if (answer.status == 301 || answer.status == 307 || code == "AuthorizationHeaderMalformed" ||
      code == "PermanentRedirect" || (code == "IllegalLocationConstraintException"))
    return {Code::failed_precondition,
            region.empty() ? "the bucket is at another endpoint: set AWS_REGION to its region" + said
                           : fmt::format("the bucket is in region {}: set AWS_REGION={}{}", region, region, said)};
  if (code == "NoSuchBucket") return {Code::not_found, "there is no such bucket" + said};
  if (answer.status == 404) return {Code::not_found, "there is no such object" + said};
  if (code == "SignatureDoesNotMatch") return refused("AWS_SECRET_ACCESS_KEY is not the secret of AWS_ACCESS_KEY_ID");
  if (code == "InvalidAccessKeyId") return refused("the server does not know AWS_ACCESS_KEY_ID");
  if (code == "ExpiredToken" || code == "InvalidToken" || code == "TokenRefreshRequired")
    return refused("AWS_SESSION_TOKEN is not valid any more: get new credentials");
  if (answer.status == 401 || answer.status == 403)
    return refused(signed_for.empty()
                       ? "the server refuses anonymous access: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                       : "these credentials may not read it, or there is no such object and they may not list the "
                         "bucket: ask for the rights s3:GetObject and s3:ListBucket");
  return {Code::unavailable, "the server cannot answer: see its status, and try later" + said};
}

}  // namespace troupe
