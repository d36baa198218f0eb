#include "troupe/actors/model/generate.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include <troupe/actors/model/inference.hpp>
#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

// Kinds of layers that compute each step alone, or know a SequenceCache.
const std::set<std::string, std::less<>>& stepwise_kinds() {
  static const std::set<std::string, std::less<>> kinds = {"activation",
                                                           "add",
                                                           "average",
                                                           "batch_norm",
                                                           "dense",
                                                           "dropout",
                                                           "embedding",
                                                           "frozen",
                                                           "gaussian_dropout",
                                                           "gaussian_noise",
                                                           "layer_norm",
                                                           "maximum",
                                                           "minimum",
                                                           "multi_head_attention",
                                                           "multiply",
                                                           "network",
                                                           "prelu",
                                                           "position_encoding",
                                                           "position_embedding",
                                                           "rescaling",
                                                           "residual",
                                                           "rms_norm",
                                                           "rotary",
                                                           "sequential",
                                                           "subtract",
                                                           "time_distributed",
                                                           "transformer_decoder",
                                                           "transformer_encoder"};
  return kinds;
}

void check_stepwise(const std::string& name, const Layer& layer) {
  const LayerConfig config = layer.config();
  if (!stepwise_kinds().contains(config.kind))
    invalid_argument("layer '{}' of kind '{}' cannot be given a sequence step by step", name, config.kind);
  for (const auto& [part, inside] : config.layers) check_stepwise(name + "/" + part, *inside);
  if (!config.network) return;
  for (const NetworkPlan::Member& member : config.network->members)
    check_stepwise(name + "/" + member.name, *member.layer);
}

Tensor row_of(std::span<const std::int64_t> tokens) {
  Tensor out(DType::i64, Shape{1, static_cast<std::int64_t>(tokens.size())});
  std::ranges::copy(tokens, out.mutable_data<std::int64_t>());
  return out;
}

// Those of the last step of a row.
std::span<const float> last_logits(const Tensor& logits, std::int64_t row) {
  const std::int64_t steps = logits.shape()[1], tokens = logits.shape()[2];
  return {logits.data<float>() + ((row + 1) * steps - 1) * tokens, static_cast<std::size_t>(tokens)};
}

struct Beam {
  std::vector<std::int64_t> tokens{};
  double log_probability = 0;
};

double score_of(const Beam& beam, double length_penalty) {
  return beam.log_probability / std::pow(static_cast<double>(beam.tokens.size()), length_penalty);
}

// A token appended to a beam.
struct Candidate {
  double log_probability = 0;
  std::size_t beam = 0;
  std::int64_t token = 0;
};

// The best of all continuations, as many as are asked for; of equal ones the first.
std::vector<Candidate> best_candidates(const std::vector<Beam>& beams, const Tensor& logits, std::size_t most) {
  std::vector<Candidate> all;
  for (std::size_t i = 0; i < beams.size(); ++i) {
    const std::vector<double> logs = log_probabilities(last_logits(logits, static_cast<std::int64_t>(i)));
    for (std::size_t token = 0; token < logs.size(); ++token)
      all.push_back({beams[i].log_probability + logs[token], i, static_cast<std::int64_t>(token)});
  }
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(std::min(most, all.size()));
  std::partial_sort(all.begin(), middle, all.end(), [](const Candidate& a, const Candidate& b) {
    if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
    return std::pair(a.beam, a.token) < std::pair(b.beam, b.token);
  });
  all.erase(middle, all.end());
  return all;
}

}  // namespace

Generator::Generator(Task& task, const Network& network, const Parameters& values, std::int64_t capacity)
    : cache_{.capacity = capacity} {
  if (capacity < 1) invalid_argument("the capacity of sequences is {}, but must be positive", capacity);
  if (network.plan().inputs.size() != 1 || network.plan().results.size() != 1)
    invalid_argument("a network that generates has one input and one result, not {} and {}",
                     network.plan().inputs.size(), network.plan().results.size());
  for (const NetworkPlan::Member& member : network.plan().members) check_stepwise(member.name, *member.layer);
  tokens_ = placeholder(graph_, DType::i64, Shape{kUnknown, kUnknown}, "tokens");
  parents_ = placeholder(graph_, DType::i64, Shape{kUnknown}, "parents");
  cache_.position = placeholder(graph_, DType::i64, Shape{}, "position");
  VariablePool variables;
  LayerContext context{.graph = graph_, .variables = variables, .cache = &cache_};
  const Output result = network.apply(context, tokens_);
  if (result.shape().rank() != 3)
    invalid_argument("a network that generates must have logits [n, steps, tokens], not {}",
                     result.shape().to_string());
  logits_ = cast(result, DType::f32);
  check_values(variables.all(), values, "the values", true);
  Outputs fed, caches{parents_}, reordered;
  for (const VariableRef& v : variables.all()) {
    fed.push_back(v.read());
    values_.push_back(values.at(v.name));
  }
  fed.insert(fed.end(), {tokens_, cache_.position});
  fed.insert(fed.end(), cache_.before.begin(), cache_.before.end());
  caches.insert(caches.end(), cache_.before.begin(), cache_.before.end());
  for (const Output& cache : cache_.before) reordered.push_back(gather(cache, parents_));
  Outputs made{logits_};
  made.insert(made.end(), cache_.after.begin(), cache_.after.end());
  session_.emplace(task, graph_);
  step_ = session_->callable(fed, made);
  if (!reordered.empty()) reorder_ = session_->callable(caches, reordered);
  restart();
}

