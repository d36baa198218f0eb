// All open connections of an HTTP server, and their deadlines. Cutting a connection is shutdown(): libmicrohttpd then
// sees end of file and closes it. A descriptor is listed here exactly while the library has it open. Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <unordered_map>

struct MHD_Connection;
struct sockaddr;

namespace troupe {

class Connections {
 public:
  using Clock = std::chrono::steady_clock;
  struct Limits {
    std::size_t all, of_address;
    std::chrono::milliseconds request, answer;  // deadlines
  };
  explicit Connections(const Limits& limits) : limits_(limits), idle_{limits.request, {}}, taking_{limits.answer, {}} {}

  // Beyond a limit, cuts the oldest that awaits a request, or else that takes an answer.
  void opened(MHD_Connection* connection, int fd, const std::string& address);
  void closed(MHD_Connection* connection);
  // The states of a connection: request complete, answer ready, answer sent.
  void asked(MHD_Connection* connection) { moves(connection, nullptr); }
  void answers(MHD_Connection* connection) { moves(connection, &taking_); }
  void answered(MHD_Connection* connection) { moves(connection, &idle_); }
  // Cuts connections past their deadline. Returns the next deadline.
  Clock::time_point cut_late();

 private:
  struct Line {
    std::chrono::milliseconds deadline;
    std::list<MHD_Connection*> connections;  // ordered by deadline
  };
  struct Open {
    int fd;
    std::string address;
    Line* line = nullptr;  // its list; null while a request is being handled
    std::list<MHD_Connection*>::iterator place;
    Clock::time_point until;
    bool is_cut = false;
  };
  void moves(MHD_Connection* connection, Line* line);
  static void put(MHD_Connection* connection, Open& open, Line* line);
  static void cut(Open& open);
  Clock::time_point cut_late(Line& line);
  void cut_oldest(const std::function<bool(const Open&)>& may);

  const Limits limits_;
  std::mutex mutex_;
  std::unordered_map<MHD_Connection*, Open> open_;
  std::unordered_map<std::string, std::size_t> by_address_;
  Line idle_, taking_;  // awaiting a request; taking an answer
};

// Raises the descriptor limit to the maximum allowed for this process: shells limit it to 1024.
void raise_descriptor_limit();
// Half of the descriptors: the rest are for authenticated peers and files.
std::size_t descriptors_for_connections();
// The address without the port, so that all ports of a caller count together.
std::string address_of(const sockaddr* address);

}  // namespace troupe
