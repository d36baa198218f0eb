// A shard of two scalars without a network: messages go in by hand, what it says is kept.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>

#include <troupe/scheduler/training/shard_state.hpp>

namespace troupe::testing {

// Adds gradients to values; keeps what it was asked to do.
class AddingStore final : public ShardStore {
 public:
  Tensor value(std::uint32_t slice) override { return values.at(slice); }
  void keep_as_final(std::uint32_t) override {}
  Tensor final_value(std::uint32_t slice) override { return value(slice); }
  void apply(std::uint32_t slice, const Update& update) override {
    if (slice == fails_on) fail(Code::internal, "no kernel");
    updates.push_back({slice, update});
    Tensor value = values.at(slice).clone();
    for (std::int64_t i = 0; i < value.num_elements(); ++i)
      value.mutable_data<float>()[i] += update.gradient.values.data<float>()[i];
    values[slice] = value;
  }
  std::map<std::uint32_t, Tensor> values = {{10, Tensor::vector<float>({0})}, {20, Tensor::vector<float>({0})}};
  std::vector<std::pair<std::uint32_t, Update>> updates;
  std::uint32_t fails_on = 0;
};

class ShardTest : public ::testing::Test {
 protected:
  void make(ShardOptions options) {
    options.shard = 3;
    options.workers = 4;
    state = std::make_unique<ShardState>(
        options, std::vector<SliceSpec>{{20, "b", DType::f32, Shape{1}}, {10, "a", DType::f32, Shape{1}}}, store);
  }
  void make(std::uint32_t slots, bool keep_previous = true) {
    ShardOptions options;
    options.slots = slots;
    options.keep_previous = keep_previous;
    make(options);
  }
  void make_async(std::uint32_t accumulate = 1, bool scale = false, std::size_t max_open = 16) {
    ShardOptions options;
    options.mode = TrainingMode::asynchronous;
    options.accumulate = accumulate;
    options.scale_by_staleness = scale;
    options.max_open_batches = max_open;
    make(options);
  }
  Push message(std::uint64_t step, std::uint32_t slot, std::uint32_t slice, float g, std::uint32_t worker = 0) {
    return {.worker = worker,
            .step = step,
            .slot = slot,
            .slice = slice,
            .pulled_version = state->version(),
            .gradient = Tensor::vector<float>({g}),
            .indices = {}};
  }
  Error push(Push message) { return state->push(std::move(message), out); }
  Error push(std::uint64_t step, std::uint32_t slot, std::uint32_t slice, float g, std::uint32_t worker = 0) {
    return push(message(step, slot, slice, g, worker));
  }
  // Both slices.
  void push_all(std::uint64_t step, std::uint32_t slot, float g, std::uint32_t worker = 0) {
    const std::uint64_t pulled = state->version();
    for (const std::uint32_t slice : {10u, 20u}) {
      Push both = message(step, slot, slice, g, worker);
      both.pulled_version = pulled;
      EXPECT_FALSE(push(both)) << "slice " << slice;
    }
  }
  Error pull(std::uint32_t slice, std::uint64_t min_version, std::uint32_t worker = 0, std::uint64_t step = 1) {
    return state->pull({worker, {SessionId{1}, StepId{step}, EdgeId{slice}}, slice, min_version}, out);
  }
  template <class T>
  std::vector<T> said() const {
    std::vector<T> found;
    for (const Outgoing& outgoing : out)
      if (const T* message = std::get_if<T>(&outgoing.message)) found.push_back(*message);
    return found;
  }
  float value(std::uint32_t slice) { return store.values.at(slice).item<float>(); }
  // An Error that leaves everything as it was.
  void expect_refused(const Error& error, Code code, std::string_view text) {
    EXPECT_EQ(error.code(), code) << error.message();
    EXPECT_NE(error.message().find(text), std::string::npos) << error.message();
    EXPECT_EQ(error.message().find("shard 3: "), 0u) << error.message();
    EXPECT_EQ(state->counters().refused, ++refused);
    EXPECT_EQ(state->counters().staged_bytes, 0u);
  }

  AddingStore store;
  std::unique_ptr<ShardState> state;
  TrainingOutbox out;
  std::uint64_t refused = 0;
};

}  // namespace troupe::testing
