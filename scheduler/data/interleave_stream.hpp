// Elements of sub-pipelines in turn (data::InterleaveStage).
#pragma once

#include <memory>

#include <troupe/scheduler/data/element_stream.hpp>

namespace troupe {

// `counter`: of the stage, or null. The sub-pipelines count as its work.
std::unique_ptr<ElementStream> interleave_stream(const data::StageRef& stage, std::unique_ptr<ElementStream> input,
                                                 StageCounter* counter);

}  // namespace troupe
