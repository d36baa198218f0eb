// A hash table whose keys and values change: the resource of MutableHashTable. Only kernels of its device touch it.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include <troupe/devices/resource.hpp>

namespace troupe {

// Keys are i64 or string; values have any dtype and one known shape. Entries are numbered in the order of their
// insertion; removing one gives its number to the last.
class HashTable final : public Resource {
 public:
  // Throws invalid_argument for another dtype of keys, and for values of an unknown shape.
  HashTable(std::string name, std::string declaration, DType key_dtype, DType value_dtype, Shape value_shape);

  std::int64_t size() const { return size_; }
  DType key_dtype() const { return key_dtype_; }
  DType value_dtype() const { return value_dtype_; }
  const Shape& value_shape() const { return value_shape_; }
  std::size_t num_bytes() const override;

  // Adds entries or changes those that are there: keys of any shape, values [...keys, ...value]. Of equal keys the last
  // counts. All three throw invalid_argument for another dtype or shape, and change nothing then.
  void insert(const Tensor& keys, const Tensor& values);
  // Those that are not there are passed over.
  void remove(const Tensor& keys);
  // Values [...keys, ...value]; of keys that are not there `otherwise`, one value or as many as there are keys.
  Tensor find(const Tensor& keys, const Tensor& otherwise, Allocator& allocator) const;
  // Both in the order of the numbers: keys [n], values [n, ...value].
  Tensor keys() const;
  Tensor values() const;
  // Has these entries alone; throws like insert().
  void assign_all(const Tensor& keys, const Tensor& values);

 private:
  void check(const Tensor& keys, const Tensor& values) const;
  std::int64_t elements() const { return value_shape_.num_elements(); }
  void check_keys(const Tensor& keys) const;
  const std::int64_t* found(const Tensor& keys, std::int64_t i) const;
  void reserve(std::int64_t entries);

  const DType key_dtype_, value_dtype_;
  const Shape value_shape_;
  std::int64_t size_ = 0;
  Tensor values_;  // [capacity, ...value]
  std::unordered_map<std::int64_t, std::int64_t> by_number_;
  std::unordered_map<std::string, std::int64_t> by_text_;
  // By entry, to the node of the map, whose address does not change.
  std::vector<std::pair<const std::int64_t, std::int64_t>*> numbers_;
  std::vector<std::pair<const std::string, std::int64_t>*> texts_;
};

}  // namespace troupe
