#include "troupe/actors/eager/op_results.hpp"

#include <optional>
#include <utility>

namespace troupe {
namespace {

template <class Over>
void wait_around(const AroundWaits& around, std::mutex& mutex, std::condition_variable& changed, const Over& over) {
  const auto wait = [&](std::chrono::milliseconds longest) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, longest, over);
  };
  if (around) return around(wait);
  std::unique_lock lock(mutex);
  changed.wait(lock, over);
}

}  // namespace

void OpResults::set(std::vector<Tensor> values) {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    if (!outputs_[i].forgotten) outputs_[i].here = std::move(values[i]);
  set_ = true;
  changed_.notify_all();
}

void OpResults::finish(std::exception_ptr fault) {
  const std::lock_guard lock(mutex_);
  error_ = std::move(fault);
  finished_ = true;
  changed_.notify_all();
}

void OpResults::fail(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  error_ = std::move(error);
  set_ = finished_ = true;
  changed_.notify_all();
}

void OpResults::wait_until(const bool& flag) {
  {
    const std::lock_guard lock(mutex_);
    if (flag) return;
  }
  wait_around(*around_waits_, mutex_, changed_, [&] { return flag; });
}

void OpResults::wait() {
  wait_until(set_);
  const std::lock_guard lock(mutex_);
  if (!error_) return;
  seen_ = true;
  std::rethrow_exception(error_);
}

void OpResults::wait_for_end() {
  wait_until(finished_);
  const std::lock_guard lock(mutex_);
  if (!error_) return;
  seen_ = true;
  std::rethrow_exception(error_);
}

Tensor OpResults::on_device(std::size_t output) const {
  const std::lock_guard lock(mutex_);
  return outputs_[output].here;
}

std::exception_ptr OpResults::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

bool OpResults::seen() const {
  const std::lock_guard lock(mutex_);
  return seen_;
}

const Tensor& OpResults::on_host(std::size_t output) {
  wait_for_end();
  Tensor here;
  {
    const std::lock_guard lock(mutex_);
    Value& value = outputs_[output];
    if (value.host.valid()) return value.host;
    if (value.here.space().on_host()) return value.here;
    here = value.here;
  }
  struct Copied {  // outlives a caller that waits no more
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<std::pair<Tensor, Error>> got;
  };
  const auto copied = std::make_shared<Copied>();
  device_.copy_to_host(here, [copied](Tensor copy, Error error) {
    const std::lock_guard lock(copied->mutex);
    copied->got.emplace(std::move(copy), std::move(error));
    copied->changed.notify_all();
  });
  wait_around(*around_waits_, copied->mutex, copied->changed, [&] { return copied->got.has_value(); });
  auto& [copy, error] = *copied->got;
  if (error) throw error;
  const std::lock_guard lock(mutex_);
  Value& value = outputs_[output];
  if (!value.host.valid()) value.host = std::move(copy);
  return value.host;
}

void OpResults::forget(std::size_t output) {
  Tensor here, host;  // freed without the lock
  const std::lock_guard lock(mutex_);
  Value& value = outputs_[output];
  value.forgotten = true;
  std::swap(here, value.here);
  std::swap(host, value.host);
}

bool OutstandingOps::begin() {
  const std::lock_guard lock(mutex_);
  return ++count_ <= kMost;
}

void OutstandingOps::end(std::shared_ptr<OpResults> failed) {
  const std::lock_guard lock(mutex_);
  if (failed && failed_.size() < kMostErrors) failed_.push_back(std::move(failed));
  if (--count_ == 0) changed_.notify_all();
}

void OutstandingOps::wait_for_all() {
  wait_around(*around_waits_, mutex_, changed_, [this] { return count_ == 0; });
}

void OutstandingOps::wait() {
  wait_for_all();
  std::vector<std::shared_ptr<OpResults>> failed;
  {
    const std::lock_guard lock(mutex_);
    failed.swap(failed_);
  }
  for (const auto& results : failed)
    if (!results->seen()) results->wait_for_end();
}

}  // namespace troupe
