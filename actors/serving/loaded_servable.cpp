#include "troupe/actors/serving/loaded_servable.hpp"

#include <algorithm>
#include <array>
#include <caf/send.hpp>
#include <set>
#include <utility>

#include <troupe/actors/model/joined_rows.hpp>
#include <troupe/actors/serving/batcher_actor.hpp>
#include <troupe/actors/serving/traced_requests.hpp>

namespace troupe {
namespace {

// Steps that usually take less than this run on the thread of their door: waking another takes about as long as a
// tenth of it.
constexpr Nanoseconds kShort = kMillisecond / 5;

constexpr int kMeasured = 5;  // runs of a short step, whose time is that of the fastest

// Of an unnamed signature, in the order of preference: TensorFlow's name, and ours.
constexpr std::array kUsualNames = {"serving_default", "predict"};

LoadedModel compiled(Task& task, AnyModel any, std::shared_ptr<PrivateDevice> device, WeightPool& weights,
                     WeightShares& shares) {
  shares = weights.share(any.values);
  SavedModel model;
  model.graph = std::move(any.graph);
  model.signatures = std::move(any.signatures);
  model.values = std::move(any.values);
  LoadedModelOptions options;
  options.task = &task;
  options.session.device = std::move(device);
  return LoadedModel(std::move(model), options);
}

// As many rows of a request: all again and again, or the first.
Tensor rows_repeated(const Tensor& tensor, std::int64_t rows) {
  const std::int64_t own = tensor.shape()[0];
  std::vector<Tensor> parts(static_cast<std::size_t>(rows / own), tensor);
  if (rows % own != 0) parts.push_back(tensor.rows(0, rows % own));
  return joined_rows("", parts);
}

// 0: unknown.
std::int64_t rows_of(const std::vector<Tensor>& inputs) {
  return inputs.empty() || inputs.front().shape().rank() == 0 ? 0 : inputs.front().shape()[0];
}

std::string listed(const auto& named) {
  std::string out;
  for (const auto& [name, unused] : named) out += fmt::format("{}'{}'", out.empty() ? "" : ", ", name);
  return out.empty() ? "none" : out;
}

}  // namespace

void check_outputs(const ModelSignature& signature, const std::vector<std::string>& wanted) {
  for (const std::string& name : wanted)
    if (!signature.outputs.contains(name))
      fail(Code::not_found, "there is no output '{}'; there are {}", name, listed(signature.outputs));
}

std::map<std::string, Tensor> named_outputs(const ModelSignature& signature, std::vector<Tensor> results,
                                            const std::vector<std::string>& wanted) {
  std::map<std::string, Tensor> out;
  std::size_t i = 0;
  for (const auto& [name, spec] : signature.outputs) {
    Tensor& result = results[i++];
    if (wanted.empty() || std::ranges::find(wanted, name) != wanted.end()) out.emplace(name, std::move(result));
  }
  return out;
}

LoadedServable::LoadedServable(Task& task, ServableId id, ServableModel given, std::shared_ptr<PrivateDevice> device,
                               const std::vector<std::int64_t>& batch_sizes, SharedLoading& shared)
    : id_(std::move(id)),
      trace_(task.actors().trace()),
      device_(std::move(device)),
      model_(compiled(task, std::move(given.model), device_, shared.weights, weights_)) {
  for (const auto& [name, signature] : model_.signatures()) functions_[name].call = model_.callable(name);
  run_recorded(std::move(given.warm_up), given.warm_up_file, batch_sizes, shared.ending);
  for (auto& [name, function] : functions_)
    if (function.warm_time == 0) run_on_zeros(function);
}

void LoadedServable::run_recorded(std::vector<ServingRequest> requests, const std::string& file,
                                  const std::vector<std::int64_t>& batch_sizes, const std::atomic<bool>& ending) {
  std::set<std::string> batched;  // signatures, and shapes of a row
  int number = 0;
  for (ServingRequest& request : requests) {
    try {
      ++number;
      if (ending) fail(Code::cancelled, "the server is ending");
      const std::string& name = signature_named(request.signature);
      Function& function = functions_.at(name);
      const std::vector<Tensor> inputs = function.call.ordered(std::move(request.inputs));
      function.call(inputs);
      if (function.warm_time == 0) measure(function, inputs);
      const bool rows =
          can_batch(name) && std::ranges::all_of(inputs, [](const Tensor& x) { return x.shape()[0] > 0; });
      if (batch_sizes.empty() || !rows || !batched.insert(name + ':' + row_shapes(inputs)).second) continue;
      for (const std::int64_t size : batch_sizes) {
        std::vector<Tensor> batch;
        for (const Tensor& x : inputs) batch.push_back(rows_repeated(x, size));
        function.call(std::move(batch));
      }
    } catch (...) {
      throw current_error().within(fmt::format("{}: record {}", file, number));
    }
  }
}

void LoadedServable::run_on_zeros(Function& function) {
  std::vector<Tensor> zeros;
  for (const auto& [name, spec] : function.call.signature().inputs) {
    if (spec.dtype == DType::string) return;
    std::vector<std::int64_t> dims;
    if (spec.shape.rank() < 0) return;
    for (const std::int64_t dim : spec.shape.dims()) dims.push_back(dim == kUnknown ? 1 : dim);
    zeros.push_back(Tensor::zeros(spec.dtype, Shape(dims)));
  }
  const Nanoseconds begin = steady_now_ns();
  try {
    function.call(zeros);
    measure(function, zeros);
  } catch (const Error&) {
    function.times.add(1, steady_now_ns() - begin);
  }
}

// Its first run is over.
void LoadedServable::measure(Function& function, const std::vector<Tensor>& inputs) {
  Nanoseconds fastest = BatchQueue::kNever;
  for (int i = 0; i < kMeasured; ++i) {
    const Nanoseconds begin = steady_now_ns();
    function.call(inputs);
    fastest = std::min(fastest, std::max<Nanoseconds>(steady_now_ns() - begin, 1));
    if (fastest > kShort) break;
  }
  function.warm_time = fastest;
  function.warm_rows = rows_of(inputs);
  function.times.add(function.warm_rows, fastest);
}

LoadedServable::~LoadedServable() {
  for (const auto& [name, function] : functions_)
    if (const BatcherActor* const batcher = function.batcher) caf::anon_send(*batcher, Stop{});
}

void LoadedServable::batch_by(const std::string& signature, BatcherActor batcher, Nanoseconds above) {
  Function& function = functions_.at(signature);
  const bool first = function.batchers.empty();
  function.batcher = &function.batchers.emplace_back(std::move(batcher));
  if (first && function.warm_time != 0 && function.warm_time < above) function.rows_alone = function.warm_rows;
}

bool LoadedServable::can_batch(const std::string& signature) const {
  const auto open = [](const auto& specs) {
    return std::ranges::all_of(specs, [](const auto& named) {
      const Shape& shape = named.second.shape;
      return shape.rank() > 0 && shape.dims()[0] == kUnknown;
    });
  };
  const ModelSignature& s = functions_.at(signature).call.signature();
  return !s.inputs.empty() && open(s.inputs) && open(s.outputs);
}

std::size_t LoadedServable::bytes() const {
  std::size_t out = 0;
  for (const Allocator* allocator : device_->device().allocators()) out += allocator->stats().bytes_in_use;
  return out;
}

const std::string& usual_signature(const ServableId& id, const std::map<std::string, ModelSignature>& all,
                                   const std::string& given) {
  if (given.empty()) {
    if (all.size() == 1) return all.begin()->first;
    for (const char* usual : kUsualNames)
      if (const auto found = all.find(usual); found != all.end()) return found->first;
  } else if (const auto found = all.find(given); found != all.end()) {
    return found->first;
  }
  fail(Code::not_found, "{} has no signature '{}'; it has {}", id.to_string(), given, listed(all));
}

const std::string& LoadedServable::signature_named(const std::string& given) const {
  return usual_signature(id_, model_.signatures(), given);
}

// A request that is a step. Does not keep the version: doors keep calls until their clients have taken the answer.
class LoadedServable::StepCall final : public ServingCall {
 public:
  StepCall(std::weak_ptr<const LoadedServable> servable, const ModelCallable& call, StepId step)
      : servable_(std::move(servable)), call_(call), step_(step) {}
  void cancel() override {
    if (const auto alive = servable_.lock()) call_.cancel(step_);
  }

