// Where processes under test meet: ports, networks of their own.
#pragma once

#include <string>
#include <vector>

#include "tests/temporary_directory.hpp"

namespace troupe::testing {

// Ports of 127.0.0.1 that nobody used a moment ago, all different. Throws resource_exhausted.
std::vector<int> free_ports(int count);

// For clusters that other machines reach: nobody guesses it.
constexpr const char* kStrongToken = "4d0bfe6a1c9e83257fa0d46b92e8c173";

// Two network namespaces with a link between them, which go with the object.
class TwoNetworks {
 public:
  TwoNetworks();
  ~TwoNetworks();
  TwoNetworks(const TwoNetworks&) = delete;
  TwoNetworks& operator=(const TwoNetworks&) = delete;

  bool possible() const { return possible_; }  // needs root and ip (iproute2)
  static std::string address(int side);
  // The command, to be run there.
  std::vector<std::string> in(int side, const std::vector<std::string>& command) const;
  // Without the link nothing passes, and nobody is told. True if it was done.
  bool cut();
  bool heal();

 private:
  std::string name(int side) const;
  bool configure(int side);

  bool possible_ = false;
};

}  // namespace troupe::testing
