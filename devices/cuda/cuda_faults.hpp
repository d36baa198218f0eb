// Faults in data, reported late: a kernel that finds one (a row index or a class label out of range) writes it to a
// word in GPU memory and continues with a harmless value; nothing waits. The compute stream copies the word to the host
// at the end of work and before tensors leave, so the receiver of the event or the copy also gets the error; the end of
// work clears the word. A fault thus belongs to the work that caused it, however many steps are in flight. Work without
// kernels that check their data costs nothing.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <troupe/devices/cuda/cuda_driver.hpp>
#include <troupe/devices/cuda/cuda_fault.hpp>
#include <troupe/devices/plugin.hpp>

namespace troupe {

// Formats a fault with the same text as the CPU kernel.
using CudaFaultText = Error (*)(const CudaFault&);

// All methods but error() run on the launching thread.
class CudaFaults {
 public:
  // Allocates the word from `memory` and copies of it from `pinned`. `device`: its name, for messages.
  CudaFaults(std::shared_ptr<CudaDriver> driver, Allocator& memory, Allocator& pinned, std::string device,
             AllocationLabelSource label);

  // The site for a kernel of the running node. The error's text begins with `detail`, if there is any.
  CudaFaultSite site(CudaFaultText text, CudaStreamHandle stream, std::string_view detail);
  // The word, for kernels that must not change persistent state after a fault.
  const CudaFault* word(CudaStreamHandle stream);
  // Call when kernels with sites are launched again without site().
  void arm() { armed_ = true; }

  // A snapshot of the word at the stream's current point; null if no kernel launched since the last clear checks its
  // data.
  using Look = std::shared_ptr<const Tensor>;
  Look look(CudaStreamHandle stream);
  // Marks the end of the work: later work starts with a clear word.
  void end_work(CudaStreamHandle stream);
  // The fault in a look that the stream has passed; none if nothing was found. Any thread.
  Error error(const Look& look) const;

  void forget() { memory_of_word_ = BufferRef(); }

 private:
  struct Site {
    CudaFaultText text;
    std::string detail, op, node;
  };
  using SiteKey = std::tuple<std::uintptr_t, std::string, std::string, std::string>;

  const std::shared_ptr<CudaDriver> driver_;
  Allocator& memory_;
  Allocator& pinned_;
  const std::string device_;
  const AllocationLabelSource label_;
  BufferRef memory_of_word_;
  bool armed_ = false;  // kernels that may find faults have been launched since the last look
  Look last_;           // since the word was last cleared
  mutable std::mutex mutex_;
  std::map<SiteKey, unsigned> numbers_;
  std::vector<Site> sites_;  // by site number - 1
};

}  // namespace troupe
