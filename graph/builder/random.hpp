// Builder API for random numbers: each step draws new ones; runs with the same seeds draw the same numbers.
#pragma once

#include <troupe/graph/builder/core.hpp>

namespace troupe {

struct RandomOptions {
  DType dtype = DType::f32;
  std::int64_t seed = 0;
  Name name{};
};
// Functions that take a shape have two forms: with a graph and a Shape, which must be fully known, or with an i64
// vector.
Output random_uniform(Graph& graph, const Shape& shape, double minval = 0, double maxval = 1,
                      RandomOptions options = {});
Output random_uniform(Output shape, double minval = 0, double maxval = 1, RandomOptions options = {});
Output random_normal(Graph& graph, const Shape& shape, double mean = 0, double stddev = 1, RandomOptions options = {});
Output random_normal(Output shape, double mean = 0, double stddev = 1, RandomOptions options = {});
// Normal, truncated at two standard deviations: values beyond are redrawn.
Output truncated_normal(Graph& graph, const Shape& shape, double mean = 0, double stddev = 1,
                        RandomOptions options = {});
Output truncated_normal(Output shape, double mean = 0, double stddev = 1, RandomOptions options = {});
// Of density rate * exp(-rate * x), x >= 0.
Output random_exponential(Graph& graph, const Shape& shape, double rate = 1, RandomOptions options = {});
Output random_exponential(Output shape, double rate = 1, RandomOptions options = {});
// Integers in [low, high), each with the same probability: i32 or i64; of another dtype of numbers they are cast.
Output random_integers(Graph& graph, const Shape& shape, std::int64_t low, std::int64_t high,
                       RandomOptions options = {.dtype = DType::i64});
// The limits are scalars, of the dtype that the integers have: i32 or i64. The options' dtype does not count.
Output random_integers(Output shape, Output low, Output high, RandomOptions options = {});

// Each element depends on the input's at its place; the options' dtype does not count.
Output bernoulli(Output p, RandomOptions options = {});         // 1 with probability p, else 0
Output random_gamma(Output alpha, RandomOptions options = {});  // of shape alpha and scale 1; NaN unless alpha > 0
Output random_poisson(Output rate, RandomOptions options = {});
// `count` classes of each row of logits [n,classes]: i64 [n,count]. TensorFlow calls it categorical.
Output multinomial(Output logits, IntegersArg count, RandomOptions options = {});
// 0 .. n - 1 in random order; rows of x in random order.
Output random_permutation(Graph& graph, std::int64_t n, RandomOptions options = {});
Output random_permutation(Output n, RandomOptions options = {});
Output shuffle(Output x, RandomOptions options = {});

}  // namespace troupe
