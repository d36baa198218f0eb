// One request of an HTTP server and its answer, between libmicrohttpd's threads and those that answer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include <troupe/actors/http/hangups.hpp>
#include <troupe/actors/http/memory_budget.hpp>
#include <troupe/actors/http/server.hpp>

struct MHD_Connection;

namespace troupe {

// Lives until the last reply to it is gone.
struct HttpReply::State {
  std::mutex mutex;  // guards all
  std::optional<HttpAnswer> answer;
  bool dropped = false;                 // the answer says so
  bool taken = false;                   // the answer has been sent, or the connection is gone
  MHD_Connection* suspended = nullptr;  // resumed by the answer
  int fd = -1;                          // of the connection, while no answer is there
  Hangups* hangups = nullptr;           // as long as no answer is there
  std::uint64_t watched = 0;            // of `hangups`
  std::function<void()> gone;

  // True: it is the first. Resumes the connection.
  bool give(HttpAnswer&& given);
  // Calls `gone`.
  void cut();
};

// One request, from its first line until its answer has been sent.
struct HttpExchange {
  HttpRequest request;
  MemoryBudget::Share memory;
  std::size_t announced = 0;                // bytes of the body
  std::optional<HttpAnswer> refusal;        // the body is not kept
  std::size_t unwanted = 0;                 // bytes of it that were read since
  std::shared_ptr<HttpReply::State> reply;  // once the request is complete
};

}  // namespace troupe
