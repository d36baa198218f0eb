#include "troupe/actors/http/connections.hpp"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace troupe {

void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::size_t descriptors_for_connections() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<std::size_t>(limit.rlim_cur / 2) : 512;
}

std::string address_of(const sockaddr* address) {
  if (!address) return {};
  if (address->sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
    return {reinterpret_cast<const char*>(&v4), sizeof v4};
  }
  if (address->sa_family != AF_INET6) return {};
  const auto& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return {reinterpret_cast<const char*>(&v6), 8};  // one host may own all addresses with this prefix
}

void Connections::opened(MHD_Connection* connection, int fd, const std::string& address) {
  const std::lock_guard lock(mutex_);
  Open& open = open_.emplace(connection, Open{.fd = fd, .address = address}).first->second;
  put(connection, open, &idle_);
  const std::size_t of_address = ++by_address_[address];
  if (of_address > limits_.of_address)
    cut_oldest([&](const Open& other) { return other.address == address && &other != &open; });
  else if (open_.size() > limits_.all)
    cut_oldest([&](const Open& other) { return &other != &open; });
}

void Connections::closed(MHD_Connection* connection) {
  const std::lock_guard lock(mutex_);
  const auto it = open_.find(connection);
  if (it == open_.end()) return;
  put(connection, it->second, nullptr);
  if (const auto count = by_address_.find(it->second.address); --count->second == 0) by_address_.erase(count);
  open_.erase(it);
}

Connections::Clock::time_point Connections::cut_late() {
  const std::lock_guard lock(mutex_);
  return std::min(cut_late(idle_), cut_late(taking_));
}

void Connections::moves(MHD_Connection* connection, Line* line) {
  const std::lock_guard lock(mutex_);
  if (const auto it = open_.find(connection); it != open_.end() && it->second.line != line)
    put(connection, it->second, line);
}

void Connections::put(MHD_Connection* connection, Open& open, Line* line) {
  if (open.line) open.line->connections.erase(open.place);
  open.line = line;
  if (!line) return;
  open.place = line->connections.insert(line->connections.end(), connection);
  open.until = Clock::now() + line->deadline;
}

void Connections::cut(Open& open) {
  if (std::exchange(open.is_cut, true)) return;
  ::shutdown(open.fd, SHUT_RDWR);
}

Connections::Clock::time_point Connections::cut_late(Line& line) {
  const auto now = Clock::now();
  for (MHD_Connection* connection : line.connections) {
    Open& open = open_.at(connection);
    if (open.until > now) return open.until;
    cut(open);
  }
  return now + line.deadline;
}

void Connections::cut_oldest(const std::function<bool(const Open&)>& may) {
  for (const Line* line : {&idle_, &taking_})
    for (MHD_Connection* connection : line->connections) {
      Open& open = open_.at(connection);
      if (open.is_cut || !may(open)) continue;
      return cut(open);
    }
}

}  // namespace troupe
