// Calls the functions of a pipeline's stages.
#pragma once

#include <utility>

#include <troupe/graph/data/pipeline.hpp>
#include <troupe/messages/error.hpp>
#include <troupe/scheduler/data/pipeline_statistics.hpp>

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

// The result of a map stage's function. `counter`: of the stage, or null.
inline data::Element mapped(const data::Stage& stage, const data::Element& given, const data::ElementContext& context,
                            StageCounter* counter) {
  data::Element out = call_stage(stage, [&] {
    return timed(counter, context.number,
                 [&] { return std::get<data::MapStage>(stage.kind).function(given, context); });
  });
  data::check_element(stage, out);
  if (counter) counter->add(1);
  return out;
}

// Likewise, to row `row` of tensors with a leading dimension.
inline void mapped_to_row(const data::Stage& stage, const data::Element& given, const data::ElementContext& context,
                          std::int64_t row, std::span<Tensor> out, StageCounter* counter) {
  const auto& to_row = std::get<data::MapStage>(stage.kind).to_row;
  if (!to_row) return data::copy_to_row(mapped(stage, given, context, counter), row, out);
  call_stage(stage, [&] { timed(counter, context.number, [&] { to_row(given, context, row, out); }); });
  if (counter) counter->add(1);
}

}  // namespace troupe
