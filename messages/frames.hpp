// Everything that crosses between tasks on our own connections, one struct per kind. The same structs travel as actor
// messages inside a task. Encoding: messages/codec.hpp; senders and receivers: docs/design/wire.md and protocol.hpp.
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

#include <troupe/messages/batch_name.hpp>
#include <troupe/messages/configured_model.hpp>
#include <troupe/messages/data_place.hpp>
#include <troupe/messages/device_name.hpp>
#include <troupe/messages/epoch_done.hpp>
#include <troupe/messages/error.hpp>
#include <troupe/messages/fields.hpp>
#include <troupe/messages/ids.hpp>
#include <troupe/messages/named_sums.hpp>
#include <troupe/messages/receiver.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

inline constexpr std::uint32_t kProtocolVersion = 5;

// ---- Connections ---------------------------------------------------------------------------------------------------

// The first frame in each direction, after both ends have proved that they know the token; nothing else is parsed
// before it. A wrong cluster or version closes the connection with a Goodbye that says so.
struct Hello {
  static constexpr Receiver kReceiver = Receiver::link;
  std::uint32_t protocol = kProtocolVersion;
  std::string cluster;
  TaskName from;
  TaskName to;
  Incarnation incarnation;
  // In a call: kSharesMemory if the caller can share memory with tasks on its host. In the reply then: the memory's
  // location, and the caller's next frame is a SharedMemoryAnswer. Else empty.
  std::string memory;
  TROUPE_FIELDS(protocol, cluster, from, to, incarnation, memory)
};

inline constexpr const char* kSharesMemory = "shares memory";

struct Heartbeat {
  static constexpr Receiver kReceiver = Receiver::link;
  std::uint64_t progress = 0;  // increases while the task makes progress
  TROUPE_FIELDS(progress)
};

// Flow-control credit: the receiver has read `bytes` more of bulk data from its socket.
struct Credit {
  static constexpr Receiver kReceiver = Receiver::link;
  std::uint64_t bytes = 0;
  TROUPE_FIELDS(bytes)
};

// The last frame of a connection: why it ends. Code::ok: an orderly end.
struct Goodbye {
  static constexpr Receiver kReceiver = Receiver::link;
  Error reason;
  TROUPE_FIELDS(reason)
};

// ---- Steps: scheduler to scheduler, rendezvous to rendezvous -------------------------------------------------------

// From the client's scheduler to the others: start your partitions of `graph`.
struct StepStart {
  static constexpr Receiver kReceiver = Receiver::scheduler;
  SessionId session;
  GraphId graph;
  StepId step;
  RandomKey random;
  TROUPE_FIELDS(session, graph, step, random)
};

// A remote task's partitions of the step have ended, possibly with an error.
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

// A tensor for the consumer at `key`. Also the reply to a Pull, with the shard's `version`.
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
// The same tasks may train several times. `job` is the number of the frame's job: the coordinator assigns it, larger
// than all earlier ones, and sends it to joining tasks. Frames of earlier jobs are dropped
// (actors/cluster/peer_actor.hpp). `view` is the membership view in which the sender, a worker, joined: frames from
// before a Fence are dropped. 0: no view.
//
// A step of P phases takes P turns: turn = step * P + phase. In each, the variables of one phase are updated. A shard's
// version is the number of turns it has behind it; all else counts steps.

// Asks a shard for slice `slice` (index in the ShardMap) at version >= min_version; answered by a Put to reply_to.
// Synchronous shards answer with exactly min_version while they have it. Asynchronous ones answer once they have
// applied the worker's latest result, of turn `after` - 1 (0: none), whose pushes may arrive later than this.
// `rows`: only these rows of the slice, in this order (messages/row_numbers.hpp); absent: all, or, of a slice on
// demand, the numbers (i64) of its rows that have been updated.
struct Pull {
  static constexpr Receiver kReceiver = Receiver::shard;
  std::uint32_t worker = 0;
  RendezvousKey reply_to;
  std::uint32_t slice = 0;
  std::uint64_t min_version = 0;
  std::uint64_t job = 0;
  std::uint64_t view = 0;
  std::uint64_t after = 0;
  Tensor rows = {};
  bool kept = false;  // the value that the shard keeps (Token::keep), if there is one
  TROUPE_FIELDS(worker, reply_to, slice, min_version, job, view, after, rows, kept)
};

