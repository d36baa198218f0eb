// What serving is compared with: servers of the same libraries that send back what they get, each in a child.
#pragma once

#include <cstdint>

#include "tools/bench/child.hpp"

namespace troupe::bench {

class EchoPeer {
 public:
  // `role` is that of the child (children.hpp). Throws Error.
  explicit EchoPeer(const char* role) : child_({own_path(), "--child", role}) {
    port_ = static_cast<std::uint16_t>(std::stoi(child_.read_line()));
  }
  std::uint16_t port() const { return port_; }

 private:
  Child child_;
  std::uint16_t port_ = 0;
};

// Run in the child: report the port, and serve until the input ends.
void echo_http();               // actors/http's server with as many threads as troupe-serve's door
void echo_grpc_by_callbacks();  // reactors on gRPC's threads
void echo_grpc_by_queues();     // two completion queues with a thread each

}  // namespace troupe::bench
