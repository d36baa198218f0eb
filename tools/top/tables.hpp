// Tables made from an observation. Their texts are clean.
#pragma once

#include "tools/top/actor_group.hpp"
#include "tools/top/observation.hpp"
#include "tools/top/table.hpp"

namespace troupe::top {

Table tasks_table(const Observation& observation);
Table actors_table(const Observation& observation);
Table devices_table(const Observation& observation);
// The largest live tensors of each device, and the ops that allocated them.
Table tensors_table(const Observation& observation);
Table shards_table(const Observation& observation);
// A row for each stage of a pipeline, and one for the batches made of its elements.
Table pipelines_table(const Observation& observation);
// Versions of served models.
Table servables_table(const Observation& observation);
Table edges_table(const Observation& observation);

// "partition CPU:0 ×5". Clean.
std::string actor_title(const TaskSnapshot& task, const ActorGroup& group);
// "5 × 392 KiB f32[784,128]". Clean.
std::string tensor_text(const TensorUse& tensor);
// The activity of an actor: "Push; waits for slot 1 of step 7". Clean.
std::string what_it_does(const ActorSnapshot& actor);
// Time in its current state; none if idle.
std::optional<std::int64_t> since(const ActorSnapshot& actor);
// "up", "down", "suspect", "stalled": the worst that applies.
std::string state_of(const LinkSnapshot& link);

}  // namespace troupe::top