// One slice's gradient of slot `slot` of a phase of step `step` (asynchronous mode: of batch `step`, slot 0). A sparse
// gradient has rows in `gradient` and their row numbers in the slice (messages/row_numbers.hpp) in `indices`; else that
// is absent. pulled_version: the version of the Put that carried this slice's value.
struct Push {
  static constexpr Receiver kReceiver = Receiver::shard;
  std::uint32_t worker = 0;
  std::uint64_t step = 0;
  std::uint32_t phase = 0;
  std::uint32_t slot = 0;
  std::uint32_t slice = 0;
  std::uint64_t pulled_version = 0;
  Tensor gradient;
  Tensor indices;
  std::uint64_t job = 0;
  std::uint64_t view = 0;
  double rate_scale = 1;  // of its token
  bool keep = false;
  TROUPE_FIELDS(worker, step, phase, slot, slice, pulled_version, gradient, indices, job, view, rate_scale, keep)
};

// ---- Training: workers and the coordinator -------------------------------------------------------------------------

// A worker or a shard joins the job; answered by Joined. `fingerprint` covers the ShardMap, the optimizer and the
// training options: all must agree. `settings` lists the options, one "name=value" a line, so that a mismatch can be
// named.
struct Join {
  static constexpr Receiver kReceiver = Receiver::coordinator;
  std::uint32_t worker = 0;
  Incarnation incarnation;
  std::uint64_t fingerprint = 0;
  std::string settings;
  bool shard = false;       // the sender is the shard of index `worker`, not a worker
  std::uint64_t after = 0;  // the number of the last job this task knows: it joins a later one
  TROUPE_FIELDS(worker, incarnation, fingerprint, settings, shard, after)
};

// The reply to a Join: the number of the job, or why the task was rejected.
struct Joined {
  static constexpr Receiver kReceiver = Receiver::members;
  Incarnation incarnation;  // copied from the Join
  std::uint64_t job = 0;
  std::uint64_t step = 0;  // the first of the job; above 0: its parameters are restored from a checkpoint
  Error error;
  std::uint64_t view = 0;  // the worker's membership view
  DataPlace place = {};    // from which it may read the training data
  TROUPE_FIELDS(incarnation, job, step, error, view, place)
};

// A worker is lost or has rejoined: its frames from views below `view` are stale. Sent to all shards, and to the worker
// if such a frame arrives: it may rejoin.
struct Fence {
  static constexpr Receiver kReceiver = Receiver::members;
  std::uint32_t worker = 0;
  std::uint64_t view = 0;
  Error reason;
  std::uint64_t job = 0;
  TROUPE_FIELDS(worker, view, reason, job)
};

// The sender of a Join gives up, for this reason.
struct Leave {
  static constexpr Receiver kReceiver = Receiver::coordinator;
  std::uint32_t worker = 0;
  Incarnation incarnation;  // copied from the Join, like `shard` and `after`
  bool shard = false;
  std::uint64_t after = 0;
  Error reason;
  TROUPE_FIELDS(worker, incarnation, shard, after, reason)
};

// A worker is idle. Answered by a Token with the same `request`, at once or when there is one; a token left by a lost
// worker is sent unrequested, with request 0. A worker numbers its requests from 1; a request that does not exceed all
// earlier ones is a duplicate and dropped.
struct TakeToken {
  static constexpr Receiver kReceiver = Receiver::coordinator;
  std::uint32_t worker = 0;
  std::uint64_t request = 0;
  std::uint64_t job = 0;
  std::uint64_t view = 0;
  TROUPE_FIELDS(worker, request, job, view)
};

enum class TokenKind : std::uint8_t {
  train = 0,     // compute phase `phase` of slot `slot` of step `step`: batch (epoch, batch, slot) of the training data
  evaluate = 1,  // evaluate batch `slot` of the evaluation data at version `min_version`
  finish = 2,    // training is over: `min_version` is the final version, `slot` the chief; enter the barrier
};

struct Token {
  static constexpr Receiver kReceiver = Receiver::worker;
  std::uint64_t request = 0;
  TokenKind kind = TokenKind::train;
  std::uint64_t step = 0;
  std::uint32_t phase = 0;
  std::uint32_t slot = 0;
  std::uint32_t epoch = 0;
  std::uint64_t batch = 0;  // the step's number in its epoch
  std::uint64_t min_version = 0;
  std::uint64_t job = 0;
  double rate_scale = 1;  // factor of the learning rate of its updates
  // Train: shards keep the values before its updates (EpochDecision::keep). Finish: those are the final ones.
  bool keep = false;
  TROUPE_FIELDS(request, kind, step, phase, slot, epoch, batch, min_version, job, rate_scale, keep)
};

// A worker has computed and pushed a train token, or evaluated an evaluate token; or the data has no such batch.
struct TokenDone {
  static constexpr Receiver kReceiver = Receiver::coordinator;
  std::uint32_t worker = 0;
  Token token;
  NamedSums sums;  // over the examples
  std::uint64_t examples = 0;
  bool over = false;  // the data ended before this batch: nothing was computed, and no slot of the step has a batch
  std::uint64_t job = 0;
  std::uint64_t view = 0;
  std::vector<std::uint64_t> position = {};  // DataPlace::position of the step, if its batch had one
  TROUPE_FIELDS(worker, token, sums, examples, over, job, view, position)
};

