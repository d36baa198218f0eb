#include "tests/fuzz/object_stores_fuzz.hpp"

#include <cstdio>
#include <cstdlib>

#include <troupe/devices/storage/remote/http_listing.hpp>
#include <troupe/devices/storage/remote/s3_answers.hpp>

namespace troupe {
namespace {

void promise_of_answers(bool kept, const char* what, const std::string& why) {
  if (kept) return;
  std::fprintf(stderr, "broken promise of a reader of answers of object stores: %s: %s\n", what, why.c_str());
  std::abort();
}

void check_refusal(std::string_view input) {
  const Error error = s3_refusal({.status = 403, .text = std::string(input)}, "us-east-1");
  promise_of_answers(!error.ok(), "a refusal is an error", error.to_string());
  promise_of_answers(error.message().size() < 2000, "errors are short", error.to_string());
  promise_of_answers(error.message().find('\n') == std::string::npos, "errors are one line", error.to_string());
}

// Returns how many entries it has.
std::size_t check_listing(std::string_view input) try {
  const std::vector<DirectoryEntry> entries = parse_http_listing(input);
  promise_of_answers(entries.size() <= input.size() / 8, "entries are in the answer", "");
  for (const DirectoryEntry& entry : entries) {
    const std::string& name = entry.name;
    const bool plain = !name.empty() && name.find_first_of("/?#") == name.npos && name != "." && name != "..";
    promise_of_answers(plain, "names are of entries", name);
  }
  return entries.size();
} catch (const Error& error) {
  promise_of_answers(error.code() == Code::data_loss, "damage is data_loss", error.to_string());
  return 0;
}

}  // namespace

std::size_t read_answer_of_stranger(std::string_view input) {
  check_refusal(input);
  const std::size_t listed = check_listing(input);
  S3Page page;
  try {
    page = parse_s3_page(input, "d/");
  } catch (const Error& error) {
    promise_of_answers(error.code() == Code::data_loss, "damage is data_loss", error.to_string());
    return listed;
  }
  promise_of_answers(page.entries.size() <= input.size() / 8, "entries are in the answer", "");
  for (const DirectoryEntry& entry : page.entries) {
    promise_of_answers(!entry.name.empty() && entry.name.find('/') == std::string::npos, "names are of entries",
                       entry.name);
    promise_of_answers(entry.name.size() < input.size(), "names are in the answer", entry.name);
  }
  return page.entries.size();
}

std::vector<std::string> object_store_seeds() {
  return {"<?xml version=\"1.0\"?><list><directory mtime=\"2024\">1</directory><file size=\"5\">a&amp;b</file></list>",
          "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3/\"><EncodingType>url</EncodingType>"
          "<Contents><Key>d/a%20b+c</Key><Size>1</Size></Contents><Contents><Key>d/</Key></Contents>"
          "<Contents><Key>d/2</Key></Contents><CommonPrefixes><Prefix>d/3/</Prefix></CommonPrefixes>"
          "<IsTruncated>true</IsTruncated><NextContinuationToken>next</NextContinuationToken></ListBucketResult>",
          "<ListBucketResult><Contents><Key>d/&lt;&#x20AC;&amp;</Key></Contents></ListBucketResult>",
          "<ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>",
          "<Error><Code>RequestTimeTooSkewed</Code><Message>said\n</Message><ServerTime>now</ServerTime></Error>"};
}

}  // namespace troupe
