// Losses with an algorithm or a sampler of their own. Cross entropies are in softmax.hpp; losses of a model's outputs
// as layers take them, and means over examples, are in graph/layers/losses.hpp.
#pragma once

#include <troupe/graph/builder/core.hpp>

namespace troupe {

struct CtcLossOptions {
  std::int64_t blank = 0;  // the class that reads as no label
  Name name{};
};
// Connectionist temporal classification (Graves et al. 2006): logits [t,n,c] of t frames, labels [n,s], and the numbers
// of frames and labels of each example [n] -> loss [n] = -log of the probability that the frames, with repetitions
// merged and blanks removed, read as the labels; infinity, with gradient 0, if there are too few frames. Labels and
// lengths are i32 or i64; what lies behind a length is not read.
Output ctc_loss(Output logits, Output labels, Output logit_lengths, Output label_lengths, CtcLossOptions options = {});

// Classes that stand for all others: drawn, with repetitions, by a random op that draws anew in each step.
struct SampledClasses {
  Output classes{};        // i64 [count]
  std::int64_t range = 0;  // they are in [0, range)
};
// Class k has probability log((k + 2) / (k + 1)) / log(range + 1), for classes in descending order of frequency (Zipf's
// law).
SampledClasses log_uniform_candidates(Graph& graph, std::int64_t count, std::int64_t range, std::int64_t seed = 0,
                                      Name name = {});

// A layer with many classes: weights [classes,d], biases [classes].
struct ManyClasses {
  Output weights{};
  Output biases{};
};
struct SampledLossOptions {
  bool remove_accidental_hits = true;  // a sampled class that is the example's label does not count as another
  Name name{};
};
// Softmax cross entropy over the label and the sampled classes (Jean et al. 2015): inputs [n,d], labels [n], logits
// less the logarithm of the number of times that a class is expected among the samples -> loss [n].
Output sampled_softmax_loss(ManyClasses layer, Output inputs, Output labels, SampledClasses samples,
                            SampledLossOptions options = {});
// Noise-contrastive estimation (Gutmann & Hyvärinen 2010): sigmoid cross entropies of the label with 1 and of the
// samples with 0, summed -> loss [n].
Output nce_loss(ManyClasses layer, Output inputs, Output labels, SampledClasses samples,
                SampledLossOptions options = {.remove_accidental_hits = false});

}  // namespace troupe
