// A multi-label job with sparse tables: a bag of words over one that lies on all shards, and a second, `seen/table`,
// that counts. Each time an example is trained on, its row there grows by one, exactly: asynchronous, with SGD at rate
// 1, rows say how often each example was applied.
#pragma once

#include <cstdint>

#include <troupe/graph/training/program.hpp>
#include <troupe/scheduler/data/tensor_dataset.hpp>

namespace troupe::chaos {

Program table_model();
// words i64 [8], number i64 [], tags f32 [kTags]; at most kCountedRows.
TensorDataset tagged_examples(std::int64_t examples);
inline constexpr std::int64_t kCountedRows = 80'000, kTags = 12;

}  // namespace troupe::chaos
