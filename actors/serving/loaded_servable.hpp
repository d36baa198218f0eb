// A version of a model in memory, on a device of its own.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/cluster/private_device.hpp>
#include <troupe/actors/model/loaded_model.hpp>
#include <troupe/actors/serving/model_loader.hpp>
#include <troupe/actors/serving/serving_protocol.hpp>
#include <troupe/actors/serving/serving_statistics.hpp>
#include <troupe/actors/serving/step_times.hpp>
#include <troupe/actors/serving/weight_pool.hpp>
#include <troupe/scheduler/trace/trace.hpp>

namespace troupe {

// What all that a server loads has in common.
struct SharedLoading {
  std::shared_ptr<ModelLoader> loader{};
  WeightPool weights{};
  std::atomic<bool> ending{false};  // the server: requests that were recorded are not run any more
};

class LoadedServable final : public Servable, public std::enable_shared_from_this<LoadedServable> {
 public:
  // Compiles the model, and warms it up, so that the first request finds all in place: runs the requests that were
  // recorded for it (ServableModel::warm_up), and on zeros the other signatures that take no strings. Of a signature
  // that can be batched, the first request of each shape of a row also runs at each of `batch_sizes`, with its rows
  // repeated, or without those that are too many.
  //
  // Throws errors of compiling and, naming file and record, those of recorded requests: of inputs that do not fit, of
  // steps, and cancelled at the end of the server. What a run on zeros throws is ignored.
  LoadedServable(Task& task, ServableId id, ServableModel given, std::shared_ptr<PrivateDevice> device,
                 const std::vector<std::int64_t>& batch_sizes, SharedLoading& shared);
  ~LoadedServable() override;  // stops batchers that its loader, which has failed, did not
  LoadedServable(const LoadedServable&) = delete;
  LoadedServable& operator=(const LoadedServable&) = delete;

  // Requests of the signature go to this actor from now on, unless their step, by itself, takes less than `above`: as
  // one of no more rows did when the model was warmed up. Before the first request; again, by the same thread, while
  // requests come, if the actor has failed.
  void batch_by(const std::string& signature, BatcherActor batcher, Nanoseconds above = 0);

  const ServableId& id() const override { return id_; }
  const std::map<std::string, ModelSignature>& signatures() const override { return model_.signatures(); }
  const std::string& signature_named(const std::string& given) const override;
  std::shared_ptr<ServingCall> start(ServingRequest request, std::function<void(ServingResult)> done) const override;

  ServingStatistics* statistics() const override { return statistics_.get(); }

  const std::shared_ptr<ServingStatistics>& shared_statistics() const { return statistics_; }
  const ModelCallable& callable(const std::string& signature) const { return functions_.at(signature).call; }
  // Whether all inputs and outputs have an open first dimension: requests can be joined.
  bool can_batch(const std::string& signature) const;
  // Of its device: values and layouts that are not views of files.
  std::size_t bytes() const;

 private:
  struct Function {
    ModelCallable call{};
    std::atomic<const BatcherActor*> batcher{nullptr};  // null: none
    std::deque<BatcherActor> batchers{};  // that it has had: requests may still look at one that has failed
    mutable StepTimes times{};
    Nanoseconds warm_time = 0;    // of the fastest step of the warm-up; 0: none ended
    std::int64_t warm_rows = 0;   // of that
    std::int64_t rows_alone = 0;  // requests of so many are not batched
  };
  class StepCall;

  std::shared_ptr<ServingCall> begin(ServingRequest request, const std::function<void(ServingResult)>& done) const;
  void run_recorded(std::vector<ServingRequest> requests, const std::string& file,
                    const std::vector<std::int64_t>& batch_sizes, const std::atomic<bool>& ending);
  static void run_on_zeros(Function& function);
  static void measure(Function& function, const std::vector<Tensor>& inputs);

  const ServableId id_;
  Trace& trace_;
  const std::shared_ptr<PrivateDevice> device_;
  WeightShares weights_;
  const LoadedModel model_;
  const std::shared_ptr<ServingStatistics> statistics_ = std::make_shared<ServingStatistics>();
  std::map<std::string, Function> functions_;
};

// Servable::signature_named().
const std::string& usual_signature(const ServableId& id, const std::map<std::string, ModelSignature>& all,
                                   const std::string& given);
// Throws not_found, listing the outputs that there are, for a name that is none.
void check_outputs(const ModelSignature& signature, const std::vector<std::string>& wanted);
// The outputs that are wanted, by name; `results`: all, in the order of their names.
std::map<std::string, Tensor> named_outputs(const ModelSignature& signature, std::vector<Tensor> results,
                                            const std::vector<std::string>& wanted);

}  // namespace troupe
