// Builder API for ragged tensors (Ragged, text.hpp): rows of different lengths, one after the other in `values`
// [m,...]. Row i is values[row_splits[i]] .. values[row_splits[i + 1]]. Batches of pipelines have them
// (data::Pipeline::ragged_batch), strings are split into them, and embedding_lookup_sparse() (text.hpp) takes them.
//
//   Ragged scores = ragged_from_row_lengths(values, lengths);
//   Output best = ragged_max(scores);  // of each row
//
// Gradients flow through values. row_splits that do not ascend from 0 to m are errors of steps.
#pragma once

#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/builder/text.hpp>

namespace troupe {

// Rows with these lengths: values [m,...], lengths i64 [n], whose sum is m.
Ragged ragged_from_row_lengths(Output values, Output lengths, Name name = {});
// The first lengths[i] elements of row i of x [n,k,...]: lengths i64 [n], from 0 to k.
Ragged ragged_from_tensor(Output x, Output lengths, Name name = {});

Output ragged_row_lengths(const Ragged& x, Name name = {});  // i64 [n]
struct RaggedToTensorOptions {
  Output default_value{};  // behind the end of rows: a scalar of the values' dtype; default: 0, of strings ""
  Name name{};
};
// [n,k,...]: rows filled up to the longest, k.
Output ragged_to_tensor(const Ragged& x, RaggedToTensorOptions options = {});

// Of each row: [n,...]. Rows without elements give 0, an extremum the limit of the dtype.
Output ragged_sum(const Ragged& x, Name name = {});
Output ragged_mean(const Ragged& x, Name name = {});
Output ragged_max(const Ragged& x, Name name = {});
Output ragged_min(const Ragged& x, Name name = {});

}  // namespace troupe
