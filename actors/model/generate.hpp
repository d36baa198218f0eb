// Generates sequences with a causal network of tokens: each token is computed once, and what attention needs of it is
// kept as state of the steps.
//
//   Generator generator(task, network, model.parameters(), 512);
//   const auto text = generator.generate(prompt, {.tokens = 100, .sampling = {.top_p = 0.9}, .seed = 1});
//
// The network takes one input, token ids i64 [steps] of an example, and has one result, logits [steps, tokens]. Its
// layers must compute each step alone, but for causal self-attention and positions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/model/sampling.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/actors/training/parameters.hpp>
#include <troupe/graph/layers/network.hpp>

namespace troupe {

struct GenerateOptions {
  std::int64_t tokens = 100;  // most tokens after the prompt
  SamplingOptions sampling{};
  std::optional<std::int64_t> end{};  // a token that ends the sequence; it is part of the result
  std::uint64_t seed = 0;             // of the choices
  // Beam search instead of sampling, if above 1: that many sequences are kept, those of the greatest probability, and
  // the one with the greatest mean logarithm per token^length_penalty is the result.
  std::int64_t beams = 1;
  double length_penalty = 1;
};

class Generator {
 public:
  // Sequences have at most `capacity` tokens: a step takes the time and memory of as many. The task must outlive it.
  // Throws invalid_argument for a network that does not fit, and not_found for a variable without a value.
  Generator(Task& task, const Network& network, const Parameters& values, std::int64_t capacity);

  // Forgets all sequences, and begins `rows` others.
  void restart(std::int64_t rows = 1);
  // Appends tokens, i64 [rows, steps], to the sequences: logits f32 [rows, steps, tokens]. Throws out_of_range if they
  // become longer than the capacity.
  Tensor extend(const Tensor& tokens);
  // Row i goes on with what was row parents[i].
  void reorder(const std::vector<std::int64_t>& parents);

  // The tokens that follow the prompt, which must have at least one. Restarts. Throws invalid_argument for options out
  // of range, and out_of_range for more tokens than the capacity.
  std::vector<std::int64_t> generate(std::span<const std::int64_t> prompt, const GenerateOptions& options);

  std::int64_t capacity() const { return cache_.capacity; }

 private:
  std::vector<std::int64_t> sample(std::span<const std::int64_t> prompt, const GenerateOptions& options);
  std::vector<std::int64_t> search(std::span<const std::int64_t> prompt, const GenerateOptions& options);

  Graph graph_;
  SequenceCache cache_;
  Output tokens_, logits_, parents_;
  std::vector<Tensor> values_;  // of the variables, fed with each step
  std::vector<Tensor> state_;   // of cache_.before
  std::int64_t position_ = 0;
  std::int64_t rows_ = 1;
  std::optional<Session> session_;
  Callable step_, reorder_;
};

}  // namespace troupe
