// Everything that crosses between tasks on our own connections, one struct per kind. The same structs travel as actor
// messages inside a task. Encoding: messages/codec.hpp; who sends what to whom: docs/design/wire.md and protocol.hpp.
//
// fields() lists the members in wire order. Members are integers, bool, double (as its bits), enums, strings, ids,
// vectors of these, Error, and Tensor (announced in the frame's header; its bytes follow in chunks).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <troupe/messages/device_name.hpp>
#include <troupe/messages/epoch_done.hpp>
#include <troupe/messages/error.hpp>
#include <troupe/messages/fields.hpp>
#include <troupe/messages/ids.hpp>
#include <troupe/messages/receiver.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

inline constexpr std::uint32_t kProtocolVersion = 2;

// ---- Connections ---------------------------------------------------------------------------------------------------

// The first frame in each direction, once both ends have proved that they know the token; nothing else is parsed before
// it. A wrong cluster or version closes the connection with a Goodbye that says so.
struct Hello {
  static constexpr Receiver kReceiver = Receiver::link;
  std::uint32_t protocol = kProtocolVersion;
  std::string cluster;
  TaskName from;
  TaskName to;
  Incarnation incarnation;
  // Of a call: kSharesMemory, if the caller could share memory with a task on its host. Of the answer then: the place
  // of that memory, and the next frame of the caller is a SharedMemoryAnswer. Else empty.
  std::string memory;
  TROUPE_FIELDS(protocol, cluster, from, to, incarnation, memory)
};

inline constexpr const char* kSharesMemory = "shares memory";

struct Heartbeat {
  static constexpr Receiver kReceiver = Receiver::link;
  std::uint64_t progress = 0;  // grows while the task makes progress
  TROUPE_FIELDS(progress)
};

// Credits: the receiver has taken `bytes` more of bulk data out of its socket.
struct Credit {
  static constexpr Receiver kReceiver = Receiver::link;
  std::uint64_t bytes = 0;
  TROUPE_FIELDS(bytes)
};

// Last frame of a connection: why it ends. Code::ok: an orderly end.
struct Goodbye {
  static constexpr Receiver kReceiver = Receiver::link;
  Error reason;
  TROUPE_FIELDS(reason)
};

// ---- Steps: scheduler to scheduler, rendezvous to rendezvous -------------------------------------------------------

// Client's scheduler to the others: start your partitions of `graph`.
struct StepStart {
  static constexpr Receiver kReceiver = Receiver::scheduler;
  SessionId session;
  GraphId graph;
  StepId step;
  RandomKey random;
  TROUPE_FIELDS(session, graph, step, random)
};

// A remote task's partitions of the step have ended (with an error, if it has one).
struct StepDone {
  static constexpr Receiver kReceiver = Receiver::scheduler;
  SessionId session;
  StepId step;
  Error error;
  TROUPE_FIELDS(session, step, error)
};

struct StepAbort {
  static constexpr Receiver kReceiver = Receiver::scheduler;
  SessionId session;
  StepId step;
  Error error;
  TROUPE_FIELDS(session, step, error)
};

// A tensor for the consumer at `key`. Also the answer to a Pull; `version` is then that of the shard.
struct Put {
  static constexpr Receiver kReceiver = Receiver::rendezvous;
  RendezvousKey key;
  std::uint64_t version = 0;
  Tensor tensor;
  Error error;  // instead of a tensor
  TROUPE_FIELDS(key, version, tensor, error)
};

// ---- Training: workers and shards ----------------------------------------------------------------------------------
//
// The same tasks may train several times. `job` is the number of the job that a frame belongs to: the coordinator draws
// it, larger than those before, and tells it to those who join. What is left of an earlier job is dropped
// (actors/cluster/ peer_actor.hpp). `view` is the membership view in which the sender, a worker, joined: what comes
// from before a Fence is dropped. 0: it does not say.

// Asks a shard for slice `slice` (index in the ShardMap) at version >= min_version; answered by a Put to reply_to.
// Synchronous shards answer with min_version itself while they have it. Asynchronous ones answer when they have taken
// what the worker computed last, of batch `after` - 1 (0: of none): its pushes may come later than this.
struct Pull {
  static constexpr Receiver kReceiver = Receiver::shard;
  std::uint32_t worker = 0;
  RendezvousKey reply_to;
  std::uint32_t slice = 0;
  std::uint64_t min_version = 0;
  std::uint64_t job = 0;
  std::uint64_t view = 0;
  std::uint64_t after = 0;
  TROUPE_FIELDS(worker, reply_to, slice, min_version, job, view, after)
};

