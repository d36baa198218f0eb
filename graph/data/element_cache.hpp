// Elements kept in memory once they are made, by their numbers (Pipeline::cache()).
#pragma once

#include <cstdint>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include <troupe/messages/tensor.hpp>

namespace troupe::data {

// Thread-safe.
class ElementCache {
 public:
  // `limit`: bytes of all elements.
  explicit ElementCache(std::uint64_t limit) : limit_(limit) {}
  std::optional<std::vector<Tensor>> find(std::uint64_t number) const;
  // Keeps it, unless it is there. Throws resource_exhausted if it goes beyond the limit.
  void put(std::uint64_t number, const std::vector<Tensor>& element);
  // How many elements there are; nullopt: not known yet.
  std::optional<std::uint64_t> size() const;
  void set_size(std::uint64_t elements);
  std::uint64_t num_bytes() const;

 private:
  const std::uint64_t limit_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::uint64_t, std::vector<Tensor>> elements_;
  std::optional<std::uint64_t> size_;
  std::uint64_t bytes_ = 0;
};

}  // namespace troupe::data