// A shard has all gradients of (step, phase, slot), or (asynchronous mode) of that phase of batch `step`.
struct Staged {
  static constexpr Receiver kReceiver = Receiver::coordinator;
  std::uint32_t shard = 0;
  std::uint64_t step = 0;
  std::uint32_t phase = 0;
  std::uint32_t slot = 0;
  std::uint64_t version = 0;  // of the shard, after applying it
  std::uint64_t job = 0;
  TROUPE_FIELDS(shard, step, phase, slot, version, job)
};

// The coordinator's choice in a turn with more slots than needed (backup workers). Sent to all shards: apply the mean
// of these, ascending, and drop the others; and to workers that hold another token of the step: it need not be
// computed.
struct Commit {
  static constexpr Receiver kReceiver = Receiver::members;
  std::uint64_t step = 0;
  std::uint32_t phase = 0;
  std::vector<std::uint32_t> slots;
  std::uint64_t job = 0;
  TROUPE_FIELDS(step, phase, slots, job)
};

// From the coordinator to all shards: save when this many steps are applied (asynchronous mode: now) while training
// continues. Answered by Saved once durable.
struct Save {
  static constexpr Receiver kReceiver = Receiver::shard;
  std::uint64_t step = 0;
  std::uint64_t job = 0;
  TROUPE_FIELDS(step, job)
};

struct Saved {
  static constexpr Receiver kReceiver = Receiver::coordinator;
  std::uint32_t shard = 0;
  std::uint64_t step = 0;
  std::string files;  // the files written, one line each, as the manifest needs them
  Error error;
  std::uint64_t job = 0;
  TROUPE_FIELDS(shard, step, files, error, job)
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
  std::uint64_t steps = 0;  // of the whole job
  std::uint64_t job = 0;
  std::uint32_t epochs = 0;  // of the whole job, which may have stopped before its last
  TROUPE_FIELDS(workers, steps, job, epochs)
};

// From the coordinator to every task of the job: it ends, with this error.
struct JobFailed {
  static constexpr Receiver kReceiver = Receiver::members;
  Error error;
  std::uint64_t job = 0;
  TROUPE_FIELDS(error, job)
};

// ---- Data: workers and input tasks ---------------------------------------------------------------------------------
//
// A feed is a worker's use of the input tasks in one training. Batches have numbers, and one content each: any input
// task can make any of them, again if need be. So a lost task loses nothing.

// The first frame of a feed on a link; again once its place is known. `settings` describe the data and how it is cut
// into batches, a "name=value" a line: the input task must have the same.
struct OpenFeed {
  static constexpr Receiver kReceiver = Receiver::input;
  std::uint64_t feed = 0;  // random
  std::string settings;
  DataPlace place;  // the latest known
  TROUPE_FIELDS(feed, settings, place)
};

// Answered by BatchMade, with the same feed and name. `complete`: steps before this batch's need no batches any more.
struct WantBatch {
  static constexpr Receiver kReceiver = Receiver::input;
  std::uint64_t feed = 0;
  BatchName batch;
  BatchName complete;
  TROUPE_FIELDS(feed, batch, complete)
};

struct BatchMade {
  static constexpr Receiver kReceiver = Receiver::feed;
  std::uint64_t feed = 0;
  BatchName batch;
  std::int64_t examples = 0;
  bool over = false;                         // the epoch has no such batch
  std::vector<Tensor> components;            // in the order of the data's schema
  Error error;                               // instead
  std::vector<std::uint64_t> position = {};  // DataPlace::position of the step; mostly none
  TROUPE_FIELDS(feed, batch, examples, over, components, error, position)
};

// The worker wants no more. Without an error the training is over, after so many steps and epochs; else this worker
// leaves it.
struct CloseFeed {
  static constexpr Receiver kReceiver = Receiver::input;
  std::uint64_t feed = 0;
  std::uint64_t steps = 0;
  std::uint32_t epochs = 0;
  Error error;
  TROUPE_FIELDS(feed, steps, epochs, error)
};

// ---- Serving: routers and replicas ---------------------------------------------------------------------------------
//
// A replica tells routers which models it has, and answers requests that they send on. A request changes nothing: one
// that is lost with its replica is sent to another.

// From a router, when it meets the task of a replica; answered by ReplicaModels.
struct WantModels {
  static constexpr Receiver kReceiver = Receiver::replica;
  std::uint32_t format = 1;  // of the state
  TROUPE_FIELDS(format)
};

