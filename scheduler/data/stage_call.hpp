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

// Likewise, to row `row` of tensors with a leading dimension.
inline void mapped_to_row(const data::Stage& stage, const data::Element& given, const data::ElementContext& context,
                          std::int64_t row, std::span<Tensor> out) {
  const auto& to_row = std::get<data::MapStage>(stage.kind).to_row;
  if (!to_row) return data::copy_to_row(mapped(stage, given, context), row, out);
  call_stage(stage, [&] { to_row(given, context, row, out); });
}

}  // namespace troupe
