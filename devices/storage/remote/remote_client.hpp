// Requests for files that are tried again, and answers that become errors.
#pragma once

#include <memory>
#include <string>

#include <troupe/devices/storage/remote/http_transport.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {

// What a kind of server wants. Thread-safe.
class RemoteService {
 public:
  virtual ~RemoteService() = default;
  // Completes a request before each attempt: signs it.
  virtual void prepare(RemoteRequest& request) const = 0;
  // What an answer of status 300 or more means, and what to do: the message behind the file's name.
  virtual Error refusal(const RemoteAnswer& answer) const = 0;
};

// Files that anyone, or anyone who knows a secret in the URL, may read.
class PlainHttp final : public RemoteService {
 public:
  void prepare(RemoteRequest&) const override {}
  Error refusal(const RemoteAnswer& answer) const override;
};

// Attempts at one thing that failed for reasons that may pass.
class RemoteRetries {
 public:
  explicit RemoteRetries(const HttpOptions& options) : options_(options) {}
  // Whether another attempt may succeed.
  static bool passing(const RemoteAnswer& answer);
  // Waits before the next attempt; false, at once, if there were enough.
  bool again(const RemoteAnswer& answer);
  int attempts() const { return attempts_; }

 private:
  const HttpOptions& options_;
  int attempts_ = 1;
};

// Thread-safe.
class RemoteClient {
 public:
  RemoteClient(HttpOptions options, std::unique_ptr<const RemoteService> service);

  // One attempt.
  RemoteAnswer send_once(RemoteRequest request);
  // As many as HttpOptions allow: returns any answer that will not pass. Throws unavailable if none came.
  RemoteAnswer send(const RemoteRequest& request);
  // Throws what an answer with another status than the wanted means, naming the file.
  [[noreturn]] void refuse(const RemoteRequest& request, const RemoteAnswer& answer, int attempts = 1) const;

  const HttpOptions& options() const { return options_; }

 private:
  const HttpOptions options_;
  const std::unique_ptr<const RemoteService> service_;
  HttpTransport transport_;
};

}  // namespace troupe
