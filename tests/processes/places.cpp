#include "tests/processes/places.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <random>

#include <troupe/messages/error.hpp>

namespace troupe::testing {
namespace {

bool ip(const std::string& arguments) { return std::system(("ip " + arguments + " 2>/dev/null").c_str()) == 0; }

}  // namespace

std::vector<int> free_ports(int count) {
  // Below those that the system gives to connections: these could take one before it is used.
  constexpr std::uint32_t kFirstPort = 10'000, kPorts = 22'000;
  constexpr int kAttempts = 100;
  std::random_device random;
  std::vector<int> sockets, ports;
  bool bound = true;
  for (int i = 0; i < count; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bool free = false;
    for (int attempt = 0; attempt < kAttempts && !free; ++attempt) {
      address.sin_port = htons(static_cast<std::uint16_t>(kFirstPort + random() % kPorts));
      free = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    }
    bound = bound && free;
    sockets.push_back(fd);
    ports.push_back(ntohs(address.sin_port));
  }
  for (const int fd : sockets) close(fd);
  if (!bound) fail(Code::resource_exhausted, "no {} free ports on 127.0.0.1: {}", count, std::strerror(errno));
  return ports;
}

TwoNetworks::TwoNetworks() {
  possible_ = ip("netns add " + name(0)) && ip("netns add " + name(1)) &&
              ip("link add v0 netns " + name(0) + " type veth peer name v1 netns " + name(1)) && configure(0) &&
              configure(1);
}

TwoNetworks::~TwoNetworks() {
  for (const int side : {0, 1}) ip("netns del " + name(side));
}

std::string TwoNetworks::address(int side) { return fmt::format("10.78.0.{}", side + 1); }

std::vector<std::string> TwoNetworks::in(int side, const std::vector<std::string>& command) const {
  std::vector<std::string> all = {"/usr/bin/env", "ip", "netns", "exec", name(side)};
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

bool TwoNetworks::cut() { return ip(fmt::format("-n {} link set v1 down", name(1))); }
bool TwoNetworks::heal() { return ip(fmt::format("-n {} link set v1 up", name(1))); }

std::string TwoNetworks::name(int side) const { return fmt::format("troupe-test-{}-{}", getpid(), side); }

bool TwoNetworks::configure(int side) {
  const std::string there = "-n " + name(side);
  return ip(fmt::format("{} link set lo up", there)) &&
         ip(fmt::format("{} addr add {}/24 dev v{}", there, address(side), side)) &&
         ip(fmt::format("{} link set v{} up", there, side));
}

}  // namespace troupe::testing
