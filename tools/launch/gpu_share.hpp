// Assigns the machine's GPUs to tasks, through CUDA_VISIBLE_DEVICES.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace troupe {

class GpuShare {
 public:
  // Assigns `per_worker` GPUs to each of `workers`, in order, and none to other tasks. `visible`: the usable GPUs, as
  // CUDA names them. Throws not_found if there are too few.
  GpuShare(int per_worker, int workers, std::vector<std::string> visible);

  // "2,3"; "" hides all GPUs.
  std::string of(const std::string& job, int index) const;

 private:
  int per_worker_;
  std::vector<std::string> visible_;
};

// The GPUs in `variable`, the value of CUDA_VISIBLE_DEVICES, if it is set, else all of the machine: "0", "1", ..., one
// for each nvidia<N> in `devices` (/dev).
std::vector<std::string> visible_gpus(const std::optional<std::string>& variable, const std::string& devices = "/dev");

}  // namespace troupe
