// How files are read over HTTP: deadlines, retries and sizes of requests.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

namespace troupe {

struct HttpOptions {
  std::string ca_bundle{};  // file of certificates (PEM) that TLS trusts; empty: the system's
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::seconds stall_timeout{30};  // fewer than 1 KiB/s for so long: the connection is given up
  int redirects = 5;                       // in a row, at most; never from https to http

  // Connections that fail or break, and the statuses 429, 500, 502, 503 and 504, are tried again: so many requests at
  // most, with waits in between that double, less up to half of each at random. A server's Retry-After lengthens a
  // wait, up to `longest_wait`.
  int attempts = 6;
  std::chrono::milliseconds first_wait{500}, longest_wait{30'000};
  std::function<void(std::chrono::milliseconds)> wait{};  // null: sleeps

  // Bytes of a request: the first is for a read at another place than where the last ended; each read that goes on
  // there asks for four times as much. An open file keeps one request's bytes.
  std::size_t first_request = 64 << 10, most_read_ahead = 8 << 20;
  // Reads that are longer go to their place directly, in requests of so many bytes at most.
  std::size_t most_request = 64 << 20;
  // Of a server that ignores Range, smaller files are read as a whole and kept in memory.
  std::size_t most_without_ranges = 16 << 20;
};

}  // namespace troupe