// One slice's gradient of slot `slot` of step `step` (asynchronous mode: of batch `step`, slot 0). A sparse gradient
// has rows in `gradient` and their row numbers (i64, relative to the slice) in `indices`; else `indices` is absent.
// pulled_version: that of the Put which brought this slice's value.
struct Push {
  static constexpr Receiver kReceiver = Receiver::shard;
  std::uint32_t worker = 0;
  std::uint64_t step = 0;
  std::uint32_t slot = 0;
  std::uint32_t slice = 0;
  std::uint64_t pulled_version = 0;
  Tensor gradient;
  Tensor indices;
  std::uint64_t job = 0;
  std::uint64_t view = 0;
  TROUPE_FIELDS(worker, step, slot, slice, pulled_version, gradient, indices, job, view)
};

// ---- Training: workers and the coordinator -------------------------------------------------------------------------

// A worker or a shard enters the job; answered by Joined. `fingerprint` covers the ShardMap, the optimizer and the
// training options: all must agree. `settings` are the options in words, one "name=value" a line, so that a
// disagreement can be named.
struct Join {
  static constexpr Receiver kReceiver = Receiver::coordinator;
  std::uint32_t worker = 0;
  Incarnation incarnation;
  std::uint64_t fingerprint = 0;
  std::string settings;
  bool shard = false;       // a shard of index `worker`, not a worker
  std::uint64_t after = 0;  // the number of the last job this task knows of: it joins a later one
  TROUPE_FIELDS(worker, incarnation, fingerprint, settings, shard, after)
};

// The answer to a Join: the number of the job, and why the task is turned away, if it is.
struct Joined {
  static constexpr Receiver kReceiver = Receiver::members;
  Incarnation incarnation;  // that of the Join
  std::uint64_t job = 0;
  std::uint64_t version = 0;  // of the parameters that the job begins with: above 0 they are those of a checkpoint
  Error error;
  std::uint64_t view = 0;  // in which a worker is a member now
  TROUPE_FIELDS(incarnation, job, version, error, view)
};

// A worker is lost, or has joined anew: frames of it from views below `view` are of one that is no member any more. To
// all shards; and to the worker if such a frame has come: it may join again.
struct Fence {
  static constexpr Receiver kReceiver = Receiver::members;
  std::uint32_t worker = 0;
  std::uint64_t view = 0;
  Error reason;
  std::uint64_t job = 0;
  TROUPE_FIELDS(worker, view, reason, job)
};

// Who has said Join gives up, for this reason.
struct Leave {
  static constexpr Receiver kReceiver = Receiver::coordinator;
  std::uint32_t worker = 0;
  Incarnation incarnation;  // that of the Join, like `shard` and `after`
  bool shard = false;
  std::uint64_t after = 0;
  Error reason;
  TROUPE_FIELDS(worker, incarnation, shard, after, reason)
};

// A worker has nothing to do. Answered by a Token with the same `request`, at once or when there is one; a token that a
// lost worker leaves behind comes unasked, with request 0. A worker counts its requests from 1; one that does not
// exceed those before it is a repetition and is dropped.
struct TakeToken {
  static constexpr Receiver kReceiver = Receiver::coordinator;
  std::uint32_t worker = 0;
  std::uint64_t request = 0;
  std::uint64_t job = 0;
  std::uint64_t view = 0;
  TROUPE_FIELDS(worker, request, job, view)
};

enum class TokenKind : std::uint8_t {
  train = 0,     // compute slot `slot` of step `step`: examples [begin, end) of epoch `epoch`'s permutation
  evaluate = 1,  // evaluate test examples [begin, end) at version `min_version`
  finish = 2,    // training is over: `min_version` is the final version, `slot` the chief; enter the barrier
};

struct Token {
  static constexpr Receiver kReceiver = Receiver::worker;
  std::uint64_t request = 0;
  TokenKind kind = TokenKind::train;
  std::uint64_t step = 0;
  std::uint32_t slot = 0;
  std::uint32_t epoch = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t min_version = 0;
  std::uint64_t job = 0;
  TROUPE_FIELDS(request, kind, step, slot, epoch, begin, end, min_version, job)
};

// A worker has computed and pushed a train token, or evaluated an evaluate token.
struct TokenDone {
  static constexpr Receiver kReceiver = Receiver::coordinator;
  std::uint32_t worker = 0;
  Token token;
  double loss_sum = 0;  // over the examples
  std::uint64_t correct = 0;
  std::uint64_t examples = 0;
  std::uint64_t job = 0;
  std::uint64_t view = 0;
  TROUPE_FIELDS(worker, token, loss_sum, correct, examples, job, view)
};

// A shard has all gradients of (step, slot), or (asynchronous mode) of batch `step`.
struct Staged {
  static constexpr Receiver kReceiver = Receiver::coordinator;
  std::uint32_t shard = 0;
  std::uint64_t step = 0;
  std::uint32_t slot = 0;
  std::uint64_t version = 0;  // of the shard, after it
  std::uint64_t job = 0;
  TROUPE_FIELDS(shard, step, slot, version, job)
};

