// Which of the machine's GPUs each task sees, as CUDA_VISIBLE_DEVICES tells it.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace troupe {

class GpuShare {
 public:
  // `per_worker` GPUs for each of `workers`, one worker after the other, and none for other tasks. `visible`: GPUs that
  // may be used, as CUDA names them. Throws not_found if there are too few.
  GpuShare(int per_worker, int workers, std::vector<std::string> visible);

  // "2,3"; "" shows none.
  std::string of(const std::string& job, int index) const;

 private:
  int per_worker_;
  std::vector<std::string> visible_;
};

// Those of CUDA_VISIBLE_DEVICES, if `variable` is its value, else all of the machine: "0", "1", ..., one for each
// nvidia<N> in `devices` (/dev).
std::vector<std::string> visible_gpus(const std::optional<std::string>& variable, const std::string& devices = "/dev");

}  // namespace troupe
