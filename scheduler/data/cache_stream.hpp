// The elements of the first epoch, in each epoch, kept in memory (data::CacheStage).
#pragma once

#include <memory>

#include <troupe/scheduler/data/element_stream.hpp>

namespace troupe {

// `counter`: of the stage, or null.
std::unique_ptr<ElementStream> cache_stream(const data::StageRef& stage, std::unique_ptr<ElementStream> input,
                                            StageCounter* counter);

}  // namespace troupe
