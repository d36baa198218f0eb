#include "troupe/actors/introspection/introspector.hpp"

#include <fmt/chrono.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include <troupe/actors/base/inspected.hpp>

namespace troupe {
namespace {

// Maximum total wait of a snapshot for actors that are handling a message.
constexpr std::chrono::milliseconds kPatience{100};
constexpr std::size_t kLargest = 8;
constexpr std::size_t kLargestAsked = 64;  // equal ones are reported once

std::int64_t unix_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string seconds(std::int64_t ns) { return fmt::format("{:.3f} s", static_cast<double>(ns) * 1e-9); }

}  // namespace

Introspector::Introspector(Config config) : config_(std::move(config)), began_ns_(steady_now_ns()) {}

void Introspector::joined(std::string cluster, Incarnation incarnation) {
  const std::lock_guard lock(mutex_);
  cluster_ = std::move(cluster);
  incarnation_ = incarnation;
}

void Introspector::set_request_log(std::function<RequestLogSnapshot()> show) {
  const std::lock_guard lock(mutex_);
  show_request_log_ = std::move(show);
}

ActorSnapshot Introspector::look_at(const ActorRecord& record, ActorDetails& details) const {
  ActorSnapshot out{.kind = std::string(record.kind), .name = record.name};
  out.handled = record.messages_handled.load();  // read before messages_in: the mailbox depth is never negative
  const std::uint64_t in = record.messages_in.load();
  out.mailbox = in - std::min(in, out.handled);
  out.mailbox_peak = record.mailbox_peak.load();
  out.passed = record.messages_passed.load();
  out.sent = record.messages_out.load();
  out.restarts = record.restarts.load();
  out.busy_ns = record.busy_ns.load();
  out.waits_for = details.waits_for;
  const std::int64_t now = steady_now_ns();
  const std::int64_t since = record.current_since_ns.load();
  const MessageKind* current = record.current.load();
  if (since != 0) {
    out.current = current ? current->label : "a message";
    out.current_ns = std::max<std::int64_t>(0, now - since);
    out.busy_ns += out.current_ns;
  }
  out.waits_ns = details.waits_ns;
  for (const auto& [message, count] : record.tallies()) out.messages[message->label] += count;
  if (record.flight)
    for (const FlightEntry& entry : record.flight->entries())
      if (!entry.note.from.empty()) ++out.peers[entry.note.from.to_string()];
  out.state = since != 0 ? "busy" : !out.waits_for.empty() ? "waits" : "idle";
  return out;
}

std::string Introspector::failure() const {
  if (const Error failure = config_.failure ? config_.failure() : Error()) return failure.message();
  for (const std::shared_ptr<Device>& device : config_.devices())
    if (const Error failure = device->failure()) return failure.message();
  return {};
}

DeviceSnapshot Introspector::look_at(Device& device) const {
  const DeviceAttributes& attributes = device.attributes();
  DeviceSnapshot out{.name = attributes.name.to_string(), .type = attributes.type};
  if (const Error failure = device.failure()) out.failure = failure.message();
  // Statistics are read under the allocator's lock.
  AllocatorStats stats;
  std::vector<LiveBuffer> largest;
  for (const Allocator* allocator : device.allocators()) {
    stats += allocator->stats();
    std::ranges::move(allocator->largest(kLargestAsked), std::back_inserter(largest));
  }
  out.bytes_in_use = stats.bytes_in_use;
  out.peak_bytes = stats.peak_bytes;
  out.cached_bytes = stats.cached_bytes;
  out.limit_bytes = stats.limit_bytes;
  out.allocations = stats.allocations;
  out.reuses = stats.reuses;
  if (const Allocator* pinned = device.pinned()) {
    const AllocatorStats of_host = pinned->stats();
    out.pinned_bytes = of_host.bytes_in_use + of_host.cached_bytes;
  }
  const RecordingStats recorded = device.recording_stats();
  out.recordings = recorded.recordings;
  out.recording_launches = recorded.launches;
  out.recording_refusals = recorded.refusals;
  out.last_refusal = recorded.last_refusal;
  out.largest = tensors_of(largest, kLargest);
  return out;
}

std::vector<TensorUse> tensors_of(const std::vector<LiveBuffer>& buffers, std::size_t most) {
  std::vector<TensorUse> out;
  for (const LiveBuffer& buffer : buffers) {
    const std::string name = buffer.node.empty() ? buffer.op : fmt::format("{} '{}'", buffer.op, buffer.node);
    const auto alike = std::ranges::find_if(out, [&](const TensorUse& use) {
      return use.bytes == buffer.bytes && use.name == name && use.type == buffer.type;
    });
    if (alike != out.end())
      ++alike->count;
    else
      out.push_back({.name = name, .type = buffer.type, .bytes = buffer.bytes});
  }
  std::ranges::stable_sort(out, std::greater(), &TensorUse::bytes);
  out.resize(std::min(out.size(), most));
  return out;
}

TaskSnapshot Introspector::snapshot() const {
  TaskSnapshot out;
  out.task = config_.task.to_string();
  {
    const std::lock_guard lock(mutex_);
    out.cluster = cluster_;
    out.incarnation = fmt::format("{:016x}", incarnation_.value);
    if (show_request_log_) out.request_log = show_request_log_();
  }
  out.pid = getpid();
  out.version = TROUPE_VERSION;
  out.uptime_ns = steady_now_ns() - began_ns_;
  if (const Error failure = config_.failure ? config_.failure() : Error()) out.failure = failure.message();

  std::map<std::string, std::string> running;
  const auto until = std::chrono::steady_clock::now() + kPatience;
  for (const auto& record : config_.registry.actors()) {
    if (record->ended.load()) continue;
    ActorDetails details;
    record->look(details,
                 std::max(until - std::chrono::steady_clock::now(), std::chrono::steady_clock::duration::zero()));
    out.actors.push_back(look_at(*record, details));
    out.waiting.append(std::move(details.waiting));
    std::ranges::move(details.shards, std::back_inserter(out.shards));
    std::ranges::move(details.pipelines, std::back_inserter(out.pipelines));
    std::ranges::move(details.servables, std::back_inserter(out.servables));
    if (details.job) out.job = std::move(details.job);
    running.merge(details.running);
  }
  for (const std::shared_ptr<Device>& device : config_.devices()) {
    DeviceSnapshot seen = look_at(*device);
    for (const auto& record : config_.registry.actors()) {
      if (record->kind != "device" || record->name != seen.name) continue;
      const std::uint64_t handled = record->messages_handled.load(), in = record->messages_in.load();
      seen.queue = in - std::min(in, handled);
      seen.nodes_run = record->nodes_run.load();
    }
    for (const ActorSnapshot& actor : out.actors)
      if (actor.kind == "device" && actor.name == seen.name) seen.busy_ns = actor.busy_ns;
    if (const auto found = running.find(seen.name); found != running.end()) seen.running = found->second;
    out.devices.push_back(std::move(seen));
  }
  out.training = config_.training.snapshot();
  std::ranges::move(config_.training.pipelines(), std::back_inserter(out.pipelines));
  out.waiting.append(config_.client.waiting(out.task));
  if (config_.links) out.links = config_.links();
  if (config_.meeting) out.waiting.append(config_.meeting());
  out.unix_ns = unix_now_ns();
  return out;
}

std::string Introspector::flight_record() const {
  const TaskSnapshot now = snapshot();
  const std::int64_t at = steady_now_ns();
  std::string text =
      fmt::format("Flight record of {}, process {}, at {:%Y-%m-%d %H:%M:%S} UTC, {} after its start\n", now.task,
                  now.pid, fmt::gmtime(static_cast<std::time_t>(now.unix_ns / 1'000'000'000)), seconds(now.uptime_ns));
  if (!now.failure.empty()) text += fmt::format("The task has failed: {}\n", now.failure);
  for (const auto& record : config_.registry.actors()) {
    text += fmt::format("\n{} {}{}\n", record->kind, record->name, record->ended.load() ? ", ended" : "");
    const auto seen = std::ranges::find_if(
        now.actors, [&](const ActorSnapshot& a) { return a.kind == record->kind && a.name == record->name; });
    if (seen != now.actors.end()) {
      text += fmt::format("  handled {}, passed {}, mailbox {} (peak {}), restarts {}, {}\n", seen->handled,
                          seen->passed, seen->mailbox, seen->mailbox_peak, seen->restarts, seen->state);
      if (!seen->current.empty())
        text += fmt::format("  handles {} for {}\n", seen->current, seconds(seen->current_ns));
      if (!seen->waits_for.empty())
        text += fmt::format("  waits for {} for {}\n", seen->waits_for, seconds(seen->waits_ns));
    }
    if (!record->flight) continue;
    for (const FlightEntry& entry : record->flight->entries()) {
      text += fmt::format("  -{:>12}  {}", seconds(at - entry.at_ns), entry.kind->label);
      if (entry.note.step != 0) text += fmt::format("  step {}", entry.note.step);
      if (entry.note.bytes != 0) text += fmt::format("  {} bytes", entry.note.bytes);
      if (!entry.note.from.empty()) text += fmt::format("  from {}", entry.note.from.to_string());
      text += '\n';
    }
  }
  return text;
}

}  // namespace troupe
