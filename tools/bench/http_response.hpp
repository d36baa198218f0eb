// Reads responses of HTTP/1.1 from one connection, as they arrive: a status, headers, and a body of a stated length.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe::bench {

class HttpResponse {
 public:
  static constexpr std::size_t kMostHead = 16 << 10, kMostBody = 64 << 20;

  // Adds bytes; returns whether the response is complete. Throws data_loss, saying what is wrong, for what is no
  // response, has no Content-Length, is above the limits, or goes on behind its end.
  bool take(std::string_view bytes);
  // Of a complete response.
  int status() const { return status_; }
  std::string_view body() const { return std::string_view(bytes_).substr(head_); }
  // Begins the next response; keeps the memory.
  void clear();

 private:
  void read_head();

  std::string bytes_;
  std::size_t head_ = 0;  // its bytes; 0: not complete yet
  std::size_t length_ = 0;
  int status_ = 0;
};

}  // namespace troupe::bench
