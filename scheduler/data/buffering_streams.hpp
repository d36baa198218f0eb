// Streams that keep elements: their positions are those of the inputs of what they keep.
#pragma once

#include <memory>

#include <troupe/scheduler/data/element_stream.hpp>

namespace troupe {

// `counter`: of the stage, or null.

std::unique_ptr<ElementStream> flat_map_stream(const data::StageRef& stage, std::unique_ptr<ElementStream> input,
                                               StageCounter* counter);
std::unique_ptr<ElementStream> unbatch_stream(const data::StageRef& stage, std::unique_ptr<ElementStream> input,
                                              StageCounter* counter);
std::unique_ptr<ElementStream> shuffle_stream(const data::StageRef& stage, std::unique_ptr<ElementStream> input,
                                              StageCounter* counter);
std::unique_ptr<ElementStream> window_stream(const data::StageRef& stage, std::unique_ptr<ElementStream> input,
                                             StageCounter* counter);

}  // namespace troupe
