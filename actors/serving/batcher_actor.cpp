#include "troupe/actors/serving/batcher_actor.hpp"

#include <algorithm>
#include <caf/send.hpp>
#include <chrono>
#include <utility>

#include <troupe/actors/model/joined_rows.hpp>
#include <troupe/actors/serving/traced_requests.hpp>
#include <troupe/messages/caf/instances.hpp>

namespace troupe {

// A batch whose step runs.
struct RunningBatch {
  std::string shapes{};  // its group
  std::uint64_t number = 0;
  std::vector<BatchQueue::Part> parts{};
  std::vector<std::shared_ptr<BatchedCall>> calls{};  // of the parts
  std::int64_t rows = 0, padded = 0;
  Nanoseconds begin = 0, joined = 0;
  StepId step{};
};

namespace {

// The client's end of a call, which does not keep it: it is answered when its batcher drops it.
class BatchedRequest final : public ServingCall {
 public:
  BatchedRequest(BatcherActor batcher, std::uint64_t id) : batcher_(std::move(batcher)), id_(id) {}
  void cancel() override { caf::anon_send(batcher_, CancelRequest{id_}); }

 private:
  const BatcherActor batcher_;
  const std::uint64_t id_;
};

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

std::string row_shapes(const std::vector<Tensor>& inputs) {
  std::string out;
  for (const Tensor& x : inputs) out += x.shape().sub(1, x.shape().rank()).to_string();
  return out;
}

BatchedCall::~BatchedCall() {
  if (done)
    answer({.error = Error(Code::unavailable,
                           "what joins requests has ended, as its version is unloaded or as it failed: ask again")});
}

void BatchedCall::answer(ServingResult result) {
  over = true;
  if (const auto take = std::exchange(done, nullptr)) {
    result.times = times;
    take(std::move(result));
  }
}

std::shared_ptr<ServingCall> start_batched(const BatcherActor& batcher, const ModelCallable& function,
                                           std::vector<Tensor> inputs, ServingRequest request,
                                           const std::function<void(ServingResult)>& done) {
  const std::int64_t rows = inputs.front().shape()[0];
  std::size_t i = 0;
  for (const auto& [name, spec] : function.signature().inputs)
    if (const std::int64_t own = inputs[i++].shape()[0]; own != rows)
      invalid_argument("input '{}' has {} rows, '{}' has {}: they must be as many", name, own,
                       function.signature().inputs.begin()->first, rows);
  auto call = std::make_shared<BatchedCall>();
  call->id = next_id();
  call->inputs = std::move(inputs);
  call->rows = rows;
  call->outputs = std::move(request.outputs);
  call->deadline = request.deadline;
  call->since = steady_now_ns();
  call->traced = request.traced;
  call->done = done;
  auto cancels = std::make_shared<BatchedRequest>(batcher, call->id);
  caf::anon_send(batcher, BatchRequest{std::move(call)});
  return cancels;
}

BatcherActorImpl::behavior_type BatcherActorImpl::make_behavior() {
  tell_of_itself();
  return {
      [this](const BatchRequest& message) {
        take(message.call);
        go_on();
      },
      [this](const CancelRequest& message) {
        cancel(message.request);
        go_on();
      },
      [this](const BatchEnded& message) {
        ended(*message.batch, std::move(*message.result));
        go_on();
      },
      [this](const Tick&) {
        next_tick_ = BatchQueue::kNever;
        go_on();
      },
      [this](const Stop&) { quit(); },
  };
}

// Handles, or a Tick that is under way, keep this object: what waits is answered now, and the model is let go.
void BatcherActorImpl::on_exit() {
  stop_telling();
  groups_.clear();
  statistics_->waiting(-std::exchange(waiting_shown_, 0));
  for (const auto& batch : running_) {
    function_.cancel(batch->step);
    batch->calls.clear();
  }
  running_.clear();
  function_ = {};
  Counted::on_exit();
}

void BatcherActorImpl::inspect(ActorDetails& out) const {
  const Nanoseconds now = steady_now_ns();
  const std::string& name = who_;
  const std::string fills = "batch/" + name;
  for (const auto& batch : running_)
    out.waiting.things.push_back({.id = fmt::format("batch/{}/{}", name, batch->number),
                                  .text = fmt::format("a batch of {} rows of {}", batch->rows, name),
                                  .state = WaitThing::State::works,
                                  .for_ns = now - batch->begin});
  for (const auto& [shapes, group] : groups_) {
    const std::int64_t rows = group.queue.waiting_rows();
    if (rows == 0) continue;
    const Nanoseconds waited = group.queue.longest_wait(now);
    const std::string id = fmt::format("requests/{}/{}", name, shapes);
    out.waiting.things.push_back({.id = id,
                                  .text = fmt::format("{} requests of {}", group.queue.waiting_requests(), name),
                                  .state = WaitThing::State::waits,
                                  .for_ns = waited});
    for (const auto& batch : running_)
      if (batch->shapes == shapes)
        out.waiting.waits.push_back({.waiter = id,
                                     .awaited = fmt::format("batch/{}/{}", name, batch->number),
                                     .kind = "batch",
                                     .text = "the batch before theirs runs",
                                     .for_ns = waited});
    if (group.queue.running() == 0) {
      out.waiting.things.push_back({.id = fills,
                                    .text = fmt::format("a batch of {} that fills", name),
                                    .state = WaitThing::State::works,
                                    .for_ns = waited});
      out.waiting.waits.push_back({.waiter = id,
                                   .awaited = fills,
                                   .kind = "batch",
                                   .text = fmt::format("{} of {} rows are there", rows, options_.most_rows),
                                   .have = static_cast<std::uint64_t>(rows),
                                   .need = static_cast<std::uint64_t>(options_.most_rows),
                                   .for_ns = waited});
    }
    out.waits_for = fmt::format("{} rows wait for a batch", rows);
    out.waits_ns = std::max(out.waits_ns, waited);
  }
}

void BatcherActorImpl::take(const std::shared_ptr<BatchedCall>& call) {
  Group& group = groups_.try_emplace(row_shapes(call->inputs), options_).first->second;
  std::int64_t elsewhere = 0;
  for (const auto& [shapes, other] : groups_)
    if (&other != &group) elsewhere += other.queue.waiting_rows();
  const BatchQueue::Request request{.id = call->id, .rows = call->rows, .deadline = call->deadline};
  if (const Error refused = group.queue.add(request, steady_now_ns(), elsewhere)) {
    const bool again = refused.code() == Code::unavailable;
    return call->answer({.error = refused, .retry_after_ms = again ? group.queue.retry_after_ms() : 0});
  }
  group.calls.emplace(call->id, call);
}

void BatcherActorImpl::cancel(std::uint64_t request) {
  const Error why(Code::cancelled, "the request was cancelled");
  for (auto& [shapes, group] : groups_) {
    const auto waiting = group.calls.find(request);
    if (waiting == group.calls.end()) continue;
    group.queue.cancel(request);
    waiting->second->answer({.error = why});
    group.calls.erase(waiting);
    break;
  }
  for (const auto& batch : running_)
    for (const auto& call : batch->calls)
      if (call->id == request) {
        call->answer({.error = why});
        cancel_if_unwanted(*batch);
      }
}

void BatcherActorImpl::cancel_if_unwanted(const RunningBatch& batch) const {
  if (std::ranges::all_of(batch.calls, [](const auto& call) { return call->over; })) function_.cancel(batch.step);
}

void BatcherActorImpl::go_on() {
  const Nanoseconds now = steady_now_ns();
  Nanoseconds wake = BatchQueue::kNever;
  for (auto at = groups_.begin(); at != groups_.end();) {
    Group& group = at->second;
    for (const std::uint64_t late : group.queue.expired(now)) {
      const auto call = group.calls.extract(late).mapped();
      call->times.queued = now - call->since;
      call->answer(
          {.error = Error(Code::deadline_exceeded, "the deadline passed while the request waited for a batch")});
    }
    while (auto batch = group.queue.next(now)) run(at->first, group, std::move(*batch), now);
    if (const auto next = group.queue.next_time()) wake = std::min(wake, *next);
    const bool gone = group.queue.waiting_requests() == 0 && group.queue.running() == 0;
    at = gone ? groups_.erase(at) : std::next(at);
  }
  for (const auto& batch : running_)
    for (const auto& call : batch->calls) {
      if (call->over) continue;
      if (call->deadline <= now) {
        call->answer({.error = Error(Code::deadline_exceeded, "the deadline passed while the batch ran")});
        cancel_if_unwanted(*batch);
      } else {
        wake = std::min(wake, call->deadline);
      }
    }
  std::int64_t rows = 0;
  for (const auto& [shapes, group] : groups_) rows += group.queue.waiting_rows();
  statistics_->waiting(rows - std::exchange(waiting_shown_, rows));
  if (wake >= next_tick_) return;
  next_tick_ = wake;
  delayed_send(BatcherActor(this), std::chrono::nanoseconds(std::max<Nanoseconds>(wake - now, 0)), Tick{});
}

std::vector<Tensor> BatcherActorImpl::join(const RunningBatch& batch, std::int64_t padded) const {
  std::vector<Tensor> out;
  std::size_t input = 0;
  for (const auto& [name, spec] : function_.signature().inputs) {
    std::vector<Tensor> rows;
    for (std::size_t i = 0; i < batch.parts.size(); ++i) {
      const BatchQueue::Part& part = batch.parts[i];
      rows.push_back(batch.calls[i]->inputs[input].rows(part.first, part.first + part.rows));
    }
    // Rows that nobody asked for are copies of the first: what it does not refuse, it does not refuse twice.
    for (std::int64_t i = batch.rows; i < padded; ++i) rows.push_back(rows.front().rows(0, 1));
    Tensor joined = joined_rows(name, rows);
    out.push_back(joined.aligned() ? std::move(joined) : joined.clone());
    ++input;
  }
  return out;
}

void BatcherActorImpl::run(const std::string& shapes, Group& group, BatchQueue::Batch batch, Nanoseconds now) {
  auto running = std::make_shared<RunningBatch>();
  running->shapes = shapes;
  running->number = ++batches_;
  statistics_->batch(batch.rows);
  running->begin = now;
  running->rows = batch.rows;
  running->padded = batch.padded;
  for (const BatchQueue::Part& part : batch.parts) {
    const auto call = group.calls.find(part.request);
    running->calls.push_back(call->second);
    if (part.first == 0) call->second->times.queued = now - call->second->since;
    if (part.last) group.calls.erase(call);
  }
  running->parts = std::move(batch.parts);
  running_.push_back(running);
  const auto done = [self = BatcherActor(this), running](StepResult result) {
    caf::anon_send(self, BatchEnded{running, std::make_shared<StepResult>(std::move(result))});
  };
  try {
    std::vector<Tensor> inputs = join(*running, batch.padded);
    running->joined = steady_now_ns();
    running->step = function_.start(std::move(inputs), {}, done);
    if (Trace& trace = record().registry.trace(); trace.on()) trace_steps(trace, *running);
  } catch (...) {
    done({.error = current_error()});
  }
}

void BatcherActorImpl::trace_steps(Trace& trace, const RunningBatch& batch) const {
  const TraceStep step = function_.traced(batch.step);
  for (const auto& call : batch.calls)
    if (call->traced != 0 && !call->over) trace_step(trace, call->traced, step, batch.joined);
}

void BatcherActorImpl::ended(const RunningBatch& batch, StepResult result) {
  const Nanoseconds now = steady_now_ns();
  if (const auto group = groups_.find(batch.shapes); group != groups_.end())
    group->second.queue.finished(now - batch.begin);
  if (result.error) {
    for (const auto& call : batch.calls) call->answer({.error = result.error});
  } else {
    hand_out(batch, std::move(result.fetches), now);
  }
  std::erase_if(running_, [&](const auto& other) { return other.get() == &batch; });
  // Do not compute the rest of a request that has failed.
  for (const auto& call : batch.calls)
    if (call->over)
      if (const auto group = groups_.find(batch.shapes); group != groups_.end()) {
        group->second.queue.cancel(call->id);
        group->second.calls.erase(call->id);
      }
}

void BatcherActorImpl::hand_out(const RunningBatch& batch, std::vector<Tensor> results, Nanoseconds now) {
  std::size_t output = 0;
  for (const auto& [name, spec] : function_.signature().outputs)
    if (const Shape& shape = results[output++].shape(); shape.rank() < 1 || shape[0] != batch.padded) {
      const Error error(Code::failed_precondition,
                        fmt::format("output '{}' is {} for a batch of {} rows: a model whose outputs do not have a row "
                                    "for each of its inputs cannot be batched",
                                    name, shape.to_string(), batch.padded));
      for (const auto& call : batch.calls) call->answer({.error = error});
      return;
    }
  std::int64_t at = 0;
  for (std::size_t i = 0; i < batch.parts.size(); ++i) {
    const BatchQueue::Part& part = batch.parts[i];
    BatchedCall& call = *batch.calls[i];
    std::vector<Tensor> own;
    for (const Tensor& result : results) own.push_back(result.rows(at, at + part.rows));
    at += part.rows;
    if (call.over) continue;
    call.times.batched += batch.joined - batch.begin;
    call.times.run += now - batch.joined;
    call.rows_done += part.rows;
    call.results.emplace(part.first, std::move(own));
    if (call.rows_done < call.rows) continue;
    std::vector<Tensor> all;
    for (std::size_t o = 0; o < results.size(); ++o) {
      std::vector<Tensor> pieces;
      for (const auto& [first, tensors] : call.results) pieces.push_back(tensors[o]);
      all.push_back(joined_rows("of a batch", pieces));
    }
    call.answer({.outputs = named_outputs(function_.signature(), std::move(all), call.outputs)});
  }
}

}  // namespace troupe
