// Padding of convolutions and pooling.
#pragma once

namespace troupe {

// same: as many outputs as ceil(input / stride), zeros around the input where needed, the odd one at the end.
// valid: only windows that lie inside the input.
enum class Padding { same, valid };

}  // namespace troupe