 private:
  const std::weak_ptr<const LoadedServable> servable_;
  const ModelCallable& call_;  // of it
  const StepId step_;
};

namespace {

// A request that has ended.
class EndedCall final : public ServingCall {
 public:
  void cancel() override {}
};

// The answer to a traced request, which leaves behind the arrow to its step: the step may end before the call that
// starts it has returned what it is named.
class AnswerBehindArrow {
 public:
  explicit AnswerBehindArrow(std::function<void(StepResult)> answer) : answer_(std::move(answer)) {}
  void step_ended(StepResult result) {
    result_ = std::move(result);
    one_is_done();
  }
  void arrow_is_written() { one_is_done(); }

 private:
  void one_is_done() {
    if (half_.exchange(true)) answer_(std::move(result_));
  }

  const std::function<void(StepResult)> answer_;
  StepResult result_;
  std::atomic<bool> half_{false};  // one of the two has come
};

}  // namespace

std::shared_ptr<ServingCall> LoadedServable::start(ServingRequest request,
                                                   std::function<void(ServingResult)> done) const {
  statistics_->begin();
  // The version is kept by its handle until `done`.
  return begin(std::move(request),
               [statistics = statistics_.get(), came = steady_now_ns(), done = std::move(done)](ServingResult result) {
                 statistics->end(result, steady_now_ns() - came);
                 done(std::move(result));
               });
}

std::shared_ptr<ServingCall> LoadedServable::begin(ServingRequest request,
                                                   const std::function<void(ServingResult)>& done) const {
  try {
    const std::string& name = signature_named(request.signature);
    const Function& function = functions_.at(name);
    const ModelSignature& signature = function.call.signature();
    check_outputs(signature, request.outputs);
    std::vector<Tensor> inputs = function.call.ordered(std::move(request.inputs));
    const Nanoseconds begin = steady_now_ns();
    if (request.deadline <= begin) fail(Code::deadline_exceeded, "the deadline had passed when the request came");
    function.call.check(inputs);
    const std::int64_t rows = rows_of(inputs);
    const BatcherActor* const batcher = function.batcher;
    if (batcher && (rows == 0 || rows > function.rows_alone))
      return start_batched(*batcher, function.call, std::move(inputs), std::move(request), done);
    const Nanoseconds usual = function.times.usual(rows);
    auto answer = [&function, &signature, begin, rows, wanted = std::move(request.outputs), done](StepResult result) {
      const Nanoseconds took = steady_now_ns() - begin;
      ServingResult out{.error = std::move(result.error), .times = {.run = took}};
      if (!out.error) {
        function.times.add(rows, took);
        out.outputs = named_outputs(signature, std::move(result.fetches), wanted);
      }
      done(std::move(out));
    };
    const bool timed = request.deadline != BatchQueue::kNever;
    const bool here = usual < kShort && (!timed || request.deadline > begin + 10 * usual);
    const auto started = [&](std::function<void(StepResult)> ended) {
      RunOptions options;
      if (here) return function.call.start_here(std::move(inputs), options, std::move(ended));
      if (timed) options.timeout = std::chrono::nanoseconds(request.deadline - begin);
      return function.call.start(std::move(inputs), options, std::move(ended));
    };
    const auto call = [&](StepId step) { return std::make_shared<StepCall>(weak_from_this(), function.call, step); };
    if (request.traced == 0) return call(started(std::move(answer)));
    const auto behind = std::make_shared<AnswerBehindArrow>(std::move(answer));
    const StepId step = started([behind](StepResult result) { behind->step_ended(std::move(result)); });
    trace_step(trace_, request.traced, function.call.traced(step), begin);
    auto out = call(step);
    behind->arrow_is_written();
    return out;
  } catch (...) {
    done({.error = current_error()});
    return std::make_shared<EndedCall>();
  }
}

}  // namespace troupe
