#include "troupe/messages/ids.hpp"

#include <random>

namespace troupe {

std::uint64_t random_id() {
  static thread_local std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

}  // namespace troupe
