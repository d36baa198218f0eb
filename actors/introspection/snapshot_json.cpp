// Conversion of snapshots to and from JSON, for the page, troupe-top and scripts.
#include <algorithm>

#include <troupe/actors/base/snapshot.hpp>
#include <troupe/actors/http/json_text.hpp>

namespace nlohmann {

template <class T>
struct adl_serializer<std::optional<T>> {
  static void to_json(json& out, const std::optional<T>& value) { out = value ? json(*value) : json(nullptr); }
  static void from_json(const json& in, std::optional<T>& value) {
    if (in.is_null())
      value.reset();
    else
      value = in.get<T>();
  }
};

}  // namespace nlohmann

namespace troupe {

namespace {

// Converts to any type: counts the fields of an aggregate.
struct AnyValue {
  template <class T>
  operator T() const;
};
template <class T, class... Values>
constexpr std::size_t field_count() {
  if constexpr (requires { T{Values{}..., AnyValue{}}; })
    return field_count<T, Values..., AnyValue>();
  else
    return sizeof...(Values);
}
constexpr std::size_t count_names(std::string_view list) {
  return 1 + static_cast<std::size_t>(std::ranges::count(list, ','));
}

}  // namespace

// Names all fields of `Type`: a forgotten one does not compile.
#define TROUPE_JSON(Type, ...)                                       \
  NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Type, __VA_ARGS__) \
  static_assert(field_count<Type>() == count_names(#__VA_ARGS__), #Type " has fields that JSON does not");

NLOHMANN_JSON_SERIALIZE_ENUM(WaitThing::State, {{WaitThing::State::waits, "waits"},
                                                {WaitThing::State::works, "works"},
                                                {WaitThing::State::stuck, "stuck"},
                                                {WaitThing::State::never, "never"}})
TROUPE_JSON(WaitThing, id, text, task, state, for_ns)
TROUPE_JSON(Wait, waiter, awaited, kind, text, have, need, for_ns)
TROUPE_JSON(Waiting, things, waits)
TROUPE_JSON(ActorSnapshot, kind, name, state, mailbox, mailbox_peak, handled, passed, sent, restarts, busy_ns, current,
            current_ns, waits_for, waits_ns, messages, peers)
TROUPE_JSON(TensorUse, name, type, bytes, count)
TROUPE_JSON(DeviceSnapshot, name, type, busy_ns, nodes_run, running, queue, failure, bytes_in_use, peak_bytes,
            cached_bytes, limit_bytes, allocations, reuses, pinned_bytes, largest, recordings, recording_launches,
            recording_refusals, last_refusal)
TROUPE_JSON(ShardSnapshot, shard, job, slices, bytes, version, staged, needed, missing, parked, counts, staleness,
            waits_for)
TROUPE_JSON(MemberSnapshot, task, state, tokens)
TROUPE_JSON(JobSnapshot, job, mode, stage, view, epoch, epochs, step, steps, members, counts, waits_for)
TROUPE_JSON(StepRecord, step, slot, begin_ns, took_ns, loss, examples)
TROUPE_JSON(TrainingSnapshot, mode, epoch, epochs, step, all_steps, steps, examples, loss, doing, doing_ns, metrics,
            recent)
TROUPE_JSON(StageSnapshot, name, elements, busy_ns, busy, held_bytes, skipped_records)
TROUPE_JSON(PipelineSnapshot, data, feeds, made, waited, wanted, making, kept, kept_bytes, makers, ahead, stages)
TROUPE_JSON(LatencySnapshot, count, sum_ns, longest_ns, buckets)
TROUPE_JSON(ServableSnapshot, model, version, state, error, labels, bytes, in_flight, waiting_rows, requests, stages,
            batches, batch_rows)
TROUPE_JSON(RequestLogSnapshot, written, bytes, left_out, errors, error)
TROUPE_JSON(LinkSnapshot, peer, up, shared_memory, suspect, stalled, bytes_sent, bytes_received, frames_sent,
            frames_received, queued_frames, queued_bytes, credit, window, heard_ns, progress_ns)
TROUPE_JSON(TaskSnapshot, format, task, cluster, incarnation, pid, version, unix_ns, uptime_ns, failure, actors,
            devices, shards, job, training, pipelines, servables, request_log, links, waiting)
TROUPE_JSON(TaskReport, task, address, answered, error, took_ns, snapshot)
TROUPE_JSON(ClusterSnapshot, format, cluster, asked, unix_ns, tasks)

namespace {

template <class T>
T parse(std::string_view text, const char* what) {
  try {
    const auto json = nlohmann::json::parse(text);
    const int format = json.value("format", 0);
    if (format > kSnapshotFormat)
      fail(Code::failed_precondition,
           "the {} has format {}, written by a later Troupe; this program reads formats up to {}", what, format,
           kSnapshotFormat);
    return json.get<T>();
  } catch (const nlohmann::json::exception& error) {
    invalid_argument("malformed {}: {}", what, error.what());
  }
}

}  // namespace

std::string to_json(const TaskSnapshot& snapshot) { return json_text(snapshot); }
std::string to_json(const ClusterSnapshot& snapshot) { return json_text(snapshot); }
TaskSnapshot parse_task_snapshot(std::string_view json) { return parse<TaskSnapshot>(json, "snapshot of a task"); }
ClusterSnapshot parse_cluster_snapshot(std::string_view json) {
  return parse<ClusterSnapshot>(json, "snapshot of a cluster");
}

}  // namespace troupe
