#include "troupe/actors/model/batch_run.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <troupe/actors/model/device_replica.hpp>
#include <troupe/actors/model/joined_rows.hpp>
#include <troupe/graph/placement/placement.hpp>
#include <troupe/scheduler/run/batch_assignments.hpp>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;
using Assignment = BatchAssignments::Assignment;

constexpr std::int64_t kDefaultBatch = 32;
// How often the waiting thread looks whether its own task has failed, and while all devices are lost, whether they
// have been for too long.
constexpr std::chrono::milliseconds kFailureLook{1000}, kDeviceLook{50};

double in_seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

// What replicas tell the thread that runs the batches: their graph is built or cannot be, a step has ended.
struct ReplicaNews {
  std::size_t replica = 0;
  std::optional<Assignment> step{};  // none: it is about the graph
  std::uint64_t life = 0;            // of the replica when the step was started
  StepResult result{};
};

// Outlives the run: steps may end after it.
class NewsBox {
 public:
  void put(ReplicaNews news) {
    const std::lock_guard lock(mutex_);
    news_.push_back(std::move(news));
    came_.notify_one();
  }
  // All that has come, as soon as anything has or it is `end`.
  std::deque<ReplicaNews> take(Clock::time_point end) {
    std::unique_lock lock(mutex_);
    came_.wait_until(lock, end, [this] { return !news_.empty(); });
    return std::exchange(news_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<ReplicaNews> news_;
};

std::vector<DeviceName> devices_of(const Task& task, const std::string& job) {
  std::vector<TaskName> tasks = task.cluster().tasks_of(job);
  if (task.cluster().tasks.empty()) tasks = {task.name()};
  std::vector<DeviceName> out;
  for (const TaskName& name : tasks)
    for (const std::string& device : default_devices(task.devices(), name)) out.push_back(DeviceName::parse(device));
  if (out.empty())
    fail(Code::not_found, "{} has met no task of job '{}' of cluster '{}': join it with that job",
         task.name().to_string(), job, task.cluster().name);
  return out;
}

// The places in the schema of the signature's inputs.
std::vector<std::size_t> components_of(const BatchFunction& function, const BatchSchema& schema) {
  std::vector<std::size_t> out;
  for (const auto& [name, spec] : function.signature.inputs) {
    const auto found = std::ranges::find(schema, name, &BatchComponent::name);
    const std::string wanted = fmt::format("input '{}' {}{} of signature '{}'", name, troupe::name(spec.dtype),
                                           spec.shape.to_string(), function.name);
    if (found == schema.end())
      fail(Code::not_found, "{} has no component of its name in batches of {}", wanted, to_string(schema));
    if (spec.shape.has_rank() && spec.shape.rank() == 0)
      invalid_argument("{} has no first dimension, which batches are cut along", wanted);
    if (found->dtype != spec.dtype ||
        (spec.shape.has_rank() && !spec.shape.sub(1, spec.shape.rank()).compatible_with(found->shape)))
      invalid_argument("{} does not take examples {}{}", wanted, troupe::name(found->dtype), found->shape.to_string());
    out.push_back(static_cast<std::size_t>(found - schema.begin()));
  }
  return out;
}

std::int64_t batch_size(const BatchFunction& function, const BatchSource& source,
                        const BatchInferenceOptions& options) {
  if (options.batch < 0) invalid_argument("batches of {} examples: pass at least 1, or 0", options.batch);
  if (options.batch > 0) return options.batch;
  if (const auto given = source.batch()) return *given;
  for (const auto& [name, spec] : function.signature.inputs)
    if (spec.shape.has_rank() && spec.shape[0] != kUnknown) return spec.shape[0];
  return kDefaultBatch;
}

class BatchRun {
 public:
  BatchRun(Task& task, const BatchFunction& function, const BatchSource& source, const BatchInferenceOptions& options,
           const TakePredictions& take)
      : task_(task),
        function_(function),
        options_(options),
        take_(take),
        components_(components_of(function, source.schema())),
        devices_(devices_of(task, options.job)),
        window_(options.window > 0 ? options.window : 2 * options.in_flight * devices_.size()),
        assignments_({.in_flight = options.in_flight, .window = window_, .repeat_slow = options.repeat_slow}),
        lives_(devices_.size()),
        reader_(source.open({.batch = batch_size(function, source, options),
                             .shuffle = false,
                             .last = LastStep::keep,
                             .in_use = window_,
                             .memory = task.pinned_memory()})) {
    progress_.all_examples = source.examples();
    progress_.all_devices = devices_.size();
  }

  BatchInferenceProgress run() {
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      replicas_.push_back(std::make_unique<DeviceReplica>(
          task_, devices_[i], function_,
          [box = box_, i](const Error& error) { box->put({.replica = i, .result = {.error = error}}); }));
      replicas_.back()->build();
    }
    while (true) {
      if (const Error failed = task_.failure()) throw failed;
      hand_out();
      start_all();
      if (assignments_.over()) return progress_;
      for (ReplicaNews& news : box_->take(wake())) take_news(std::move(news));
      wait_for_devices();
    }
  }

 private:
  // A batch of the window.
  struct Held {
    std::vector<Tensor> feeds;  // until it is computed
    PredictedBatch result;
  };

  void start_all() {
    while (true) {
      if (const auto next = assignments_.assign())
        start(*next);
      else if (assignments_.wants_batch())
        read();
      else
        return;
    }
  }
  void read() {
    const std::uint64_t number = assignments_.handed_out() + assignments_.in_window();
    std::optional<Batch> batch;
    try {
      batch = reader_->read(0, number, 0);
    } catch (...) {
      throw current_error().within(fmt::format("reading batch {}", number));
    }
    if (!batch) return assignments_.end();
    assignments_.add();
    Held& held = held_[number];
    for (const std::size_t i : components_) held.feeds.push_back(batch->components[i]);
    held.result = {.number = number, .first_example = read_, .examples = batch->examples};
    read_ += static_cast<std::uint64_t>(batch->examples);
  }
  void start(const Assignment& step) {
    const RunOptions run{.random_step = static_cast<std::int64_t>(step.batch)};
    try {
      replicas_[step.replica]->start(
          held_.at(step.batch).feeds, run, [box = box_, step, life = lives_[step.replica]](StepResult result) {
            box->put({.replica = step.replica, .step = step, .life = life, .result = std::move(result)});
          });
    } catch (...) {
      throw in_batch(step.batch, current_error());
    }
  }

  void take_news(ReplicaNews&& news) {
    if (!news.step) return graph_built(news);
    if (news.life != lives_[news.replica]) return;  // the replica was lost since
    if (!news.result.error) return step_done(*news.step, std::move(news.result.fetches));
    if (replicas_[news.replica]->lost(news.result.error)) return lose(news.replica, news.result.error);
    if (assignments_.counts(news.step->number)) throw in_batch(news.step->batch, news.result.error);
    static_cast<void>(assignments_.finish(news.step->number));  // another device could compute it
  }
  void graph_built(const ReplicaNews& news) {
    const DeviceReplica& replica = *replicas_[news.replica];
    if (news.result.error)
      throw news.result.error.within(fmt::format("signature '{}' on {}", function_.name, replica.device().to_string()));
    assignments_.join(news.replica);
    if (lives_[news.replica] > 0) tell(fmt::format("{} computes again", replica.device().to_string()));
    tell_progress();
  }
  void step_done(const Assignment& step, std::vector<Tensor> fetches) {
    if (!assignments_.finish(step.number)) return;
    Held& held = held_.at(step.batch);
    held.feeds.clear();
    std::size_t i = 0;
    for (const auto& [name, spec] : function_.signature.outputs)
      held.result.outputs.emplace(name, std::move(fetches[i++]));
  }
  void lose(std::size_t replica, const Error& why) {
    const std::string device = replicas_[replica]->device().to_string();
    const std::vector<std::uint64_t> again = assignments_.lose(replica);
    ++lives_[replica];
    progress_.started_again += again.size();
    last_loss_ = why;
    for (const std::uint64_t batch : again)
      if (assignments_.losses(batch) >= options_.losses_of_batch)
        throw in_batch(batch, Error(Code::unavailable, fmt::format("{} devices were lost while they computed it, the "
                                                                   "last, {}: {}",
                                                                   assignments_.losses(batch), device, why.message())));
    tell(fmt::format("{} is lost, with {} batch{} to start again: {}", device, again.size(),
                     again.size() == 1 ? "" : "es", why.message()));
    replicas_[replica]->build();
    tell_progress();
  }

  void hand_out() {
    while (const auto batch = assignments_.hand_out()) {
      auto held = held_.extract(*batch);
      PredictedBatch& result = held.mapped().result;
      progress_.batches = *batch + 1;
      progress_.examples += static_cast<std::uint64_t>(result.examples);
      take_(std::move(result));
      tell_progress();
    }
  }

  // Throws unavailable if all devices have been lost for too long.
  void wait_for_devices() {
    const bool any = assignments_.replicas() > 0 || std::ranges::any_of(replicas_, [](const auto& replica) {
                       return replica->phase() != DeviceReplica::Phase::waiting;
                     });
    const Clock::time_point now = Clock::now();
    if (any) return alone_since_.reset();
    if (!alone_since_) {
      alone_since_ = now;
      next_word_ = now + options_.wait_word;
    }
    if (now - *alone_since_ >= options_.rejoin_timeout)
      fail(Code::unavailable, "no device of job '{}' has come back within {:g} s: {}{}", options_.job,
           in_seconds(options_.rejoin_timeout), done_text(),
           last_loss_ ? fmt::format("; the last was lost because of: {}", last_loss_.message()) : "");
    if (now < next_word_) return;
    next_word_ = now + options_.wait_word;
    tell(fmt::format("all devices are lost: waits for one of job '{}', for {:.1f} of {:g} s; {}", options_.job,
                     in_seconds(now - *alone_since_), in_seconds(options_.rejoin_timeout), done_text()));
  }
  Clock::time_point wake() const { return Clock::now() + (assignments_.replicas() > 0 ? kFailureLook : kDeviceLook); }

  std::string done_text() const {
    return fmt::format("{} batches, {} examples{} are done", progress_.batches, progress_.examples,
                       progress_.all_examples ? fmt::format(" of {}", *progress_.all_examples) : "");
  }
  Error in_batch(std::uint64_t batch, const Error& error) const {
    const PredictedBatch& at = held_.at(batch).result;
    return error.within(fmt::format("batch {} (examples {} to {})", batch, at.first_example,
                                    at.first_example + static_cast<std::uint64_t>(at.examples) - 1));
  }
  void tell(const std::string& text) const {
    if (options_.on_event) options_.on_event(text);
  }
  void tell_progress() {
    progress_.devices = assignments_.replicas();
    if (options_.on_progress) options_.on_progress(progress_);
  }

  Task& task_;
  const BatchFunction& function_;
  const BatchInferenceOptions& options_;
  const TakePredictions& take_;
  const std::vector<std::size_t> components_;
  const std::vector<DeviceName> devices_;
  const std::size_t window_;
  BatchAssignments assignments_;
  std::vector<std::uint64_t> lives_;  // how often each replica was lost
  const std::unique_ptr<BatchReader> reader_;
  std::uint64_t read_ = 0;  // examples
  std::map<std::uint64_t, Held> held_;
  BatchInferenceProgress progress_;
  Error last_loss_;
  std::optional<Clock::time_point> alone_since_;
  Clock::time_point next_word_;
  const std::shared_ptr<NewsBox> box_ = std::make_shared<NewsBox>();
  std::vector<std::unique_ptr<DeviceReplica>> replicas_;  // their threads use the members above
};

}  // namespace

