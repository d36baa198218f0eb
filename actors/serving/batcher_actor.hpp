// Joins the requests of one signature of one version to batches (scheduler/serving/batch_queue.hpp), starts their steps
// and hands out the rows. Detached: joining large rows must not hold up other actors.
//
// Requests whose rows differ in shape, like texts of different lengths, wait in queues of their own.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/base/counted.hpp>
#include <troupe/actors/serving/loaded_servable.hpp>
#include <troupe/actors/serving/serving_protocol.hpp>

namespace troupe {

// A request of several rows, on its way through a batcher. Answers once: if it is dropped, with unavailable.
struct BatchedCall {
  BatchedCall() = default;
  BatchedCall(const BatchedCall&) = delete;
  BatchedCall& operator=(const BatchedCall&) = delete;
  ~BatchedCall();
  void answer(ServingResult result);

  std::uint64_t id = 0;
  std::vector<Tensor> inputs{};  // in the order of their names, each [rows,...]
  std::int64_t rows = 0;
  std::vector<std::string> outputs{};  // that are wanted; none: all
  Nanoseconds deadline = BatchQueue::kNever;
  Nanoseconds since = 0;
  std::uint64_t traced = 0;  // ServingRequest::traced
  std::function<void(ServingResult)> done{};

  // Used by the batcher alone.
  std::map<std::int64_t, std::vector<Tensor>> results{};  // of parts, by first row
  std::int64_t rows_done = 0;
  ServingTimes times{};
  bool over = false;  // answered, or cancelled: its other parts are not wanted
};

// "[784] [2,3]", of inputs [rows,...]: requests with different ones wait apart.
std::string row_shapes(const std::vector<Tensor>& inputs);

// The inputs fit the signature (ModelCallable::check). Throws invalid_argument if their numbers of rows differ.
std::shared_ptr<ServingCall> start_batched(const BatcherActor& batcher, const ModelCallable& function,
                                           std::vector<Tensor> inputs, ServingRequest request,
                                           const std::function<void(ServingResult)>& done);

class BatcherActorImpl final : public Counted<BatcherActor> {
 public:
  BatcherActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, ModelCallable function,
                   BatchQueue::Options options, std::shared_ptr<ServingStatistics> statistics)
      : Counted(config, std::move(record)),
        function_(std::move(function)),
        options_(std::move(options)),
        statistics_(std::move(statistics)) {}
  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  struct Group {
    explicit Group(const BatchQueue::Options& options) : queue(options) {}
    BatchQueue queue;
    std::map<std::uint64_t, std::shared_ptr<BatchedCall>> calls{};  // with rows that wait
  };

  void inspect(ActorDetails& out) const override;
  void take(const std::shared_ptr<BatchedCall>& call);
  void cancel(std::uint64_t request);
  void ended(const RunningBatch& batch, StepResult result);
  void hand_out(const RunningBatch& batch, std::vector<Tensor> results, Nanoseconds now);
  // Starts what is due and answers what is too late, and asks to be woken for the rest.
  void go_on();
  void run(const std::string& shapes, Group& group, BatchQueue::Batch batch, Nanoseconds now);
  std::vector<Tensor> join(const RunningBatch& batch, std::int64_t padded) const;
  void cancel_if_unwanted(const RunningBatch& batch) const;
  void trace_steps(Trace& trace, const RunningBatch& batch) const;

  ModelCallable function_;
  const std::string who_ = record().name;  // "digits/3:predict"
  const BatchQueue::Options options_;
  const std::shared_ptr<ServingStatistics> statistics_;
  std::map<std::string, Group> groups_;  // by the shapes of a row
  std::vector<std::shared_ptr<RunningBatch>> running_;
  std::uint64_t batches_ = 0;       // that were started
  std::int64_t waiting_shown_ = 0;  // rows, in the statistics
  Nanoseconds next_tick_ = BatchQueue::kNever;
};

}  // namespace troupe
