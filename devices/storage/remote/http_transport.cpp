#include "troupe/devices/storage/remote/http_transport.hpp"

#include <curl/curl.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/messages/error.hpp>
#include <troupe/messages/no_broken_pipe.hpp>

namespace troupe {
namespace {

constexpr std::size_t kMostHeaderBytes = 64 << 10;  // of an answer, with those of redirects
constexpr std::size_t kMostKept = 32;               // connections that nobody uses
constexpr long kStallBytes = 1024;                  // per second

using CurlHandle = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;
using CurlList = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;

struct Transfer {
  const RemoteRequest& request;
  RemoteAnswer& answer;
  CURL* curl;
  std::size_t header_bytes = 0;
  bool too_many_headers = false;
  bool in_headers = true;  // the empty line behind them has not come
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlank);
  return begin == text.npos ? std::string_view() : text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

// Called by libcurl with each line of headers; another result than `size * count` ends the transfer.
std::size_t take_header(char* data, std::size_t size, std::size_t count, void* to) noexcept {
  auto& transfer = *static_cast<Transfer*>(to);
  const std::string_view line(data, size * count);
  transfer.header_bytes += line.size();
  transfer.too_many_headers = transfer.header_bytes > kMostHeaderBytes;
  if (transfer.too_many_headers) return 0;
  try {
    if (line.starts_with("HTTP/")) transfer.answer.headers.clear();  // those of the answer before: a redirect
    transfer.in_headers = !trimmed(line).empty();
    const std::size_t colon = line.find(':');
    if (colon == line.npos) return line.size();
    std::string name(trimmed(line.substr(0, colon)));
    for (char& c : name)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    transfer.answer.headers[std::move(name)] = trimmed(line.substr(colon + 1));
    return line.size();
  } catch (...) {  // no memory
    return 0;
  }
}

// Called by libcurl with parts of the body.
std::size_t take_body(char* data, std::size_t size, std::size_t count, void* to) noexcept {
  auto& transfer = *static_cast<Transfer*>(to);
  RemoteAnswer& answer = transfer.answer;
  const std::size_t bytes = size * count;
  long status = 0;
  curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &status);
  const std::size_t room =
      status == 206 ? transfer.request.out.size() - answer.received : transfer.request.most_text - answer.text.size();
  const std::size_t taken = std::min(room, bytes);
  answer.too_long = taken < bytes;
  if (status == 206) {
    if (taken > 0) std::memcpy(transfer.request.out.data() + answer.received, data, taken);
    answer.received += taken;
    return answer.too_long ? 0 : bytes;
  }
  try {
    answer.text.append(data, taken);
  } catch (...) {  // no memory
    return 0;
  }
  return answer.too_long ? 0 : bytes;
}

RemoteAnswer::Broken kind_of(CURLcode code) {
  switch (code) {
    case CURLE_OK:
      return RemoteAnswer::Broken::no;
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return RemoteAnswer::Broken::passing;
    default:
      return RemoteAnswer::Broken::lasting;
  }
}

// Why a transfer failed, and what to do.
std::string problem_of(CURLcode code, const char* text, const Transfer& transfer, const HttpOptions& options) {
  if (transfer.too_many_headers) return fmt::format("its answer has more than {} bytes of headers", kMostHeaderBytes);
  const std::string said = *text != '\0' ? text : curl_easy_strerror(code);
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
      return fmt::format("TLS cannot verify the server: {}; name the authority's certificates in CURL_CA_BUNDLE", said);
    case CURLE_SSL_CACERT_BADFILE:
      return fmt::format("cannot read certificates from '{}': {}; correct CURL_CA_BUNDLE", options.ca_bundle, said);
    case CURLE_TOO_MANY_REDIRECTS:
      return fmt::format("it redirects more than {} times", options.redirects);
    case CURLE_UNSUPPORTED_PROTOCOL:
      if (transfer.answer.headers.contains("location"))
        return "it redirects from https to another protocol, which is refused: use the address that it redirects to";
      return said;
    case CURLE_OPERATION_TIMEDOUT:
      return fmt::format("{} (deadlines: {} ms for a connection, {} s with less than {} bytes/s)", said,
                         options.connect_timeout.count(), options.stall_timeout.count(), kStallBytes);
    default:
      return said;
  }
}