BatchInferenceProgress run_batches(Task& task, const BatchFunction& function, const BatchSource& source,
                                   const BatchInferenceOptions& options, const TakePredictions& take) {
  return BatchRun(task, function, source, options, take).run();
}

void check_rows(const PredictedBatch& batch) {
  for (const auto& [name, value] : batch.outputs)
    if (value.shape().rank() < 1 || value.shape()[0] != batch.examples)
      invalid_argument("output '{}' is {}{} for {} examples: without a row for each, take the results of batches", name,
                       troupe::name(value.dtype()), value.shape().to_string(), batch.examples);
}

std::map<std::string, Tensor> predict_all(Task& task, const BatchFunction& function, const BatchSource& source,
                                          const BatchInferenceOptions& options) {
  std::map<std::string, std::vector<Tensor>> parts;
  run_batches(task, function, source, options, [&](PredictedBatch&& batch) {
    check_rows(batch);
    for (auto& [name, value] : batch.outputs) parts[name].push_back(std::move(value));
  });
  if (parts.empty() && !function.signature.outputs.empty())
    invalid_argument("the source has no examples to predict from");
  std::map<std::string, Tensor> out;
  for (const auto& [name, rows] : parts) out.emplace(name, joined_rows(name, rows));
  return out;
}

}  // namespace troupe
