// The records that records_task trains on.
#pragma once

#include <cstdint>

namespace troupe::testing {

inline constexpr std::int64_t kRecordBytes = 64 << 10;
inline constexpr std::int64_t kRecordsOfBatch = 16;

}  // namespace troupe::testing
