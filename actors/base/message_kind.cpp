#include "troupe/actors/base/message_kind.hpp"

#include <cxxabi.h>
#include <fmt/core.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <unordered_map>

#include <troupe/messages/caf/protocol.hpp>
#include <troupe/messages/type_name.hpp>
#include <troupe/scheduler/trace/trace.hpp>

namespace troupe {
namespace {

template <class T>
std::uint64_t tensor_bytes(const T& field) {
  if constexpr (std::is_same_v<T, Tensor>)
    return field.valid() ? field.num_bytes() : 0;
  else if constexpr (std::is_same_v<T, std::vector<Tensor>>)
    return std::accumulate(field.begin(), field.end(), std::uint64_t{0},
                           [](std::uint64_t sum, const Tensor& tensor) { return sum + tensor_bytes(tensor); });
  else
    return 0;
}

// Steps, keys and tensors have the same names in all messages.
template <class T>
void describe_fields(const T& x, MessageNote& note) {
  if constexpr (requires { x.step.value; })
    note.step = x.step.value;
  else if constexpr (requires { std::uint64_t{x.step}; })
    note.step = x.step;
  else if constexpr (requires { x.key.step.value; })
    note.step = x.key.step.value;
  else if constexpr (requires { x.token.step; })
    note.step = x.token.step;
  else if constexpr (requires { x.put.key.step.value; })
    note.step = x.put.key.step.value;
  else if constexpr (requires { x.reply_to.step.value; })
    note.step = x.reply_to.step.value;
  else if constexpr (requires { x.batch.step; })
    note.step = x.batch.step;
  else if constexpr (requires { x.sequence; })
    note.step = x.sequence;
  if constexpr (requires { x.fields(); })
    note.bytes =
        std::apply([](const auto&... fields) { return (std::uint64_t{0} + ... + tensor_bytes(fields)); }, x.fields());
  else if constexpr (requires { x.tensor.num_bytes(); })
    note.bytes = tensor_bytes(x.tensor);
  else if constexpr (requires { x.put.tensor; })
    note.bytes = tensor_bytes(x.put.tensor);
}

template <class T>
const MessageKind& describe(const MessageKind& kind, const void* content, MessageNote& note) {
  const T& x = *static_cast<const T*>(content);
  if constexpr (requires {
                  x.from;
                  x.frame;
                }) {  // Inbound
    note.from = PackedTask::of(x.from);
    describe_fields(x.frame, note);
  } else if constexpr (requires { x.frame; }) {  // Outbound, FrameCame
    std::visit([&](const auto& frame) { describe_fields(frame, note); }, x.frame);
    return kind.frames.at(x.frame.index());
  } else {
    describe_fields(x, note);
  }
  return kind;
}

std::uint64_t between_two(std::initializer_list<std::uint64_t> numbers) { return trace_hash(numbers) & ~kUniqueArrow; }

// Arrow of a message with a unique place in the dataflow of a step.
std::uint64_t arrow_of(const Put& x) {
  return kUniqueArrow | trace_hash({1, x.key.session.value, x.key.step.value, x.key.edge.value});
}
std::uint64_t arrow_of(const Pull& x) {
  return between_two({2, x.reply_to.session.value, x.reply_to.step.value, x.reply_to.edge.value});
}
std::uint64_t arrow_of(const Push& x) {
  return between_two({3, x.job, x.view, x.worker, x.step, x.phase, x.slot, x.slice});
}
std::uint64_t arrow_of(const StepStart& x) { return between_two({4, x.session.value, x.step.value, x.graph.value}); }
std::uint64_t arrow_of(const StepDone& x) { return between_two({5, x.session.value, x.step.value}); }
std::uint64_t arrow_of(const TakeToken& x) { return between_two({6, x.job, x.worker, x.request}); }
std::uint64_t arrow_of(const Token& x) {
  return between_two({7, x.job, x.request, static_cast<std::uint64_t>(x.kind), x.epoch, x.step, x.phase, x.slot});
}
std::uint64_t arrow_of(const TokenDone& x) {
  return between_two({8, x.job, x.worker, x.token.request, x.token.epoch, x.token.step, x.token.phase, x.token.slot});
}
std::uint64_t arrow_of(const Staged& x) { return between_two({9, x.job, x.shard, x.step, x.phase, x.slot}); }
std::uint64_t arrow_of(const CollectivePart& x) {
  return x.error ? 0 : between_two({10, x.group, x.channel, x.sequence, x.hop, x.part, x.piece});
}
std::uint64_t arrow_of(const WantBatch& x) {
  return between_two({11, x.feed, x.batch.evaluation, x.batch.epoch, x.batch.step, x.batch.slot});
}
std::uint64_t arrow_of(const BatchMade& x) {
  return between_two({12, x.feed, x.batch.evaluation, x.batch.epoch, x.batch.step, x.batch.slot});
}
template <class T>
std::uint64_t arrow_of(const T&) {
  return 0;
}

template <class T>
std::uint64_t arrow(const void* content) {
  const T& x = *static_cast<const T*>(content);
  if constexpr (requires {
                  x.from;
                  x.frame;
                })  // Inbound
    return arrow_of(x.frame);
  else if constexpr (requires { x.frame.index(); })
    return std::visit([](const auto& frame) { return arrow_of(frame); }, x.frame);
  else
    return arrow_of(x);
}

template <class... F>
std::vector<MessageKind> frame_kinds(const char* way, std::type_identity<std::variant<F...>>) {
  std::vector<MessageKind> out;
  (out.emplace_back(fmt::format("{}{}", way, type_name<F>())), ...);
  return out;
}

std::string readable(const std::type_info& type) {
  int status = 0;
  char* text = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  std::string out = status == 0 ? text : type.name();
  std::free(text);
  for (const char* space : {"troupe::", "Inbound<"})
    if (out.starts_with(space)) out = out.substr(std::strlen(space));
  if (out.starts_with("troupe::")) out = out.substr(8);
  if (out.ends_with('>') && out.find('<') == std::string::npos) out.pop_back();
  return out;
}

using Kinds = std::unordered_map<const std::type_info*, std::unique_ptr<MessageKind>>;

template <class... T>
void add(Kinds& kinds) {
  (kinds.emplace(&typeid(T), std::make_unique<MessageKind>(readable(typeid(T)), describe<T>, arrow<T>)), ...);
}

// Adds all kinds of frames that reach an actor as Inbound.
template <class... F>
void add_inbound(Kinds& kinds, std::type_identity<std::variant<F...>>) {
  const auto add_one = [&]<class T>(std::type_identity<T>) {
    if constexpr (T::kReceiver != Receiver::link && T::kReceiver != Receiver::rendezvous) add<Inbound<T>>(kinds);
  };
  (add_one(std::type_identity<F>()), ...);
}

Kinds known() {
  Kinds kinds;
  add<RunStep, CancelStep, ExecuteSegment, SegmentDone, Await, Delivered, Landed, StepFailed, CallResource, EndStep,
      EndSession, Put, Contribute, DevicesDone, CloseGroup>(kinds);
  constexpr std::type_identity<FrameVariant> all;
  add_inbound(kinds, all);
  kinds.emplace(&typeid(Outbound), std::make_unique<MessageKind>("to wire", describe<Outbound>, arrow<Outbound>,
                                                                 frame_kinds("to wire: ", all)));
  kinds.emplace(&typeid(FrameCame), std::make_unique<MessageKind>("from wire", describe<FrameCame>, nullptr,
                                                                  frame_kinds("from wire: ", all)));
  return kinds;
}

}  // namespace

PackedTask PackedTask::of(const TaskName& task) {
  PackedTask out;
  char place[16] = {};
  std::memcpy(place, task.job.data(), std::min<std::size_t>(task.job.size(), 12));
  const auto index = static_cast<std::uint32_t>(task.index);
  std::memcpy(place + 12, &index, 4);
  std::memcpy(out.bits.data(), place, 16);
  return out;
}

std::string PackedTask::to_string() const {
  if (empty()) return "";
  char place[16];
  std::memcpy(place, bits.data(), 16);
  std::uint32_t index = 0;
  std::memcpy(&index, place + 12, 4);
  return fmt::format("/job:{}/task:{}", std::string(place, strnlen(place, 12)), index);
}

const MessageKind& MessageKind::find(const std::type_info* type) {
  // Never destroyed: actors of static tasks use them.
  static std::mutex mutex;
  static Kinds& kinds = *new Kinds(known());
  static const MessageKind& caf = *[] {
    auto* const kind = new MessageKind("message of CAF");
    kind->of_caf = true;
    return kind;
  }();
  if (!type) return caf;
  const std::lock_guard lock(mutex);
  auto& kind = kinds[type];
  if (!kind) kind = std::make_unique<MessageKind>(readable(*type));
  return *kind;
}

}  // namespace troupe
