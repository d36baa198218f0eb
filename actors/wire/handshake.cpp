#include "troupe/actors/wire/handshake.hpp"

#include <algorithm>

namespace troupe::wire {
namespace {

constexpr std::size_t kRemembered = 64;  // earlier incarnations of one task
constexpr std::size_t kNames = 4096;     // of tasks; callers may invent names

}  // namespace

Hello Handshake::hello_to(const TaskName& peer) const {
  return Hello{kProtocolVersion, cluster_, self_, peer, incarnation_, {}};
}

Error Handshake::check(const Hello& hello, const TaskName* expected) const {
  const auto refuse = [](std::string why) { return Error(Code::failed_precondition, std::move(why)); };
  if (hello.protocol != kProtocolVersion)
    return refuse(fmt::format("protocol version {}, but {} uses {}: run the same release everywhere", hello.protocol,
                              self_.to_string(), kProtocolVersion));
  if (hello.cluster != cluster_)
    return refuse(fmt::format("cluster '{}', but {} belongs to '{}'", hello.cluster, self_.to_string(), cluster_));
  if (hello.to != self_)
    return refuse(fmt::format("call for {}, but this is {}: check the addresses in the cluster file",
                              hello.to.to_string(), self_.to_string()));
  if (hello.from == self_) return refuse(fmt::format("two tasks are named {}", self_.to_string()));
  if (expected && hello.from != *expected)
    return refuse(fmt::format("{} answered instead of {}", hello.from.to_string(), expected->to_string()));
  const auto known = known_.find(hello.from);
  if (known != known_.end() && std::ranges::count(known->second.earlier, hello.incarnation) > 0)
    return refuse(fmt::format("this process of {} has been replaced by a later one", hello.from.to_string()));
  return {};
}

void Handshake::joined(const Hello& hello) {
  const auto [it, first] = known_.try_emplace(hello.from, Known{hello.incarnation, {}});
  if (first) {
    names_.push_back(hello.from);
    if (names_.size() > kNames) {
      known_.erase(names_.front());
      names_.pop_front();
    }
  }
  Known& known = it->second;
  if (first || known.current == hello.incarnation) return;
  known.earlier.push_back(known.current);
  if (known.earlier.size() > kRemembered) known.earlier.pop_front();
  known.current = hello.incarnation;
}

}  // namespace troupe::wire
