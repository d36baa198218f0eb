// Padding of convolutions and pooling.
#pragma once

namespace troupe {

// same: ceil(input / stride) outputs, zero-padded around the input where needed, the odd zero at the end.
// valid: only windows entirely inside the input.
enum class Padding { same, valid };

}  // namespace troupe
