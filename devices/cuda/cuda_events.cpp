#include "troupe/devices/cuda/cuda_events.hpp"

#include <pthread.h>

#include <utility>

namespace troupe {

// ---- CudaEventPool -------------------------------------------------------------------------------------------------

CudaEventPool::~CudaEventPool() {
  for (CudaEventHandle event : free_) driver_->destroy(event);
}

CudaEventHandle CudaEventPool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      CudaEventHandle event = free_.back();
      free_.pop_back();
      return event;
    }
  }
  driver_->use(ordinal_);
  return driver_->make_event();
}

void CudaEventPool::give_back(CudaEventHandle event) {
  const std::lock_guard lock(mutex_);
  free_.push_back(event);
}

// ---- CudaEvent -----------------------------------------------------------------------------------------------------

bool CudaEvent::reached() const {
  const std::lock_guard lock(mutex_);
  return reached_;
}

void CudaEvent::on_reached(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!reached_) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback();
}

Error CudaEvent::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

void CudaEvent::await() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return reached_; });
}

void CudaEvent::reach() {
  keeps.clear();
  Error found = look ? std::exchange(look, nullptr)() : Error();
  std::vector<std::function<void()>> callbacks;
  {
    const std::lock_guard lock(mutex_);
    reached_ = true;
    error_ = std::move(found);
    callbacks.swap(callbacks_);
  }
  wake_.notify_all();
  for (auto& callback : callbacks) callback();
}

// ---- CudaStream ----------------------------------------------------------------------------------------------------

CudaStream::CudaStream(std::shared_ptr<CudaDriver> driver, int ordinal, CudaEventPool& pool, const std::string& name,
                       std::function<void(const Error&)> on_error)
    : driver_(std::move(driver)), ordinal_(ordinal), pool_(pool), name_(name), on_error_(std::move(on_error)) {
  driver_->use(ordinal_);
  native_ = driver_->make_stream();
  thread_ = std::thread([this] { run(); });
}

CudaStream::~CudaStream() {
  stop();
  driver_->destroy(native_);
}

void CudaStream::record(const std::shared_ptr<CudaEvent>& event) {
  driver_->use(ordinal_);
  CudaEventHandle native = pool_.take();
  // Under the lock: events are waited for in stream order.
  const std::lock_guard lock(mutex_);
  try {
    driver_->record(native, native_);
  } catch (...) {
    pool_.give_back(native);
    throw;
  }
  event->native = native;
  pending_.push_back(event);
  wake_.notify_one();
}

void CudaStream::follow(const CudaStream& other) {
  driver_->use(ordinal_);
  CudaEventHandle event = pool_.take();
  try {
    driver_->record(event, other.native_);
    driver_->wait(native_, event);
  } catch (...) {
    pool_.give_back(event);
    throw;
  }
  pool_.give_back(event);  // streams wait for the last record before they were told to wait
}

void CudaStream::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void CudaStream::run() {
  pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
  for (;;) {
    std::shared_ptr<CudaEvent> event;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !pending_.empty(); });
      if (pending_.empty()) return;
      event = std::move(pending_.front());
      pending_.pop_front();
    }
    try {
      driver_->use(ordinal_);
      driver_->await(event->native);
    } catch (const Error& error) {
      on_error_(error);
    }
    pool_.give_back(std::exchange(event->native, nullptr));
    event->reach();
  }
}

}  // namespace troupe
