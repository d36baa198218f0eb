// Batches of elements of like length (data::BucketStage).
#pragma once

#include <memory>

#include <troupe/scheduler/data/element_stream.hpp>

namespace troupe {

// `counter`: of the stage, or null.
std::unique_ptr<ElementStream> bucket_stream(const data::StageRef& stage, std::unique_ptr<ElementStream> input,
                                             StageCounter* counter);

}  // namespace troupe
