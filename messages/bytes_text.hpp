// Byte counts as text.
#pragma once

#include <cstdint>
#include <string>

namespace troupe {

// "1023 B", "1.5 KiB", "64.0 MiB", "128 MiB".
std::string bytes_text(std::uint64_t bytes);

}  // namespace troupe