// From a replica, when a router comes up or asks, and when anything has changed.
struct ReplicaModels {
  static constexpr Receiver kReceiver = Receiver::router;
  std::string state;                 // JSON (actors/serving/replica_state.hpp)
  ModelConfiguration configuration;  // the last that it has of a router
  TROUPE_FIELDS(state, configuration)
};

// Answered by ModelAnswer with the same number.
struct AskModel {
  static constexpr Receiver kReceiver = Receiver::replica;
  std::uint64_t request = 0;  // of the router
  std::string model;
  std::int64_t version = 0;
  std::string signature;
  std::vector<std::string> names;  // of the inputs
  std::vector<Tensor> inputs;
  std::vector<std::string> outputs;  // that are wanted; none: all
  std::int64_t timeout_ns = -1;      // from its arrival on; below 0: none
  std::string trace;                 // the W3C traceparent of the request; "": none
  TROUPE_FIELDS(request, model, version, signature, names, inputs, outputs, timeout_ns, trace)
};

struct ModelAnswer {
  static constexpr Receiver kReceiver = Receiver::router;
  std::uint64_t request = 0;
  std::vector<std::string> names;  // of the outputs
  std::vector<Tensor> outputs;
  Error error;  // instead
  std::int64_t retry_after_ms = 0;
  std::int64_t queued_ns = 0, batched_ns = 0, run_ns = 0;
  TROUPE_FIELDS(request, names, outputs, error, retry_after_ms, queued_ns, batched_ns, run_ns)
};

// The answer is not wanted any more.
struct DropModelRequest {
  static constexpr Receiver kReceiver = Receiver::replica;
  std::uint64_t request = 0;
  TROUPE_FIELDS(request)
};

// Other models from now on. First a trial, in which each replica says whether it would serve them, then the same
// models, decided, which replicas take even if labels name versions that are not ready yet. Answered by
// ModelsConfigured with the same number, and, if they are taken, by ReplicaModels before that.
struct ConfigureModels {
  static constexpr Receiver kReceiver = Receiver::replica;
  std::uint64_t request = 0;  // of the router
  bool decided = false;       // false: a trial
  ModelConfiguration configuration;
  TROUPE_FIELDS(request, decided, configuration)
};

struct ModelsConfigured {
  static constexpr Receiver kReceiver = Receiver::router;
  std::uint64_t request = 0;
  Error error;  // nothing has changed
  TROUPE_FIELDS(request, error)
};

// ---- Collectives: rank to rank -------------------------------------------------------------------------------------

// A piece of a collective (scheduler/collective), or the news that it has failed.
struct CollectivePart {
  static constexpr Receiver kReceiver = Receiver::collective;
  std::uint64_t group = 0;
  std::uint32_t channel = 0;  // operations of one channel are numbered from 0
  std::uint64_t sequence = 0;
  std::string operation;  // the sender's description of the operation; a mismatch ends the group
  std::uint32_t hop = 0;
  std::uint32_t part = 0;
  std::uint32_t piece = 0;
  Tensor tensor;  // flat; none: a control message without data
  Error error;    // the group has failed; all fields in between are empty
  TROUPE_FIELDS(group, channel, sequence, operation, hop, part, piece, tensor, error)
};

// Whether the caller uses the memory offered in the Hello. If so, all later data in both directions passes through it.
struct SharedMemoryAnswer {
  static constexpr Receiver kReceiver = Receiver::link;
  bool used = false;
  TROUPE_FIELDS(used)
};

// A piece of the data that CAF's nodes exchange (actors/network/control.hpp).
struct ControlBytes {
  static constexpr Receiver kReceiver = Receiver::link;
  std::string bytes;
  TROUPE_FIELDS(bytes)
};

#undef TROUPE_FIELDS

// All kinds. The index of a kind is its number on the wire: append only.
using FrameVariant = std::variant<Hello, Heartbeat, Credit, Goodbye, StepStart, StepDone, StepAbort, Put, Pull, Push,
                                  Join, TakeToken, Token, TokenDone, Staged, EpochDone, Barrier, BarrierOpen, JobFailed,
                                  CollectivePart, SharedMemoryAnswer, Joined, Leave, Fence, Commit, Save, Saved,
                                  ControlBytes, OpenFeed, WantBatch, BatchMade, CloseFeed, ReplicaModels, AskModel,
                                  ModelAnswer, DropModelRequest, WantModels, ConfigureModels, ModelsConfigured>;

template <class T, class Variant>
inline constexpr bool is_alternative = false;
template <class T, class... Alternatives>
inline constexpr bool is_alternative<T, std::variant<Alternatives...>> = (std::is_same_v<T, Alternatives> || ...);

// A variant whose copy, move and destructor are compiled once, in frames.cpp, instead of in each source that includes
// this header.
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

std::string_view kind_name(const Frame& frame);  // the name of the type: "Put", "Push"

}  // namespace troupe
