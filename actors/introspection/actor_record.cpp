#include "actors/introspection/actor_record.hpp"

#include <cxxabi.h>
#include <fmt/core.h>

#include <chrono>
#include <cstdlib>

namespace troupe {
namespace {

std::string readable(const std::type_info* type) {
  if (!type) return "-";
  int status = 0;
  char* text = abi::__cxa_demangle(type->name(), nullptr, nullptr, &status);
  std::string out = status == 0 ? text : type->name();
  std::free(text);
  return out.starts_with("troupe::") ? out.substr(8) : out;
}

}  // namespace

const char* name(WaitKind kind) {
  switch (kind) {
    case WaitKind::none: return "-";
    case WaitKind::tensor: return "tensor";
    case WaitKind::segment: return "segment";
    case WaitKind::token: return "token";
    case WaitKind::staging: return "staging";
    case WaitKind::credit: return "credit";
    case WaitKind::barrier: return "barrier";
    case WaitKind::peer: return "peer";
    case WaitKind::reply: return "reply";
    case WaitKind::collective: return "collective";
  }
  return "?";
}

void WaitSlot::set(WaitKind what, std::uint64_t which, std::uint64_t at_step, std::uint64_t got, std::uint64_t wanted) {
  constexpr auto relaxed = std::memory_order_relaxed;
  if (kind.load(relaxed) != what || key.load(relaxed) != which) since_ns.store(steady_now_ns(), relaxed);
  key.store(which, relaxed);
  step.store(at_step, relaxed);
  have.store(got, relaxed);
  need.store(wanted, relaxed);
  kind.store(what, relaxed);
}

std::int64_t steady_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void ActorRecord::count_in() {
  constexpr auto relaxed = std::memory_order_relaxed;
  const auto in = messages_in.fetch_add(1, relaxed) + 1;
  // Messages of other senders, counted after `in` was read, may have been handled already.
  const auto handled = messages_handled.load(relaxed);
  const auto depth = in > handled ? in - handled : 0;
  if (depth > mailbox_peak.load(relaxed)) mailbox_peak.store(depth, relaxed);
}

void ActorRecord::begin(const std::type_info* type) {
  current.store(type, std::memory_order_relaxed);
  current_since_ns.store(steady_now_ns(), std::memory_order_relaxed);
}

// Only the thread that handles the actor's messages writes these: no read-modify-write is needed.
void ActorRecord::end_of_message(bool handled) {
  constexpr auto relaxed = std::memory_order_relaxed;
  const std::int64_t since = current_since_ns.load(relaxed);
  current_since_ns.store(0, relaxed);
  busy_ns.store(busy_ns.load(relaxed) + steady_now_ns() - since, relaxed);
  if (handled) messages_handled.store(messages_handled.load(relaxed) + 1, relaxed);
}

void ActorRecord::pass(std::uint64_t out) {
  if (!counting) return;
  messages_passed.fetch_add(1, std::memory_order_relaxed);
  if (out > 0) messages_out.fetch_add(out, std::memory_order_relaxed);
}

std::shared_ptr<ActorRecord> ActorRegistry::add(std::string kind, std::string name) {
  auto record = std::make_shared<ActorRecord>(*this, std::move(kind), std::move(name), counting_);
  std::lock_guard lock(mutex_);
  std::erase_if(records_, [](const auto& r) { return r->ended.load(); });
  records_.push_back(record);
  return record;
}

void ActorRegistry::end(ActorRecord& record) {
  {
    std::lock_guard lock(mutex_);
    record.ended.store(true);
  }
  ended_.notify_all();
}

std::vector<std::string> ActorRegistry::await_end(std::chrono::nanoseconds deadline) const {
  std::unique_lock lock(mutex_);
  std::vector<std::string> left;
  ended_.wait_for(lock, deadline, [&] {
    left.clear();
    for (const auto& r : records_)
      if (!r->ended.load()) left.push_back(r->kind + " " + r->name);
    return left.empty();
  });
  return left;
}

std::vector<std::shared_ptr<const ActorRecord>> ActorRegistry::actors() const {
  std::lock_guard lock(mutex_);
  return {records_.begin(), records_.end()};
}

bool ActorRegistry::fail_next(const std::string& kind) {
  std::lock_guard lock(mutex_);
  for (const auto& r : records_)
    if (r->kind == kind && !r->ended.load()) {
      r->fail_next.store(true);
      return true;
    }
  return false;
}

std::string ActorRegistry::snapshot() const {
  std::string text = fmt::format("{:<12} {:<34} {:>10} {:>8} {:>6} {:>9}  {:<20} {}\n", "kind", "name", "handled", "mailbox", "peak",
                                 "busy ms", "handling", "waits for");
  const std::int64_t now = steady_now_ns();
  for (const auto& r : actors()) {
    if (r->ended.load()) continue;
    const std::uint64_t handled = r->messages_handled.load();
    const std::uint64_t in = r->messages_in.load();
    const WaitKind kind = r->wait.kind.load();
    std::string waits = name(kind);
    if (kind != WaitKind::none)
      waits += fmt::format(" {} of {} for {:.1f} s", r->wait.have.load(), r->wait.need.load(),
                           static_cast<double>(now - r->wait.since_ns.load()) * 1e-9);
    if (const std::uint64_t restarts = r->restarts.load(); restarts > 0) waits += fmt::format("; restarted {} times", restarts);
    const bool busy = r->current_since_ns.load() != 0;
    text += fmt::format("{:<12} {:<34} {:>10} {:>8} {:>6} {:>9.1f}  {:<20} {}\n", r->kind, r->name, handled + r->messages_passed.load(),
                        in - std::min(handled, in), r->mailbox_peak.load(),
                        static_cast<double>(r->busy_ns.load()) * 1e-6, busy ? readable(r->current.load()) : "-", waits);
  }
  return text;
}

}  // namespace troupe
