// One question to a task from outside its cluster's links, for inspection tools: connects, both sides prove that they
// know the token, and the task answers. See WireHandler::asked().
//
//   question   u32 bytes, text        answer   u32 code, u32 bytes, text (of an error its message)     little endian
#pragma once

#include <string>

#include <troupe/actors/wire/connection.hpp>
#include <troupe/actors/wire/tls.hpp>

namespace troupe::wire {

inline constexpr std::size_t kMaxQuestion = 4096;
inline constexpr std::size_t kMaxAnswer = 64 << 20;

struct Asking {
  std::string host;
  std::uint16_t port = 0;
  std::string cluster, token;
  const TlsContext* tls = nullptr;  // null for no TLS
};

// Blocks until answered. Throws the error answered by the task, errors of Authentication::received(), unavailable
// (nobody listens, or the connection broke), deadline_exceeded (the task may not have joined its cluster yet).
std::string ask(const Asking& whom, const std::string& question, Clock::time_point deadline);

// The task's side of a question: consumes incoming bytes, provides bytes to send.
class Questioned {
 public:
  // Returns the number of bytes to read next; 0 once the question is complete. received() throws invalid_argument.
  std::size_t wants() const { return answered_ ? 0 : expected_ - in_.size(); }
  void received(std::string_view bytes);
  bool asked() const { return !answered_ && head_ && in_.size() == expected_; }
  const std::string& question() const { return in_; }
  void answer(const Error& error, const std::string& text);
  std::string_view to_send() const { return std::string_view(out_).substr(sent_); }
  void sent(std::size_t bytes) { sent_ += bytes; }
  bool done() const { return answered_ && sent_ == out_.size(); }

 private:
  std::string in_, out_;
  std::size_t expected_ = 4, sent_ = 0;
  bool head_ = false, answered_ = false;
};

}  // namespace troupe::wire
