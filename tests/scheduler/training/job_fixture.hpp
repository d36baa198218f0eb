// A coordinator without a network: messages go in by hand, what it says is kept.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include <troupe/scheduler/training/coordinator.hpp>

namespace troupe::testing {

class JobTest : public ::testing::Test {
 protected:
  // 2 workers, 1 shard, 2 slots of 10 examples, 3 steps an epoch, 3 batches of at most 10 examples to evaluate.
  static JobOptions defaults() {
    JobOptions options;
    options.workers = 2;
    options.shards = {4};
    options.slots = 2;
    options.batch = 10;
    options.steps_per_epoch = 3;
    options.evaluation_batches = 3;
    options.evaluation_batch = 10;
    options.fingerprint = 99;
    options.settings = "batch=10\nseed=7\n";
    return options;
  }
  void make(const std::function<void(JobOptions&)>& change = [](JobOptions&) {}) {
    JobOptions options = defaults();
    change(options);
    job = std::make_unique<Coordinator>(options, now);
  }
  Error join(std::uint32_t worker, std::uint64_t incarnation = 1) {
    return job->join({worker, Incarnation{incarnation}, 99, "batch=10\nseed=7\n"}, now, out);
  }
  void join_all() {
    EXPECT_FALSE(join(0));
    EXPECT_FALSE(join(1));
  }
  Error ask(std::uint32_t worker, std::uint64_t request) { return job->take_token({worker, request}, now, out); }
  // The token that the next request of `worker` gets at once.
  Token take(std::uint32_t worker) {
    out.clear();
    EXPECT_FALSE(ask(worker, ++requests[worker]));
    const auto tokens = said<Token>();
    EXPECT_EQ(tokens.size(), 1u) << job->waits_for();
    return tokens.empty() ? Token{} : tokens.back();
  }
  bool parks(std::uint32_t worker) {
    out.clear();
    EXPECT_FALSE(ask(worker, ++requests[worker]));
    return out.empty();
  }
  // Half of 10 examples are right; of those of the last batch to evaluate, all 5.
  Error done(std::uint32_t worker, const Token& token, double correct = 5) {
    const double examples = token.kind == TokenKind::evaluate && token.slot == 2 ? 5 : 10;
    return job->token_done({.worker = worker,
                            .token = token,
                            .sums = {{"loss", {20, examples}}, {"correct", {correct, examples}}},
                            .examples = static_cast<std::uint64_t>(examples)},
                           now, out);
  }
  Error over(std::uint32_t worker, const Token& token) {
    return job->token_done({.worker = worker, .token = token, .sums = {}, .over = true}, now, out);
  }
  // The mean of a metric in the figures of an epoch.
  static double mean_of(const NamedSums& sums, std::string_view name) {
    const NamedSum* sum = find(sums, name);
    return sum ? sum->values.at(0) / sum->values.at(1) : -1;
  }
  Error stage(const Token& token, std::uint64_t version = 0) {
    return job->staged({4, token.step, token.phase, token.slot, version}, now, out);
  }
  void finish(std::uint32_t worker, const Token& token) {
    EXPECT_FALSE(done(worker, token));
    if (token.kind == TokenKind::train) {
      EXPECT_FALSE(stage(token));
    }
  }
  // The rest of the epoch's tokens of `kind`, all by `worker`.
  void finish_all(std::uint32_t worker, TokenKind kind, int tokens) {
    for (int i = 0; i < tokens; ++i) {
      const Token token = take(worker);
      EXPECT_EQ(token.kind, kind) << "token " << i;
      finish(worker, token);
    }
  }
  template <class T>
  std::vector<T> said() const {
    std::vector<T> found;
    for (const Outgoing& outgoing : out)
      if (const T* message = std::get_if<T>(&outgoing.message)) found.push_back(*message);
    return found;
  }
  void expect_failed(Code code, std::string_view text) {
    EXPECT_EQ(job->stage(), Coordinator::Stage::failed);
    ASSERT_EQ(said<JobFailed>().size(), 1u);
    EXPECT_EQ(out.back().to.kind, Destination::Kind::everyone);
    EXPECT_EQ(job->failure().code(), code);
    EXPECT_NE(job->failure().message().find(text), std::string::npos) << job->failure().message();
  }

  Nanoseconds now = 5 * kSecond;
  std::unique_ptr<Coordinator> job;
  TrainingOutbox out;
  std::uint64_t requests[4] = {};
};

}  // namespace troupe::testing
