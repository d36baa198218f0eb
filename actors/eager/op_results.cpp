#include "troupe/actors/eager/op_results.hpp"

#include <future>
#include <utility>

namespace troupe {
namespace {

template <class Wait>
void wait_around(const AroundWaits& around, const Wait& wait) {
  around ? around(wait) : wait();
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
  wait_around(*around_waits_, [&] {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return flag; });
  });
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
  std::promise<std::pair<Tensor, Error>> copied;
  device_.copy_to_host(here, [&](Tensor copy, Error error) { copied.set_value({std::move(copy), std::move(error)}); });
  std::pair<Tensor, Error> got;
  wait_around(*around_waits_, [&] { got = copied.get_future().get(); });
  auto& [copy, error] = got;
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
  wait_around(*around_waits_, [&] {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return count_ == 0; });
  });
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
