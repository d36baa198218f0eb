// Faults in data, told late: a kernel that finds one (an index that is no row, a label that is no class) leaves it in a
// word of the GPU's memory, goes on with something harmless, and nobody waits for it. The compute stream copies the
// word to the host where work ends and before tensors leave, so who gets the event or the copy gets the error too; at
// the end of work it is cleared. So a fault belongs to the work that had it, however many steps are in flight. Work
// without kernels that look at their data costs nothing.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include <troupe/devices/cuda/cuda_driver.hpp>
#include <troupe/devices/cuda/cuda_fault.hpp>
#include <troupe/devices/plugin.hpp>

namespace troupe {

// The error of a fault, in the words of the CPU's kernel.
using CudaFaultText = Error (*)(const CudaFault&);

// All methods on the thread that launches, but error().
class CudaFaults {
 public:
  // The word comes from `memory`, copies of it from `pinned`. `device`: its name, for messages.
  CudaFaults(std::shared_ptr<CudaDriver> driver, Allocator& memory, Allocator& pinned, std::string device,
             AllocationLabelSource label);

  // For a kernel of the node that runs now.
  CudaFaultSite site(CudaFaultText text, CudaStreamHandle stream);
  // The word, for kernels that change nothing that lasts once there is a fault.
  const CudaFault* word(CudaStreamHandle stream);
  // Kernels with sites are launched again, without site() being called.
  void arm() { armed_ = true; }

  // The word as it is when the stream has got here; null if no kernel launched since it was cleared looks at its data.
  using Look = std::shared_ptr<const Tensor>;
  Look look(CudaStreamHandle stream);
  // The work ends here: what comes later has a clean word.
  void end_work(CudaStreamHandle stream);
  // When the stream has got past the look. On any thread. None if nothing was found.
  Error error(const Look& look) const;

  void forget() { memory_of_word_ = BufferRef(); }

 private:
  struct Site {
    CudaFaultText text;
    std::string op, node;
  };
  using SiteKey = std::tuple<std::uintptr_t, std::string, std::string>;

  const std::shared_ptr<CudaDriver> driver_;
  Allocator& memory_;
  Allocator& pinned_;
  const std::string device_;
  const AllocationLabelSource label_;
  BufferRef memory_of_word_;
  bool armed_ = false;  // kernels have been launched since the last look that may find something
  Look last_;           // since the word was cleared
  mutable std::mutex mutex_;
  std::map<SiteKey, unsigned> numbers_;
  std::vector<Site> sites_;  // by number - 1
};

}  // namespace troupe
