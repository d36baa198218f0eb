// The elements of a source's splits, several at a time in turn (data::SplitsStage).
#pragma once

#include <memory>

#include <troupe/scheduler/data/element_stream.hpp>

namespace troupe {

// `counter`: of the stage, or null.
std::unique_ptr<ElementStream> splits_stream(const data::StageRef& stage, StageCounter* counter);

}  // namespace troupe
