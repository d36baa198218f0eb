#include "troupe/actors/data/feed_service.hpp"

#include <utility>

namespace troupe {

FeedService::Status FeedService::await(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [this] { return news_; });
  news_ = false;
  return status_;
}

void FeedService::opened(std::size_t feeds) {
  const std::lock_guard lock(mutex_);
  status_.begun = true;
  change(feeds);
}

void FeedService::closed(std::size_t feeds, const CloseFeed& why) {
  const std::lock_guard lock(mutex_);
  if (why.error)
    status_.left = why.error;
  else
    status_.over = why;
  change(feeds);
}

void FeedService::lost(std::size_t feeds, const Error& why) {
  const std::lock_guard lock(mutex_);
  status_.begun = true;
  status_.left = why;
  change(feeds);
}

void FeedService::change(std::size_t feeds) {
  status_.feeds = feeds;
  news_ = true;
  changed_.notify_all();
}

std::shared_ptr<FeedService::Use> FeedService::use(const std::shared_ptr<FeedService>& service) {
  return std::make_shared<Use>(service);
}

FeedService::Use::Use(std::shared_ptr<FeedService> service) : service_(std::move(service)) {
  const std::lock_guard lock(service_->mutex_);
  ++service_->users_;
}

FeedService::Use::~Use() {
  const std::lock_guard lock(service_->mutex_);
  --service_->users_;
  service_->changed_.notify_all();
}

void FeedService::await_release() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return users_ == 0; });
}

}  // namespace troupe
