// An input whose value the host needs to launch a kernel: a shape, axes, limits. Usually a constant, already on the
// host; otherwise the host waits for it.
#pragma once

#include <troupe/devices/kernel.hpp>

namespace troupe {

class HostInput {
 public:
  HostInput(const KernelInit& init, int index) : index_(index) {
    if (const Tensor* value = init.constant(static_cast<std::size_t>(index))) constant_ = *value;
  }
  bool constant() const { return constant_.valid(); }
  Tensor get(KernelContext& c) const { return constant_.valid() ? constant_ : c.device().read(c.input(index_)); }

 private:
  int index_;
  Tensor constant_;
};

}  // namespace troupe
