#include "troupe/devices/cuda/cuda_faults.hpp"

#include <new>

namespace troupe {
namespace {

constexpr std::size_t kMostSites = 1 << 16;  // maximum number of names kept; later nodes share the last

}  // namespace

CudaFaults::CudaFaults(std::shared_ptr<CudaDriver> driver, Allocator& memory, Allocator& pinned, std::string device,
                       AllocationLabelSource label)
    : driver_(std::move(driver)), memory_(memory), pinned_(pinned), device_(std::move(device)), label_(label) {}

const CudaFault* CudaFaults::word(CudaStreamHandle stream) {
  if (!memory_of_word_) {
    BufferRef memory = memory_.allocate(sizeof(CudaFault));
    driver_->clear(memory->data(), sizeof(CudaFault), stream);
    memory_of_word_ = std::move(memory);
  }
  return static_cast<const CudaFault*>(memory_of_word_->data());
}

CudaFaultSite CudaFaults::site(CudaFaultText text, CudaStreamHandle stream, std::string_view detail) {
  const auto* fault = word(stream);
  armed_ = true;
  const AllocationLabel label = label_();
  const std::lock_guard lock(mutex_);
  const SiteKey key{reinterpret_cast<std::uintptr_t>(text), detail, label.op, label.node};
  if (const auto known = numbers_.find(key); known != numbers_.end())
    return {const_cast<CudaFault*>(fault), known->second};
  if (sites_.size() < kMostSites) {
    sites_.push_back({text, std::string(detail), std::string(label.op), std::string(label.node)});
    numbers_.emplace(key, static_cast<unsigned>(sites_.size()));
  }
  return {const_cast<CudaFault*>(fault), static_cast<unsigned>(sites_.size())};
}

CudaFaults::Look CudaFaults::look(CudaStreamHandle stream) {
  if (!armed_) return last_;
  auto seen = std::make_shared<Tensor>(pinned_.tensor(DType::u8, Shape{sizeof(CudaFault)}));
  new (seen->mutable_raw()) CudaFault{};  // a lost GPU never writes it
  driver_->copy(seen->mutable_raw(), word(stream), sizeof(CudaFault), stream);
  armed_ = false;
  return last_ = std::move(seen);
}

void CudaFaults::end_work(CudaStreamHandle stream) {
  if (!last_) return;
  driver_->clear(memory_of_word_->data(), sizeof(CudaFault), stream);
  last_ = nullptr;
}

Error CudaFaults::error(const Look& look) const {
  if (!look) return {};
  const auto& fault = *reinterpret_cast<const CudaFault*>(look->raw());
  if (fault.site == 0) return {};
  const std::lock_guard lock(mutex_);
  const Site& site = sites_.at(fault.site - 1);
  Error found = site.text(fault);
  if (!site.detail.empty()) found = found.within(site.detail);
  return found.within(fmt::format("{} '{}' on {}", site.op, site.node, device_));
}

}  // namespace troupe
