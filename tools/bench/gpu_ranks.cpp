#include "tools/bench/gpu_ranks.hpp"

#include <future>
#include <numeric>

namespace troupe::bench {
namespace {

using Told = std::promise<Error>;

void await(std::future<Error> told) {
  if (const Error error = told.get()) throw error;
}

}  // namespace

GpuRanks::GpuRanks(int gpus, std::int64_t count, bool deterministic)
    : task_({.gpus = {.count = gpus, .deterministic = deterministic}}) {
  Tensor values(DType::f32, Shape{count});
  std::iota(values.mutable_values<float>().begin(), values.mutable_values<float>().end(), 0.0f);
  std::vector<std::future<Error>> joining;
  CommunicatorId id;
  for (int rank = 0; rank < gpus; ++rank) {
    Device& device = *devices_.emplace_back(&task_.device(1 + rank));  // after the CPU
    CommunicatorMaker* const maker = device.communicators();
    if (!maker) fail(Code::failed_precondition, "{} has no communicators", device.attributes().name.to_string());
    maker->description();  // throws if there is no NCCL
    if (rank == 0) id = maker->make_id();
    auto joined = std::make_shared<Told>();
    joining.push_back(joined->get_future());
    ends_.push_back(maker->join({id, static_cast<std::uint32_t>(gpus), static_cast<std::uint32_t>(rank)},
                                [joined](Error error) { joined->set_value(std::move(error)); }));
    Tensor& there = tensors_.emplace_back();
    Told copied;
    device.copy_in(values, [&](Tensor copy, Error error) {
      there = std::move(copy);
      copied.set_value(std::move(error));
    });
    await(copied.get_future());
  }
  for (auto& told : joining) await(std::move(told));
}

GpuRanks::~GpuRanks() {
  for (const auto& end : ends_) end->leave();
}

void GpuRanks::reduce(int times) {
  std::vector<std::future<Error>> last;
  for (int i = 0; i < times; ++i)
    for (std::size_t rank = 0; rank < ends_.size(); ++rank) {
      auto ended = std::make_shared<Told>();
      if (i + 1 == times) last.push_back(ended->get_future());
      ends_[rank]->run({.dtype = DType::f32, .shape = tensors_[rank].shape(), .name = "x"}, tensors_[rank],
                       [ended](std::vector<Tensor>, Error error) { ended->set_value(std::move(error)); });
    }
  for (auto& told : last) await(std::move(told));
}

}  // namespace troupe::bench
