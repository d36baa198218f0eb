// Value functions (OpDef::value): what ops compute of integers that are known before the graph runs.
#pragma once

#include <troupe/graph/known_values.hpp>

namespace troupe::values {

using Known = std::optional<KnownIntegers>;

Known shape_of(ValueContext& c);
Known size_of(ValueContext& c);
Known same(ValueContext& c);     // the same elements, as a scalar or vector: Identity, Cast, Reshape, Squeeze
Known stretch(ValueContext& c);  // Fill
Known range(ValueContext& c);
Known concat(ValueContext& c);
Known stack(ValueContext& c);
Known gather(ValueContext& c);
Known slice(ValueContext& c);
Known strided_slice(ValueContext& c);
Known reverse(ValueContext& c);
Known split(ValueContext& c);  // any output of Split, SplitSizes, Unstack
Known broadcast_to(ValueContext& c);
Known tile(ValueContext& c);
Known pad(ValueContext& c);

// One element from two, both known, with broadcasting; null if it is not defined.
using Combine = std::optional<std::int64_t> (*)(std::int64_t, std::int64_t);
ValueFn binary(Combine combine);

}  // namespace troupe::values
