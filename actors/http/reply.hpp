// The answer that a handler of HttpServer owes to a request.
#pragma once

#include <functional>
#include <memory>

namespace troupe {

struct HttpAnswer;

// Movable. Several threads may call send() and on_gone(): the first answer counts. Dropped unanswered, it answers 500.
// May outlive the server, which answers 503 in its place.
class HttpReply {
 public:
  struct State;
  explicit HttpReply(std::shared_ptr<State> state) : state_(std::move(state)) {}
  HttpReply(HttpReply&&) noexcept = default;
  HttpReply& operator=(HttpReply&& other) noexcept;
  ~HttpReply() { drop(); }

  // Within the handler the answer is sent by the connection's thread as soon as it returns.
  void send(HttpAnswer answer);
  // Calls `gone` at most once, on any thread, if the client closes the connection, or the server ends, before an answer
  // was sent. `gone` must be short; it is dropped with the answer.
  void on_gone(std::function<void()> gone);

 private:
  void drop();
  std::shared_ptr<State> state_;
};

}  // namespace troupe
