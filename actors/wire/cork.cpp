#include "troupe/actors/wire/cork.hpp"

#include <algorithm>

#include <troupe/actors/wire/connection.hpp>

namespace troupe::wire {
namespace {

constinit thread_local Cork* current_cork = nullptr;

}  // namespace

Cork::Cork() {
  if (!current_cork) current_cork = this;
}

Cork::~Cork() {
  if (current_cork != this) return;
  current_cork = nullptr;
  for (const auto& connection : waiting_) connection->push();
}

Cork* Cork::current() { return current_cork; }

void Cork::add(const std::shared_ptr<Connection>& connection) {
  if (std::ranges::find(waiting_, connection) == waiting_.end()) waiting_.push_back(connection);
}

}  // namespace troupe::wire