void Generator::restart(std::int64_t rows) {
  if (rows < 1) invalid_argument("{} sequences cannot be generated", rows);
  rows_ = rows;
  position_ = 0;
  state_.clear();
  for (const Output& cache : cache_.before) {
    Shape shape = cache.shape();
    shape.set_dim(0, rows);
    state_.push_back(Tensor::zeros(cache.dtype(), shape));
  }
}

Tensor Generator::extend(const Tensor& tokens) {
  if (tokens.dtype() != DType::i64 || tokens.shape().rank() != 2 || tokens.shape()[0] != rows_)
    invalid_argument("tokens are {}{}, but must be i64 [{}, steps]", name(tokens.dtype()), tokens.shape().to_string(),
                     rows_);
  const std::int64_t steps = tokens.shape()[1];
  if (steps < 1) invalid_argument("there are no tokens to append");
  if (position_ + steps > cache_.capacity)
    fail(Code::out_of_range, "{} tokens and {} more are too many for sequences of up to {}", position_, steps,
         cache_.capacity);
  std::vector<Tensor> feeds = values_;
  feeds.push_back(tokens);
  feeds.push_back(Tensor::scalar<std::int64_t>(position_));
  for (Tensor& state : state_) feeds.push_back(std::move(state));
  std::vector<Tensor> results = step_(std::move(feeds));
  state_.assign(std::make_move_iterator(results.begin() + 1), std::make_move_iterator(results.end()));
  position_ += steps;
  return results.front();
}

void Generator::reorder(const std::vector<std::int64_t>& parents) {
  for (const std::int64_t parent : parents)
    if (parent < 0 || parent >= rows_) invalid_argument("there is no sequence {}: there are {}", parent, rows_);
  rows_ = std::ssize(parents);
  if (state_.empty()) return;
  std::vector<Tensor> feeds{Tensor::of<std::int64_t>(Shape{rows_}, parents)};
  for (Tensor& state : state_) feeds.push_back(std::move(state));
  state_ = reorder_(std::move(feeds));
}

std::vector<std::int64_t> Generator::generate(std::span<const std::int64_t> prompt, const GenerateOptions& options) {
  if (prompt.empty()) invalid_argument("the prompt is empty: it must have at least one token");
  if (options.tokens < 1) invalid_argument("{} tokens cannot be generated", options.tokens);
  if (options.beams < 1) invalid_argument("{} beams cannot be searched", options.beams);
  restart();
  return options.beams > 1 ? search(prompt, options) : sample(prompt, options);
}

std::vector<std::int64_t> Generator::sample(std::span<const std::int64_t> prompt, const GenerateOptions& options) {
  std::mt19937_64 random(options.seed);
  std::vector<std::int64_t> out;
  Tensor logits = extend(row_of(prompt));
  while (true) {
    const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
    out.push_back(token_at(sampling_probabilities(last_logits(logits, 0), options.sampling), uniform));
    if (std::ssize(out) == options.tokens || out.back() == options.end) return out;
    logits = extend(row_of({&out.back(), 1}));
  }
}

std::vector<std::int64_t> Generator::search(std::span<const std::int64_t> prompt, const GenerateOptions& options) {
  const auto width = static_cast<std::size_t>(options.beams);
  std::vector<Beam> beams(1), ended;
  Tensor logits = extend(row_of(prompt));
  while (true) {
    // Twice as many, so that enough remain if a token of each beam ends it.
    const std::vector<Candidate> candidates = best_candidates(beams, logits, 2 * width);
    std::vector<Beam> next;
    std::vector<std::int64_t> parents;
    for (const Candidate& c : candidates) {
      Beam beam{beams[c.beam].tokens, c.log_probability};
      beam.tokens.push_back(c.token);
      if (c.token == options.end) {
        ended.push_back(std::move(beam));
      } else if (next.size() < width) {
        next.push_back(std::move(beam));
        parents.push_back(static_cast<std::int64_t>(c.beam));
      }
    }
    beams = std::move(next);
    if (beams.empty() || ended.size() >= width || std::ssize(beams.front().tokens) == options.tokens) break;
    reorder(parents);
    Tensor tokens(DType::i64, Shape{std::ssize(beams), 1});
    std::ranges::transform(beams, tokens.mutable_data<std::int64_t>(), [](const Beam& b) { return b.tokens.back(); });
    logits = extend(tokens);
  }
  ended.insert(ended.end(), beams.begin(), beams.end());
  return std::ranges::max_element(ended, {}, [&](const Beam& b) { return score_of(b, options.length_penalty); })
      ->tokens;
}

}  // namespace troupe