// Where a step has more slots than are needed (backup workers), the coordinator chooses. To all shards: apply the mean
// of these, ascending, and drop the others; and to workers that hold another token of the step: it need not be
// computed.
struct Commit {
  static constexpr Receiver kReceiver = Receiver::members;
  std::uint64_t step = 0;
  std::vector<std::uint32_t> slots;
  std::uint64_t job = 0;
  TROUPE_FIELDS(step, slots, job)
};

// Coordinator to all shards: save what you have at this version (asynchronous mode: now), while training goes on.
// Answered by Saved when it is durable.
struct Save {
  static constexpr Receiver kReceiver = Receiver::shard;
  std::uint64_t version = 0;
  std::uint64_t job = 0;
  TROUPE_FIELDS(version, job)
};

struct Saved {
  static constexpr Receiver kReceiver = Receiver::coordinator;
  std::uint32_t shard = 0;
  std::uint64_t version = 0;
  std::string files;  // what it has written, one line a file, as the manifest needs it
  Error error;
  std::uint64_t job = 0;
  TROUPE_FIELDS(shard, version, files, error, job)
};

// A worker has reached the end of its program; answered by BarrierOpen when all have.
struct Barrier {
  static constexpr Receiver kReceiver = Receiver::coordinator;
  std::uint32_t worker = 0;
  std::uint64_t job = 0;
  std::uint64_t view = 0;
  TROUPE_FIELDS(worker, job, view)
};

struct BarrierOpen {
  static constexpr Receiver kReceiver = Receiver::members;
  std::uint32_t workers = 0;
  std::uint64_t job = 0;
  TROUPE_FIELDS(workers, job)
};

// Coordinator to every task of the job: it ends, with this error.
struct JobFailed {
  static constexpr Receiver kReceiver = Receiver::members;
  Error error;
  std::uint64_t job = 0;
  TROUPE_FIELDS(error, job)
};

// ---- Collectives: rank to rank -------------------------------------------------------------------------------------

// A piece of what the ranks of a group compute together (scheduler/collective), or the news that they cannot.
struct CollectivePart {
  static constexpr Receiver kReceiver = Receiver::collective;
  std::uint64_t group = 0;
  std::uint32_t channel = 0;  // operations of one channel are numbered from 0
  std::uint64_t sequence = 0;
  std::string operation;  // what the sender takes it to be; ranks that disagree end the group
  std::uint32_t hop = 0;
  std::uint32_t part = 0;
  std::uint32_t piece = 0;
  Tensor tensor;  // flat; none: a word that needs no data
  Error error;    // the group has failed; the fields between are empty
  TROUPE_FIELDS(group, channel, sequence, operation, hop, part, piece, tensor, error)
};

// Whether the caller uses the memory of the Hello that it got. If so, all that follows in both directions passes
// through it.
struct SharedMemoryAnswer {
  static constexpr Receiver kReceiver = Receiver::link;
  bool used = false;
  TROUPE_FIELDS(used)
};

// A piece of what CAF's nodes say to each other (actors/network/control.hpp).
struct ControlBytes {
  static constexpr Receiver kReceiver = Receiver::link;
  std::string bytes;
  TROUPE_FIELDS(bytes)
};

#undef TROUPE_FIELDS

// All kinds. The index of a kind is its number on the wire: append only.
using FrameVariant =
    std::variant<Hello, Heartbeat, Credit, Goodbye, StepStart, StepDone, StepAbort, Put, Pull, Push, Join, TakeToken,
                 Token, TokenDone, Staged, EpochDone, Barrier, BarrierOpen, JobFailed, CollectivePart,
                 SharedMemoryAnswer, Joined, Leave, Fence, Commit, Save, Saved, ControlBytes>;

template <class T, class Variant>
inline constexpr bool is_alternative = false;
template <class T, class... Alternatives>
inline constexpr bool is_alternative<T, std::variant<Alternatives...>> = (std::is_same_v<T, Alternatives> || ...);

// A variant whose copies, moves and ends are compiled once, in frames.cpp, and not in each source that includes this.
class Frame : public FrameVariant {
 public:
  template <class F>
  requires is_alternative<std::remove_cvref_t<F>, FrameVariant> Frame(F&& frame)
      : FrameVariant(std::in_place_type<std::remove_cvref_t<F>>, std::forward<F>(frame)) {}
  Frame();
  Frame(const Frame& other);
  Frame(Frame&& other) noexcept;
  Frame& operator=(const Frame& other);
  Frame& operator=(Frame&& other) noexcept;
  ~Frame();
};

std::string_view kind_name(const Frame& frame);  // the name of its type: "Put", "Push"

}  // namespace troupe
