#include "troupe/actors/introspection/metrics.hpp"

#include <map>

#include <troupe/actors/introspection/metric_families.hpp>
#include <troupe/actors/introspection/serving_metrics.hpp>

namespace troupe {
namespace {

void add_task(MetricFamilies& f, const TaskSnapshot& task) {
  const std::string& t = task.task;
  f.add_seconds("troupe_uptime_seconds", "gauge", "Time since the task started.", {{"task", t}}, task.uptime_ns);
  f.add("troupe_failed", "gauge", "1 if the task has failed.", {{"task", t}}, std::uint64_t{!task.failure.empty()});
  for (const ActorSnapshot& a : task.actors) {
    const MetricLabels labels{{"task", t}, {"kind", a.kind}, {"name", a.name}};
    f.add("troupe_actor_mailbox", "gauge", "Messages waiting in the mailbox.", labels, a.mailbox);
    f.add("troupe_actor_mailbox_peak", "gauge", "Peak of messages waiting in the mailbox.", labels, a.mailbox_peak);
    f.add("troupe_actor_messages_total", "counter", "Messages handled, in the mailbox or directly by their senders.",
          labels, a.handled + a.passed);
    f.add("troupe_actor_sent_total", "counter", "Messages sent.", labels, a.sent);
    f.add_seconds("troupe_actor_busy_seconds_total", "counter", "Time spent handling messages.", labels, a.busy_ns);
    f.add_seconds("troupe_actor_current_seconds", "gauge", "Age of the message being handled, 0 if idle.", labels,
                  a.current_ns);
    f.add_seconds("troupe_actor_waits_seconds", "gauge", "Age of the actor's wait, 0 if it waits for nothing.", labels,
                  a.waits_ns);
    f.add("troupe_actor_restarts_total", "counter", "Restarts of the actor.", labels, a.restarts);
  }
  for (const DeviceSnapshot& d : task.devices) {
    const MetricLabels labels{{"task", t}, {"device", d.name}};
    f.add_seconds("troupe_device_busy_seconds_total", "counter", "Busy time of the compute stream.", labels, d.busy_ns);
    f.add("troupe_device_nodes_total", "counter", "Nodes run.", labels, d.nodes_run);
    f.add("troupe_device_queue", "gauge", "Unfinished segments on the compute stream.", labels, d.queue);
    f.add("troupe_device_bytes_in_use", "gauge", "Memory of live tensors.", labels, d.bytes_in_use);
    f.add("troupe_device_bytes_peak", "gauge", "Peak memory of live tensors.", labels, d.peak_bytes);
    f.add("troupe_device_bytes_cached", "gauge", "Released memory kept for reuse.", labels, d.cached_bytes);
    f.add("troupe_device_bytes_limit", "gauge", "Memory limit, 0 if none.", labels, d.limit_bytes);
    f.add("troupe_device_lost", "gauge", "1 if the device is lost.", labels, std::uint64_t{!d.failure.empty()});
    if (d.type != "CPU")
      f.add("troupe_device_bytes_pinned", "gauge", "Pinned host memory for copies to and from the device.", labels,
            d.pinned_bytes);
    if (d.recordings + d.recording_refusals == 0) continue;
    f.add("troupe_device_recordings_total", "counter", "Kernel sequences recorded as CUDA graphs.", labels,
          d.recordings);
    f.add("troupe_device_recording_launches_total", "counter", "Launches of recordings.", labels, d.recording_launches);
    f.add("troupe_device_recording_refusals_total", "counter",
          "Kernel sequences that could not be recorded, or not launched as one.", labels, d.recording_refusals);
  }
  for (const ShardSnapshot& s : task.shards) {
    const MetricLabels labels{{"task", t}, {"shard", std::to_string(s.shard)}};
    f.add("troupe_shard_bytes", "gauge", "Bytes of the shard's parameters.", labels, s.bytes);
    f.add("troupe_shard_version", "gauge", "Updates applied to the shard's parameters.", labels, s.version);
    f.add("troupe_shard_staged", "gauge", "Gradients received for the next version.", labels, s.staged);
    f.add("troupe_shard_needed", "gauge", "Gradients that the next version needs.", labels, s.needed);
    f.add("troupe_shard_parked_pulls", "gauge", "Pulls waiting for a version.", labels, s.parked);
    for (const auto& [what, count] : s.counts)
      f.add("troupe_shard_events_total", "counter", "Gradients received, dropped and applied.",
            {{"task", t}, {"shard", std::to_string(s.shard)}, {"what", what}}, count);
    for (std::size_t i = 0; i < s.staleness.size(); ++i)
      f.add("troupe_shard_staleness_total", "counter",
            "Gradients by staleness in updates; the last bucket is open-ended.",
            {{"task", t}, {"shard", std::to_string(s.shard)}, {"updates", std::to_string(i)}}, s.staleness[i]);
  }
  if (task.job) {
    const JobSnapshot& j = *task.job;
    f.add("troupe_job_step", "counter", "Completed steps of the training job.", {{"task", t}}, j.step);
    f.add("troupe_job_steps", "gauge", "All steps of the training job.", {{"task", t}}, j.steps);
    f.add("troupe_job_epoch", "gauge", "Epoch of the training job, from 1.", {{"task", t}}, j.epoch);
    std::map<std::string, std::uint64_t> members;
    for (const MemberSnapshot& m : j.members) ++members[m.state];
    for (const auto& [state, count] : members)
      f.add("troupe_job_workers", "gauge", "Workers by state.", {{"task", t}, {"state", state}}, count);
    for (const auto& [what, count] : j.counts)
      f.add("troupe_job_events_total", "counter", "Events counted by the coordinator.", {{"task", t}, {"what", what}},
            count);
  }
  if (task.training) {
    const TrainingSnapshot& s = *task.training;
    f.add("troupe_training_steps_total", "counter", "Steps, or slots of steps, computed by the task.", {{"task", t}},
          s.steps);
    f.add("troupe_training_examples_total", "counter", "Examples computed by the task.", {{"task", t}}, s.examples);
    f.add("troupe_training_loss", "gauge", "Mean loss of the last step or slot.", {{"task", t}}, s.loss);
  }
  for (const PipelineSnapshot& p : task.pipelines) {
    const MetricLabels labels{{"task", t}, {"data", p.data}};
    f.add("troupe_pipeline_batches_total", "counter", "Batches made.", labels, p.made);
    f.add("troupe_pipeline_batches_waited_total", "counter", "Batches that were not made yet when they were wanted.",
          labels, p.waited);
    f.add("troupe_pipeline_kept_bytes", "gauge", "Bytes of batches kept until their steps are complete.", labels,
          p.kept_bytes);
    for (const StageSnapshot& stage : p.stages) {
      const MetricLabels of_stage{{"task", t}, {"data", p.data}, {"stage", stage.name}};
      f.add("troupe_pipeline_elements_total", "counter", "Elements made by the stage.", of_stage, stage.elements);
      f.add("troupe_pipeline_busy_seconds_total", "counter", "Time spent in the stage, by all threads.", of_stage,
            static_cast<double>(stage.busy_ns) * 1e-9);
      f.add("troupe_pipeline_held_bytes", "gauge", "Bytes in the stage's buffers.", of_stage, stage.held_bytes);
      f.add("troupe_pipeline_skipped_records_total", "counter", "Damaged records left out.", of_stage,
            stage.skipped_records);
    }
  }
  add_serving_metrics(f, task);
  for (const LinkSnapshot& l : task.links) {
    const MetricLabels labels{{"task", t}, {"peer", l.peer}};
    f.add("troupe_link_up", "gauge", "1 if the link is up.", labels, std::uint64_t{l.up});
    f.add("troupe_link_suspect", "gauge", "1 if the peer has been silent for a while.", labels,
          std::uint64_t{l.suspect});
    f.add("troupe_link_stalled", "gauge", "1 if bulk data is waiting for credit.", labels, std::uint64_t{l.stalled});
    f.add("troupe_link_bytes_sent_total", "counter", "Bytes sent, headers included.", labels, l.bytes_sent);
    f.add("troupe_link_bytes_received_total", "counter", "Bytes received, headers included.", labels, l.bytes_received);
    f.add("troupe_link_frames_sent_total", "counter", "Frames sent.", labels, l.frames_sent);
    f.add("troupe_link_frames_received_total", "counter", "Frames received.", labels, l.frames_received);
    f.add("troupe_link_queued_bytes", "gauge", "Bytes waiting to be sent.", labels, l.queued_bytes);
  }
}

}  // namespace

std::string to_metrics(const ClusterSnapshot& snapshot) {
  MetricFamilies families;
  for (const TaskReport& report : snapshot.tasks) {
    families.add("troupe_up", "gauge", "1 if the task answered.", {{"task", report.task}},
                 std::uint64_t{report.answered});
    if (report.snapshot) add_task(families, *report.snapshot);
  }
  return families.text();
}

}  // namespace troupe
