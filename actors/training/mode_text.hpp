// Training modes as text, for users that have no C++ types: "sync(slots=4, backups=1)".
#pragma once

#include <string_view>

#include <troupe/actors/training/job_mode.hpp>

namespace troupe {

// A name of a mode, and its options by the names of their fields (slots, backups, staleness, aggregate,
// staleness_aware, min_workers, on_loss="shrink"); times as join_seconds, step_seconds, rejoin_seconds. Throws
// not_found for another mode, invalid_argument for an option that it does not have, or text that is no such call.
JobMode parse_mode(std::string_view text);

}  // namespace troupe
