// Hooks: code of the user's around the steps that a task computes, on workers and in local training.
//
//   class Watch final : public TrainingHook {
//    public:
//     std::vector<std::string> feeds() const override { return {"temperature"}; }        // a constant of the program
//     std::vector<std::string> fetches() const override { return {"generator/scores"}; }
//     std::vector<Tensor> before_step(const HookStep& at) override { return {Tensor::scalar(1.0F / (1 + at.step))}; }
//     void after_step(const HookStep&, const std::vector<Tensor>& fetched) override { show(fetched[0]); }
//   };
//
// All calls of a training come one after the other, on its thread. What a hook throws ends the training.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/graph/builder/core.hpp>
#include <troupe/messages/error.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

struct HookStep {
  std::uint32_t epoch = 0;
  std::uint64_t step = 0;
  std::uint32_t slot = 0;  // 0 if the task computes all of them
};

class TrainingHook {
 public:
  virtual ~TrainingHook() = default;
  // Names of tensors of the training graph, like "logits" or "split:1", that each step is fed with, and that it also
  // computes: in its first phase. The same at each call. Not_found for other names ends the training.
  virtual std::vector<std::string> feeds() const { return {}; }
  virtual std::vector<std::string> fetches() const { return {}; }

  // When variables have their first values: the graph that this task runs.
  virtual void begin(const Graph&) {}
  // The tensors to feed, one for each of feeds().
  virtual std::vector<Tensor> before_step(const HookStep&) { return {}; }
  virtual void after_step(const HookStep&, const std::vector<Tensor>&) {}
  virtual void end() {}
  virtual void error(const Error&) {}
};
using Hooks = std::vector<std::shared_ptr<TrainingHook>>;

// The hooks of one training.
class HookRun {
 public:
  // `output`: the output of the task's graph of this name.
  HookRun(const Hooks& hooks, const std::function<Output(const std::string&)>& output);

  bool any() const { return !hooks_.empty(); }
  const Outputs& feeds() const { return feeds_; }  // of all hooks
  const Outputs& fetches() const { return fetches_; }
  void begin(const Graph& graph);
  // Appends the tensors to feed. Throws invalid_argument for another number of them than a hook has feeds.
  void before_step(const HookStep& at, std::vector<Tensor>& feeds);
  // Takes the fetches from the end of `fetched`.
  void after_step(const HookStep& at, std::vector<Tensor>& fetched);
  void end();
  void error(const Error& why);

 private:
  const Hooks& hooks_;
  Outputs feeds_, fetches_;
  std::vector<std::size_t> feeds_of_, fetches_of_;  // by hook
};

}  // namespace troupe
