#include "troupe/scheduler/serving/request_router.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace troupe {
namespace {

constexpr std::int64_t kUsualRetry = 100;  // milliseconds

// FNV-1a, then a finisher: the same on all machines.
std::uint64_t hash_of(const std::string& key, std::uint32_t replica) {
  std::uint64_t out = 14695981039346656037ull;
  for (const char c : key) out = (out ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  out = (out ^ replica) * 1099511628211ull;
  out = (out ^ (out >> 33)) * 0xff51afd7ed558ccdull;
  out = (out ^ (out >> 33)) * 0xc4ceb9fe1a85ec53ull;
  return out ^ (out >> 33);
}

}  // namespace

std::optional<RequestRouter::Replica> RequestRouter::choose(const Routed& request) const {
  std::optional<Replica> best;
  std::size_t fewest = 0;
  std::uint64_t highest = 0;
  std::size_t place = 0;
  std::size_t best_place = 0;
  const std::size_t turn = replicas_.empty() ? 0 : turn_ % replicas_.size();
  for (const auto& [replica, server] : replicas_) {
    const std::size_t own_place = (place++ + replicas_.size() - turn) % replicas_.size();
    if (!server.ready.contains(request.wanted) || request.refused.contains(replica)) continue;
    if (!request.key.empty()) {
      const std::uint64_t weight = hash_of(request.key, replica);
      if (best && weight <= highest) continue;
      highest = weight;
    } else {
      const std::size_t has = server.has.size();
      if (best && (has > fewest || (has == fewest && own_place > best_place))) continue;
      fewest = has;
      best_place = own_place;
    }
    best = replica;
  }
  return best;
}

void RequestRouter::place(Requests::iterator request, Nanoseconds now, Actions& out) {
  Routed& routed = request->second;
  if (const auto replica = choose(routed); replica && routed.attempts < options_.attempts) {
    give_up_at(request, kNever);
    routed.replica = *replica;
    ++routed.attempts;
    ++turn_;
    replicas_.at(*replica).has.insert(request->first);
    out.send.push_back({request->first, *replica});
    return;
  }
  if (!routed.refused.empty() || routed.attempts >= options_.attempts) {
    const Error error(Code::unavailable,
                      routed.refused.empty()
                          ? fmt::format("{} replicas were lost while they had the request", routed.attempts)
                          : fmt::format("all replicas of {} are full", routed.wanted.to_string()));
    return fail_with(request, error, out);
  }
  if (routed.gives_up != kNever) return;
  if (waiting_ >= options_.most_waiting)
    return fail_with(request,
                     Error(Code::unavailable, fmt::format("no replica has {}, and {} requests wait for one",
                                                          routed.wanted.to_string(), waiting_)),
                     out);
  give_up_at(request, now + options_.patience);
}

void RequestRouter::give_up_at(Requests::iterator request, Nanoseconds when) {
  Nanoseconds& gives_up = request->second.gives_up;
  if (gives_up != kNever) {
    due_.erase({gives_up, request->first});
    --waiting_;
  }
  gives_up = when;
  if (when == kNever) return;
  due_.insert({when, request->first});
  ++waiting_;
}

void RequestRouter::erase(Requests::iterator request) {
  take_from(request);
  due_.erase({request->second.deadline, request->first});
  requests_.erase(request);
}

void RequestRouter::take_from(Requests::iterator request) {
  Routed& routed = request->second;
  if (routed.replica) {
    if (const auto server = replicas_.find(*routed.replica); server != replicas_.end())
      server->second.has.erase(request->first);
    routed.replica.reset();
  }
  give_up_at(request, kNever);
}

void RequestRouter::fail_with(Requests::iterator request, Error error, Actions& out) {
  const bool again = error.code() == Code::unavailable;
  const std::int64_t retry = again ? std::max(request->second.retry_after_ms, kUsualRetry) : 0;
  out.fail.push_back({request->first, std::move(error), retry, request->second.replica});
  erase(request);
}

void RequestRouter::up(Replica replica, std::set<ServableId> ready, Nanoseconds now, Actions& out) {
  replicas_[replica].ready = std::move(ready);
  std::vector<Request> waiting;
  for (const auto& [id, request] : requests_)
    if (!request.replica) waiting.push_back(id);
  for (const Request id : waiting) place(requests_.find(id), now, out);
}

void RequestRouter::down(Replica replica, Nanoseconds now, Actions& out) {
  const auto server = replicas_.find(replica);
  if (server == replicas_.end()) return;
  const std::set<Request> had = std::move(server->second.has);
  replicas_.erase(server);
  for (const Request id : had) {
    const auto request = requests_.find(id);
    request->second.replica.reset();
    place(request, now, out);
  }
}

void RequestRouter::add(Request id, ServableId wanted, const std::string& key, Nanoseconds deadline, Nanoseconds now,
                        Actions& out) {
  const auto request =
      requests_.emplace(id, Routed{.wanted = std::move(wanted), .key = key, .deadline = deadline}).first;
  if (deadline != kNever) due_.insert({deadline, id});
  place(request, now, out);
}

bool RequestRouter::answered(Request id, Replica replica, Code code, std::int64_t retry_after_ms, Nanoseconds now,
                             Actions& out) {
  const auto request = requests_.find(id);
  if (request == requests_.end() || request->second.replica != replica) return false;
  Routed& routed = request->second;
  if (code != Code::unavailable && code != Code::not_found) {
    erase(request);
    return true;
  }
  take_from(request);
  routed.refused.insert(replica);
  if (retry_after_ms > 0)
    routed.retry_after_ms =
        routed.retry_after_ms == 0 ? retry_after_ms : std::min(routed.retry_after_ms, retry_after_ms);
  if (choose(routed) && routed.attempts < options_.attempts) {
    place(request, now, out);
    return false;
  }
  erase(request);
  return true;  // nobody else can: its own words say why
}

std::optional<RequestRouter::Replica> RequestRouter::cancel(Request id) {
  const auto request = requests_.find(id);
  if (request == requests_.end()) return std::nullopt;
  const std::optional<Replica> out = request->second.replica;
  erase(request);
  return out;
}

void RequestRouter::expired(Nanoseconds now, Actions& out) {
  while (!due_.empty() && due_.begin()->first <= now) {
    const auto request = requests_.find(due_.begin()->second);
    const Routed& routed = request->second;
    fail_with(request,
              routed.deadline <= now
                  ? Error(Code::deadline_exceeded, "the deadline passed before a replica answered")
                  : Error(Code::unavailable, fmt::format("no replica has {}", routed.wanted.to_string())),
              out);
  }
}

std::optional<Nanoseconds> RequestRouter::next_time() const {
  if (due_.empty()) return std::nullopt;
  return due_.begin()->first;
}

std::map<ServableId, std::size_t> RequestRouter::ready() const {
  std::map<ServableId, std::size_t> out;
  for (const auto& [replica, server] : replicas_)
    for (const ServableId& id : server.ready) ++out[id];
  return out;
}

std::size_t RequestRouter::under_way(Replica replica) const {
  const auto server = replicas_.find(replica);
  return server == replicas_.end() ? 0 : server->second.has.size();
}

}  // namespace troupe
