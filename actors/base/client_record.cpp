#include "troupe/actors/base/client_record.hpp"

#include <fmt/core.h>

#include <troupe/actors/base/actor_record.hpp>
#include <troupe/scheduler/waits/wait_things.hpp>

namespace troupe {

ClientRecord::Pending ClientRecord::wait(const TaskName& whom, std::string what) {
  const std::lock_guard lock(mutex_);
  waits_.emplace(next_, Wait{whom.to_string(), std::move(what), steady_now_ns()});
  return {*this, next_++};
}

void ClientRecord::end(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  waits_.erase(number);
}

Waiting ClientRecord::waiting(const std::string& task) const {
  Waiting out;
  const std::int64_t now = steady_now_ns();
  const std::lock_guard lock(mutex_);
  for (const auto& [number, wait] : waits_) {
    const std::string client = wait_thing::client(task, number), answer = wait_thing::answer(task, number);
    const std::int64_t for_ns = now - wait.since_ns;
    out.things.push_back({.id = client, .text = "a client on " + task, .task = task, .for_ns = for_ns});
    out.things.push_back({.id = answer, .text = wait.whom + " " + wait.what, .task = wait.whom});
    out.waits.push_back({.waiter = client, .awaited = answer, .kind = "reply", .text = {}, .for_ns = for_ns});
  }
  return out;
}

}  // namespace troupe
