#include "troupe/graph/builder/nn.hpp"

namespace troupe {
DropoutOutputs dropout(Output x, Output rate, DropoutOptions options) {
  const Outputs out = add_outputs("Dropout", {x, rate}, {{"seed", options.seed}}, std::move(options.name));
  return {out[0], out[1]};
}
Output dropout(Output x, double rate, DropoutOptions options) {
  if (!x.valid()) invalid_argument("dropout: x is not a tensor");
  return dropout(x, constant(*x.graph, rate), std::move(options)).y;
}

}  // namespace troupe
