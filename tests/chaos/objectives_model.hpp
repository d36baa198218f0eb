// A job with two objectives, which are phases of a step: a generator, and a critic that judges what the generator
// makes once it is updated. Each counts: in `seen/generator` and `seen/critic` an example's element grows by one
// whenever the objective is trained on it, exactly: asynchronous, with SGD at rate 1, they say how often each example
// was applied in each phase.
#pragma once

#include <cstdint>

#include <troupe/graph/training/program.hpp>

namespace troupe::chaos {

// Of tagged_examples(`examples`) of table_model.hpp.
Program objectives_model(std::int64_t examples);

}  // namespace troupe::chaos
