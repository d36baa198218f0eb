// Snapshots of a task and of a cluster, as plain data and as JSON (snapshot_json.cpp; member names are the JSON keys).
// Counters run from the start of their actor; take two snapshots for rates. Times are in nanoseconds; `unix_ns` is
// wall-clock time, all others are durations.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/messages/error.hpp>
#include <troupe/scheduler/waits/wait_graph.hpp>

namespace troupe {

inline constexpr int kSnapshotFormat = 1;

struct ActorSnapshot {
  std::string kind;   // "scheduler", "shard"
  std::string name;   // "/job:ps/task:1"
  std::string state;  // "idle", "busy" (handling a message), "waits" (idle, awaiting something), "failed"
  std::uint64_t mailbox = 0;
  std::uint64_t mailbox_peak = 0;
  std::uint64_t handled = 0;
  std::uint64_t passed = 0;  // handled by their senders, on the senders' threads
  std::uint64_t sent = 0;
  std::uint64_t restarts = 0;
  std::int64_t busy_ns = 0;
  std::string current;          // the message being handled; "" if none
  std::int64_t current_ns = 0;  // age of that message
  std::string waits_for;        // in words; "" if none
  std::int64_t waits_ns = 0;
  std::map<std::string, std::uint64_t> messages;  // handled, by type
  std::map<std::string, std::uint64_t> peers;     // source tasks of its last messages (the flight record), with counts
};

struct TensorUse {
  std::string name;         // of the producing node, or of the variable
  std::string type;         // "f32[784,128]"
  std::uint64_t bytes = 0;  // per tensor
  std::uint64_t count = 1;  // tensors of this name, type and size
};

struct DeviceSnapshot {
  std::string name;
  std::string type;          // "CPU"
  std::int64_t busy_ns = 0;  // busy time of its compute stream
  std::uint64_t nodes_run = 0;
  std::string running;      // "MatMul 'dense/matmul'"; "" if idle
  std::uint64_t queue = 0;  // segments enqueued and unfinished
  std::string failure;      // why the device has stopped; "" if it works
  std::uint64_t bytes_in_use = 0, peak_bytes = 0, cached_bytes = 0, limit_bytes = 0, allocations = 0,
                reuses = 0;        // as AllocatorStats
  std::uint64_t pinned_bytes = 0;  // host memory, in use and cached, for copies to and from this device
  std::vector<TensorUse> largest;  // live tensors, at most 8 kinds
  std::uint64_t recordings = 0, recording_launches = 0,
                recording_refusals = 0;  // as RecordingStats (devices/recording.hpp)
  std::string last_refusal;
};

struct ShardSnapshot {
  std::uint32_t shard = 0;
  std::uint64_t job = 0;
  std::uint64_t slices = 0;
  std::uint64_t bytes = 0;  // of parameters
  std::uint64_t version = 0;
  std::uint64_t staged = 0, needed = 0;  // for the next version
  std::vector<std::uint32_t> missing;    // its missing slots
  std::uint64_t parked = 0;              // waiting pulls
  // ShardCounters
  std::map<std::string, std::uint64_t> counts;  // pulls, parked_ever, pushes, duplicates, stale, uncommitted, fenced,
                                                // refused, abandoned, batches, updates, staged_bytes
  std::vector<std::uint64_t> staleness;         // ShardCounters::staleness
  std::string waits_for;
};

struct MemberSnapshot {
  std::string task;
  std::string state;                // "expected", "joined", "suspect", "lost", "in barrier"
  std::vector<std::string> tokens;  // tokens held: "step 7 slot 1"
};

// The coordinator of a training job.
struct JobSnapshot {
  std::uint64_t job = 0;
  std::string mode;   // "sync", "async", "ssp"
  std::string stage;  // "training"
  std::uint64_t view = 0;
  std::uint64_t epoch = 0, epochs = 0;  // counted from 1
  std::uint64_t step = 0, steps = 0;    // complete, total
  std::vector<MemberSnapshot> members;
  std::map<std::string, std::uint64_t> counts;  // JobCounters
  std::string waits_for;
};

struct StepRecord {
  std::uint64_t step = 0;
  std::uint32_t slot = 0;
  std::int64_t begin_ns = 0;  // ns before the snapshot was taken
  std::int64_t took_ns = 0;
  double loss = 0;  // mean over its examples
  std::uint64_t examples = 0;
};

// Progress of this task's own training loop.
struct TrainingSnapshot {
  std::string mode;  // "local", "sync", "async", "ssp", "allreduce"
  std::uint64_t epoch = 0, epochs = 0;
  std::uint64_t step = 0;       // current step of the job
  std::uint64_t all_steps = 0;  // of the job; 0 if unknown to this task (its coordinator knows)
  std::uint64_t steps = 0;      // micro-batches or steps computed by this task
  std::uint64_t examples = 0;   // computed by this task
  double loss = 0;              // of the last step or slot
  std::string doing;            // "computes step 7, slot 1", "waits for a token"; "" if idle
  std::int64_t doing_ns = 0;
  std::map<std::string, double> metrics;  // of the last complete epoch: "train_accuracy", "test_accuracy"
  std::vector<StepRecord> recent;         // oldest first, at most 128
};

// A stage of a pipeline, on this task.
struct StageSnapshot {
  std::string name;              // "map decode"
  std::uint64_t elements = 0;    // made
  std::int64_t busy_ns = 0;      // of all threads, without the stage's inputs
  double busy = 0;               // part of the last second or so that one thread would have worked on it
  std::uint64_t held_bytes = 0;  // in buffers
  std::uint64_t skipped_records = 0;
};

// Data of a training that this task makes batches of, for its own loop or for workers. A loop that reads in place is
// its own maker: it makes a batch when it wants it, and waits for none.
struct PipelineSnapshot {
  std::string data;                    // "training", "evaluation"
  std::uint64_t feeds = 0;             // loops that take batches
  std::uint64_t made = 0, waited = 0;  // batches; waited: not made yet when they were wanted
  std::uint64_t wanted = 0, making = 0, kept = 0, kept_bytes = 0;  // batches, now
  std::uint64_t makers = 0;                                        // threads used at a time
  std::uint64_t ahead = 0;                                         // batches made ahead at most
  std::vector<StageSnapshot> stages;                               // the source first
};

// Durations (actors/base/latency_histogram.hpp).
struct LatencySnapshot {
  std::uint64_t count = 0;
  std::int64_t sum_ns = 0;
  std::int64_t longest_ns = 0;
  std::vector<std::uint64_t> buckets;  // counts, without the empty ones at the end
};

// A version of a served model.
struct ServableSnapshot {
  std::string model;
  std::int64_t version = 0;
  std::string state;                // "New", "Loading", "Ready", "Quiescing", "Unloading", "Unloaded", "Error"
  std::string error;                // of the last attempt to load it, or why it is not loaded; "": none
  std::vector<std::string> labels;  // "stable"
  std::uint64_t bytes = 0;
  std::uint64_t in_flight = 0;                    // requests
  std::uint64_t waiting_rows = 0;                 // for a batch
  std::map<std::string, std::uint64_t> requests;  // that have ended: "ok", or the error's code
  std::map<std::string, LatencySnapshot> stages;  // "parse", "queue", "batch", "run", "serialise", "total"
  std::vector<std::uint64_t> batches;             // that have run, of 1, 2, 3-4, 5-8, 9-16, ... rows
  std::uint64_t batch_rows = 0;                   // of all these batches
};

// The files that a share of a server's requests is written to.
struct RequestLogSnapshot {
  std::uint64_t written = 0, bytes = 0;  // requests, and what they take in the files
  // Requests that were chosen, but not written, by reason: "queue": too many waited; "size": larger than a file or than
  // what may wait; "format": a record cannot have them; "error": a file could not be written, then or before.
  std::map<std::string, std::uint64_t> left_out;
  std::uint64_t errors = 0;  // of writing files
  std::string error;         // why nothing is written any more; "": it is
};

struct LinkSnapshot {
  std::string peer;
  bool up = false;
  bool shared_memory = false;
  bool suspect = false;
  bool stalled = false;  // bulk data is waiting for credit
  std::uint64_t bytes_sent = 0, bytes_received = 0, frames_sent = 0, frames_received = 0;
  std::uint64_t queued_frames = 0, queued_bytes = 0, credit = 0, window = 0;
  std::int64_t heard_ns = 0;     // since anything was received
  std::int64_t progress_ns = 0;  // since the peer's heartbeats last showed progress
};

struct TaskSnapshot {
  int format = kSnapshotFormat;
  std::string task;
  std::string cluster;
  std::string incarnation;  // hexadecimal
  std::int64_t pid = 0;
  std::string version;  // of Troupe
  std::int64_t unix_ns = 0;
  std::int64_t uptime_ns = 0;
  std::string failure;                // of the task; "": none
  std::vector<ActorSnapshot> actors;  // in the order of their kinds (actor_kind.hpp)
  std::vector<DeviceSnapshot> devices;
  std::vector<ShardSnapshot> shards;
  std::optional<JobSnapshot> job;
  std::optional<TrainingSnapshot> training;
  std::vector<PipelineSnapshot> pipelines;
  std::vector<ServableSnapshot> servables;  // by model and version
  std::optional<RequestLogSnapshot> request_log;
  std::vector<LinkSnapshot> links;
  Waiting waiting;
};

struct TaskReport {
  std::string task;
  std::string address;  // of its introspector; "" if unknown because not met yet
  bool answered = false;
  std::string error;  // why there is no snapshot: "no answer within 0.9 s"
  std::int64_t took_ns = 0;
  std::optional<TaskSnapshot> snapshot;
};

struct ClusterSnapshot {
  int format = kSnapshotFormat;
  std::string cluster;
  std::string asked;  // the queried task, which asked the others
  std::int64_t unix_ns = 0;
  std::vector<TaskReport> tasks;  // ps before worker, by index
};

std::string to_json(const TaskSnapshot& snapshot);
std::string to_json(const ClusterSnapshot& snapshot);
// Throw invalid_argument naming the malformed part, or failed_precondition for a later format.
TaskSnapshot parse_task_snapshot(std::string_view json);
ClusterSnapshot parse_cluster_snapshot(std::string_view json);

// Explains the waits in the cluster (scheduler/waits/wait_graph.hpp); tasks that did not answer count as causes.
WaitAnalysis analyse(const ClusterSnapshot& snapshot);

}  // namespace troupe
