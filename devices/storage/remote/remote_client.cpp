#include "troupe/devices/storage/remote/remote_client.hpp"

#include <algorithm>
#include <random>
#include <thread>
#include <utility>

namespace troupe {
namespace {

bool is_passing_status(int status) {
  return status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

// Up to half less, at random: clients that failed together do not return together.
std::chrono::milliseconds jittered(std::chrono::milliseconds wait) {
  thread_local std::minstd_rand random{std::random_device{}()};
  return wait - std::chrono::milliseconds(std::uniform_int_distribution<std::int64_t>(0, wait.count() / 2)(random));
}

}  // namespace

Error PlainHttp::refusal(const RemoteAnswer& answer) const {
  switch (answer.status) {
    case 404:
    case 410:
      return {Code::not_found, fmt::format("there is no such file (HTTP status {})", answer.status)};
    case 401:
    case 403:
      return {
          Code::permission_denied,
          fmt::format("the server refuses it (HTTP status {}): ask for access, or for a URL with a signature that is "
                      "still valid",
                      answer.status)};
    default:
      if (is_passing_status(answer.status))
        return {Code::unavailable,
                fmt::format("HTTP status {}: the server cannot answer now; try later", answer.status)};
      return {Code::unavailable, fmt::format("HTTP status {}: check the URL", answer.status)};
  }
}

bool RemoteRetries::passing(const RemoteAnswer& answer) {
  if (answer.broken != RemoteAnswer::Broken::no) return answer.broken == RemoteAnswer::Broken::passing;
  return is_passing_status(answer.status);
}

bool RemoteRetries::again(const RemoteAnswer& answer) {
  if (attempts_ >= options_.attempts) return false;
  auto wait = options_.first_wait;
  for (int i = 1; i < attempts_ && wait < options_.longest_wait; ++i) wait *= 2;
  ++attempts_;
  wait = jittered(std::min(wait, options_.longest_wait));
  wait = std::max(wait, std::min<std::chrono::milliseconds>(answer.retry_after, options_.longest_wait));
  if (options_.wait)
    options_.wait(wait);
  else
    std::this_thread::sleep_for(wait);
  return true;
}

RemoteClient::RemoteClient(HttpOptions options, std::unique_ptr<const RemoteService> service)
    : options_(std::move(options)), service_(std::move(service)), transport_(options_) {}

RemoteAnswer RemoteClient::send_once(RemoteRequest request) {
  service_->prepare(request);
  return transport_.send(request);
}

RemoteAnswer RemoteClient::send(const RemoteRequest& request) {
  RemoteRetries retries(options_);
  while (true) {
    RemoteAnswer answer = send_once(request);
    if (RemoteRetries::passing(answer) && retries.again(answer)) continue;
    if (answer.broken != RemoteAnswer::Broken::no || RemoteRetries::passing(answer))
      refuse(request, answer, retries.attempts());
    return answer;
  }
}

void RemoteClient::refuse(const RemoteRequest& request, const RemoteAnswer& answer, int attempts) const {
  const std::string times = attempts > 1 ? fmt::format(", after {} attempts", attempts) : "";
  if (answer.broken != RemoteAnswer::Broken::no)
    fail(Code::unavailable, "cannot read '{}': {}{}", request.shown, answer.problem, times);
  if (answer.status < 300)
    fail(Code::unavailable, "cannot read '{}': HTTP status {} where a file was expected: check the address",
         request.shown, answer.status);
  const Error refusal = service_->refusal(answer);
  fail(refusal.code(), "cannot read '{}': {}{}", request.shown, refusal.message(), times);
}

}  // namespace troupe
