// Transformations of one component of a pipeline's elements: the others stay as they are.
#pragma once

#include <functional>
#include <string>

#include <troupe/graph/data/pipeline.hpp>

namespace troupe::data {

struct ComponentFunction {
  BatchComponent result{};  // of the component's name
  std::function<Tensor(const Tensor&, const ElementContext&)> function{};
  // Writes the result to row `row` of a tensor with a leading dimension. None: what the function returns is copied.
  // Only called if the result has no unknown dimensions.
  std::function<void(const Tensor&, const ElementContext&, std::int64_t row, Tensor& out)> to_row{};
};

// `function`: what it is called, "resize". `prepare` throws invalid_argument for a component that it cannot work on.
Transformation on_component(const std::string& function, const std::string& component,
                            std::function<ComponentFunction(const BatchComponent&)> prepare);

}  // namespace troupe::data
