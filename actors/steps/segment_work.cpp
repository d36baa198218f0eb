#include "troupe/actors/steps/segment_work.hpp"

#include <caf/send.hpp>

#include <troupe/actors/base/traced_message.hpp>
#include <troupe/actors/steps/contribution.hpp>
#include <troupe/messages/row_numbers.hpp>
#include <troupe/messages/tensor_list.hpp>

namespace troupe {

std::uint64_t SegmentWork::execute() {
  // Batches sends in quick succession, at the latest with the final report. The plan decides when to flush().
  if (runs_in_order() && routes_->shapes[segment_.partition][segment_.segment].sends) cork_.emplace();
  SharedDevice share(device_, segment_.step.session);
  error_ = run_plan(&share);
  paused_ = segment_.frame->paused();
  if (paused_) cork_.reset();
  return segment_.frame->plan().segments[segment_.segment].num_nodes;
}

Error SegmentWork::run_plan(Pauses* pauses) {
  const TraceSlice slice(TraceKind::segment, "segment",
                         TraceSlice::current() ? TraceStep::of(segment_.step.session, segment_.step.step,
                                                               number_of(training_, segment_.step.step))
                                               : TraceStep());
  return run_segment(*segment_.frame, segment_.segment, device_, *this, pauses);
}

bool SegmentWork::runs_in_order() const {
  return segment_.frame->plan().segments[segment_.segment].order < 0 || device_.parallelism().threads() == 1;
}

void SegmentWork::flush() {
  if (!cork_) return;
  cork_.reset();
  cork_.emplace();
}

void SegmentWork::report() {
  SegmentDone done{segment_.step.session, segment_.step.step, segment_.partition, segment_.segment, std::move(error_)};
  if (device_.attributes().synchronous) {
    BorrowedThread thread(*routes_->system, routes_->short_actors);
    thread.send(scheduler_, std::move(done));
    thread.run();
  } else {
    // The kernels may still be running: report when the stream has reached this point and the fetches are on the host.
    std::vector<Tensor> fetched(segment_.frame->fetches.size());
    for (std::size_t i = 0; i < fetched.size(); ++i)
      if (!segment_.frame->fetches[i].space().on_host()) fetched[i] = std::move(segment_.frame->fetches[i]);
    bring_out(device_, std::move(fetched),
              [scheduler = scheduler_, frame = segment_.frame, done = std::move(done)](std::vector<Tensor> brought,
                                                                                       Error lost) mutable {
                for (std::size_t i = 0; i < brought.size(); ++i)
                  if (brought[i].valid()) frame->fetches[i] = std::move(brought[i]);
                if (!done.error) done.error = std::move(lost);
                caf::anon_send(scheduler, std::move(done));
              });
  }
  cork_.reset();
}

void SegmentWork::send(std::uint32_t send, Tensor tensor) {
  const EdgeId edge = segment_.frame->plan().sends[send].edge;
  auto done = [put = Put{{segment_.step.session, segment_.step.step, edge}, 0, {}, {}},
               peer = routes_->sends[segment_.partition][send],
               rendezvous = routes_->rendezvous](Tensor copy, Error error) mutable {
    put.tensor = std::move(copy);
    put.error = std::move(error);
    if (peer) return caf::anon_send(peer, Outbound{std::move(put)});
    if (const TraceSlice* traced = TraceSlice::current()) trace_departure(traced->trace(), put);
    caf::anon_send(rendezvous, std::move(put));
  };
  if (goes_to_sibling(send)) return device_.hand_over(std::move(tensor), std::move(done));
  device_.copy_to_host(std::move(tensor), std::move(done));
}

// True if the destination is a device of the same type in this process: the tensor then bypasses the host.
bool SegmentWork::goes_to_sibling(std::uint32_t send) const {
  if (device_.attributes().synchronous) return false;
  const DeviceName to = DeviceName::parse(segment_.frame->plan().sends[send].to);
  return to.task_name() == device_.attributes().name.task_name() && to.type == device_.attributes().type;
}

void SegmentWork::push(const PushTarget& target, Tensor gradient, Tensor indices) {
  std::uint64_t version = training_.min_version;
  if (pulled_)
    if (const auto pulled = pulled_->find(target.slice); pulled != pulled_->end())
      if (const std::uint64_t seen = pulled->second.load(std::memory_order_relaxed); seen != kNotPulled) version = seen;
  struct Rows {
    Tensor indices;
    Error error;
  };
  const auto rows = std::make_shared<Rows>();  // ready before the gradient: copies complete in order
  device_.copy_to_host(std::move(indices), [rows](Tensor copy, Error error) {
    *rows = {std::move(copy), std::move(error)};
  });
  device_.copy_to_host(std::move(gradient), [push = Push{training_.worker,
                                                         training_.step,
                                                         training_.phase,
                                                         training_.slot,
                                                         target.slice,
                                                         version,
                                                         {},
                                                         {},
                                                         training_.job,
                                                         training_.view,
                                                         training_.rate_scale,
                                                         training_.keep},
                                             rows, shard = routes_->shards.at(target.shard), scheduler = scheduler_,
                                             step = segment_.step](Tensor copy, Error error) mutable {
    if (!error) error = std::move(rows->error);
    if (error) {  // fails the step
      caf::anon_send(scheduler, StepFailed{step.session, step.step, std::move(error)});
      return;
    }
    push.gradient = std::move(copy);
    push.indices = packed_row_numbers(rows->indices);
    caf::anon_send(shard, Outbound{std::move(push)});
  });
}

void SegmentWork::ask(const AskTarget& target, Tensor rows) {
  device_.copy_to_host(std::move(rows), [pull = Pull{training_.worker,
                                                     {segment_.step.session, segment_.step.step, target.edge},
                                                     target.slice.slice,
                                                     training_.min_version,
                                                     training_.job,
                                                     training_.view,
                                                     training_.after,
                                                     {}},
                                         shard = routes_->shards.at(target.slice.shard), scheduler = scheduler_,
                                         step = segment_.step](Tensor copy, Error error) mutable {
    if (error) {  // fails the step
      caf::anon_send(scheduler, StepFailed{step.session, step.step, std::move(error)});
      return;
    }
    pull.rows = packed_row_numbers(copy);
    caf::anon_send(shard, Outbound{std::move(pull)});
  });
}

void SegmentWork::call(const CallTarget& target, Variable& resource, Tensor values) {
  const auto items = list_items(values);
  auto called = std::make_shared<CalledResource>(RendezvousKey{segment_.step.session, segment_.step.step, target.edge},
                                                 resource_of<WaitingResource>(resource),
                                                 ResourceCall{target.operation, {items.begin(), items.end()}});
  BorrowedThread thread(*routes_->system, routes_->short_actors);
  thread.send(scheduler_, CallResource{std::move(called)});
  thread.run();
}

void SegmentWork::contribute(const ContributionTarget& target, Tensor tensor) {
  auto contribution = std::make_shared<Contribution>();
  contribution->group = training_.group;
  contribution->channel = target.channel;
  contribution->sequence = training_.step;
  contribution->spec = {
      .reduction = target.reduction, .dtype = tensor.dtype(), .shape = tensor.shape(), .name = target.name};
  contribution->key = RendezvousKey{segment_.step.session, segment_.step.step, collect_edge(target.channel)};
  auto handed = [contribution, routes = routes_, scheduler = scheduler_, step = segment_.step](Tensor given,
                                                                                               Error error) {
    if (error) {  // fails the step
      caf::anon_send(scheduler, StepFailed{step.session, step.step, std::move(error)});
      return;
    }
    contribution->tensor = std::move(given);
    BorrowedThread thread(*routes->system, routes->short_actors);
    thread.send(routes->collective, Contribute{contribution});
    thread.run();
  };
  contribution->on_devices = &device_ == training_.group_device;
  if (contribution->on_devices) return device_.hand_over(std::move(tensor), std::move(handed));
  device_.copy_to_host(std::move(tensor), std::move(handed));
}

}  // namespace troupe
