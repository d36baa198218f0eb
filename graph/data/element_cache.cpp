#include "troupe/graph/data/element_cache.hpp"

#include <mutex>

#include <troupe/graph/data/element_source.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::data {

std::optional<std::vector<Tensor>> ElementCache::find(std::uint64_t number) const {
  const std::shared_lock lock(mutex_);
  const auto found = elements_.find(number);
  return found == elements_.end() ? std::nullopt : std::optional(found->second);
}

void ElementCache::put(std::uint64_t number, const std::vector<Tensor>& element) {
  const std::uint64_t bytes = data::num_bytes(element);
  const std::lock_guard lock(mutex_);
  if (elements_.contains(number)) return;
  if (bytes > limit_ - bytes_)
    fail(Code::resource_exhausted,
         "{} elements have {} bytes, and element {} has {} more: the limit is {}. Give cache() a higher one, or keep "
         "them in a file: cache_file()",
         elements_.size(), bytes_, number, bytes, limit_);
  elements_.emplace(number, element);
  bytes_ += bytes;
}

std::optional<std::uint64_t> ElementCache::size() const {
  const std::shared_lock lock(mutex_);
  return size_;
}

void ElementCache::set_size(std::uint64_t elements) {
  const std::lock_guard lock(mutex_);
  size_ = elements;
}

std::uint64_t ElementCache::num_bytes() const {
  const std::shared_lock lock(mutex_);
  return bytes_;
}

}  // namespace troupe::data
