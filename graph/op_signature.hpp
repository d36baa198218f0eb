// What an op takes and gives, as text for people: "Pad(x: T, pads: i64, value: T) -> (y: T), mode: string = constant".
#pragma once

#include <string>

#include <troupe/graph/op.hpp>

namespace troupe {

// Inputs and outputs with their dtypes or the attributes that are; lists with "...". Then the attributes that a caller
// may give, with their types and defaults; those that follow from the inputs are left out.
std::string signature_of(const OpDef& op);

}  // namespace troupe
