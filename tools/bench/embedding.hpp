// A training job whose parameters are one large table: two workers, two parameter servers, and each batch touches a few
// of its rows.
#pragma once

#include <cstdint>
#include <string>

namespace troupe::bench {

struct EmbeddingJob {
  std::string ids;  // a file of i64 [examples, kIdsPerExample]
  std::int64_t rows = 10'000'000;
  std::int64_t batch = 1024;
  bool on_demand = false;  // rows are drawn when they are read
};

inline constexpr std::int64_t kIdsPerExample = 26, kTableUnits = 64;

// Runs in each child: reads its task, the job and the cluster from two lines of input; each further line is a job.
void train_embedding_as_child();

}  // namespace troupe::bench
