// A servable that tests control, and models that have it.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "apps/serve/served_models.hpp"
#include <troupe/messages/error.hpp>

namespace troupe::testing {

// y = 2 x; what happens to a request of the signature "held" is up to the test.
class FakeServable final : public Servable {
 public:
  struct Held {
    ServingRequest request;
    std::function<void(ServingResult)> done;
  };
  class Call final : public ServingCall {
   public:
    explicit Call(std::function<void()> cancelled) : cancelled_(std::move(cancelled)) {}
    void cancel() override { cancelled_(); }

   private:
    const std::function<void()> cancelled_;
  };

  FakeServable() {
    ModelSignature twice{.inputs = {{"x", {.tensor = "x:0", .dtype = DType::f32, .shape = Shape{kUnknown, 2}}}},
                         .outputs = {{"y", {.tensor = "y:0", .dtype = DType::f32, .shape = Shape{kUnknown, 2}}}}};
    signatures_ = {{"serving_default", twice}, {"held", twice}, {"refused", twice}};
  }
  const ServableId& id() const override { return id_; }
  const std::map<std::string, ModelSignature>& signatures() const override { return signatures_; }
  const std::string& signature_named(const std::string& given) const override {
    const auto found = signatures_.find(given.empty() ? "serving_default" : given);
    if (found == signatures_.end()) fail(Code::not_found, "there is no signature '{}'", given);
    return found->first;
  }
  std::shared_ptr<ServingCall> start(ServingRequest request, std::function<void(ServingResult)> done) const override {
    if (request.signature == "held") {
      const std::lock_guard lock(mutex_);
      held_.push_back({std::move(request), done});
      // `done` itself is not held by the call, as that of a batch would be.
      return std::make_shared<Call>([this, done] {
        ++cancelled_;
        done({.error = Error(Code::cancelled, "cancelled")});
      });
    }
    if (request.signature == "refused")
      done({.error = Error(Code::unavailable, "the queue is full"), .retry_after_ms = 1500});
    else
      done(twice(request));
    return nullptr;
  }
  static ServingResult twice(const ServingRequest& request) {
    Tensor y = request.inputs.at("x").clone();
    for (float& value : y.mutable_values<float>()) value *= 2;
    return {.outputs = {{"y", y}}};
  }
  std::size_t held() const {
    const std::lock_guard lock(mutex_);
    return held_.size();
  }
  Held take() const {
    const std::lock_guard lock(mutex_);
    Held out = std::move(held_.front());
    held_.pop_front();
    return out;
  }
  int cancelled() const { return cancelled_; }

 private:
  const ServableId id_{"m", 3};
  std::map<std::string, ModelSignature> signatures_;
  mutable std::mutex mutex_;
  mutable std::deque<Held> held_;
  mutable std::atomic<int> cancelled_{0};
};

// Model "m", version 3, label "stable".
inline ServedModels models_with(std::shared_ptr<FakeServable> model, const std::atomic<bool>& ready) {
  ServedModels models;
  models.find = [model = std::move(model)](std::string_view name,
                                           const VersionLabels::Wanted& wanted) -> ServableHandle {
    if (name != "m") fail(Code::not_found, "there is no model '{}'", name);
    if (wanted.version.value_or(3) != 3) fail(Code::not_found, "no version {}", *wanted.version);
    if (!wanted.label.empty() && wanted.label != "stable") fail(Code::not_found, "no label '{}'", wanted.label);
    return model;
  };
  models.status = [](const std::string& model) {
    if (model != "m") fail(Code::not_found, "there is no model '{}'", model);
    return std::vector<ServableManager::Status>{
        {.id = {"m", 2}, .state = ServableState::error, .error = Error(Code::data_loss, "damaged")},
        {.id = {"m", 3}, .state = ServableState::ready}};
  };
  models.ready = [&ready] { return ready.load(); };
  return models;
}

}  // namespace troupe::testing
