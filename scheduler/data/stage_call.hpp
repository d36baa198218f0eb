// Calls the functions of a pipeline's stages.
#pragma once

#include <utility>

#include <troupe/graph/data/pipeline.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {

// Whatever the function throws becomes an Error that names the stage.
template <class Function>
auto call_stage(const data::Stage& stage, Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (...) {
    throw current_error().within(fmt::format("stage '{}'", stage.name));
  }
}

inline data::Element mapped(const data::Stage& stage, const data::Element& given, const data::ElementContext& context) {
  data::Element out = call_stage(stage, [&] { return std::get<data::MapStage>(stage.kind).function(given, context); });
  data::check_element(stage, out);
  return out;
}

}  // namespace troupe