CurlList list_of(const std::vector<std::string>& headers) {
  CurlList out(nullptr, &curl_slist_free_all);
  for (const std::string& header : headers) {
    curl_slist* const longer = curl_slist_append(out.get(), header.c_str());
    if (!longer) fail(Code::resource_exhausted, "libcurl: out of memory");
    (void)out.release();
    out.reset(longer);
  }
  return out;
}

void set_options(CURL* curl, const RemoteRequest& request, const HttpOptions& options) {
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);  // as it was signed
  curl_easy_setopt(curl, CURLOPT_NOBODY, request.head ? 1L : 0L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "troupe/" TROUPE_VERSION);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  const bool tls = scheme_of(request.url) == "https";
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, tls ? "https" : "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, request.follow_redirects ? 1L : 0L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, static_cast<long>(options.redirects));
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
  curl_easy_setopt(curl, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  if (!options.ca_bundle.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, options.ca_bundle.c_str());
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connect_timeout.count()));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, kStallBytes);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(options.stall_timeout.count()));
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 256L << 10);
}

}  // namespace

// Handles of libcurl that no thread uses; each keeps its connection.
class HttpTransport::Connections {
 public:
  CurlHandle take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        CurlHandle out = std::move(free_.back());
        free_.pop_back();
        return out;
      }
    }
    CurlHandle out(curl_easy_init(), &curl_easy_cleanup);
    if (!out) fail(Code::resource_exhausted, "libcurl: no handle: out of memory");
    return out;
  }
  void give_back(CurlHandle handle) {
    curl_easy_reset(handle.get());
    const std::lock_guard lock(mutex_);
    if (free_.size() < kMostKept) free_.push_back(std::move(handle));
  }

 private:
  std::mutex mutex_;
  std::vector<CurlHandle> free_;
};

HttpTransport::HttpTransport(const HttpOptions& options) : options_(options) {
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (initialised != CURLE_OK) fail(Code::internal, "libcurl: {}", curl_easy_strerror(initialised));
  connections_ = std::make_unique<Connections>();
}
HttpTransport::~HttpTransport() = default;

RemoteAnswer HttpTransport::send(const RemoteRequest& request) {
  RemoteAnswer answer;
  CurlHandle curl = connections_->take();
  const CurlList headers = list_of(request.headers);
  Transfer transfer{request, answer, curl.get()};
  char text[CURL_ERROR_SIZE] = "";
  set_options(curl.get(), request, options_);
  curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl.get(), CURLOPT_HEADERFUNCTION, &take_header);
  curl_easy_setopt(curl.get(), CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, &take_body);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl.get(), CURLOPT_ERRORBUFFER, text);

  CURLcode code;
  {
    const NoBrokenPipe guard;
    code = curl_easy_perform(curl.get());
  }
  long status = 0;
  curl_off_t retry_after = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(curl.get(), CURLINFO_RETRY_AFTER, &retry_after);
  answer.status = static_cast<int>(status);
  answer.retry_after = std::chrono::seconds(std::clamp<curl_off_t>(retry_after, 0, 24 * 3600));
  if (code == CURLE_OK && transfer.in_headers) {  // libcurl takes what came for the whole
    answer.broken = RemoteAnswer::Broken::passing;
    answer.problem = "the connection ended within the headers";
  } else if (code != CURLE_OK && !answer.too_long) {  // else it was ended on purpose
    answer.broken = kind_of(code);
    answer.problem = problem_of(code, text, transfer, options_);
  }
  if (transfer.in_headers) answer.status = 0;  // the last header may be cut
  connections_->give_back(std::move(curl));
  return answer;
}

}  // namespace troupe
