#include "tests/chaos/objectives_model.hpp"

#include "tests/chaos/table_model.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe::chaos {
namespace {

constexpr std::int64_t kMade = 8;
constexpr float kSmall = 0.05F;  // the rate is 1, for counts

// Zero, with a gradient of minus one for the elements of these examples.
Output counted(ProgramContext& c, const std::string& name, std::int64_t examples) {
  const VariableRef seen = c.variable(name, {.shape = Shape{examples}}, initializers::zeros());
  return sum(gather(seen.read(), c["number"]));
}

Output how_far(const Output& judged, float from) {
  return mean(square(judged - constant<float>(*judged.graph, from))) * constant<float>(*judged.graph, kSmall);
}

}  // namespace

Program objectives_model(std::int64_t examples) {
  return [examples](ProgramContext& c) -> ProgramOutputs {
    const VariableRef making =
        c.variable("generator/w", {.shape = Shape{kTags, kMade}}, initializers::glorot_uniform());
    const VariableRef judging = c.variable("critic/w", {.shape = Shape{kMade, 1}}, initializers::glorot_uniform());
    const Output made = tanh(matmul(c["tags"], making.read()));
    const Output judged = matmul(made, judging.read());
    const Output first = how_far(judged, 1);
    const Output second = how_far(judged, -1);
    const Output first_counted = counted(c, "seen/generator", examples);
    const Output second_counted = counted(c, "seen/critic", examples);
    const Optimizer sgd = optimizers::SGD{.learning_rate = 1.0};
    return {.objectives = {{.name = "generator",
                            .loss = first - first_counted,
                            .train = {"generator/*", "seen/generator"},
                            .optimizer = sgd},
                           {.name = "critic",
                            .loss = second - second_counted,
                            .train = {"critic/*", "seen/critic"},
                            .optimizer = sgd}}};
  };
}

}  // namespace troupe::chaos
