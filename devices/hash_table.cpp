#include "troupe/devices/hash_table.hpp"

#include <algorithm>
#include <cstring>

namespace troupe {
namespace {

// Copies elements; strings one by one.
void copy_elements(Tensor& to, std::int64_t to_first, const Tensor& from, std::int64_t from_first, std::int64_t count) {
  if (to.dtype() == DType::string) {
    std::copy_n(from.data<std::string>() + from_first, count, to.mutable_data<std::string>() + to_first);
    return;
  }
  const auto bytes = static_cast<std::int64_t>(size_of(to.dtype()));
  if (count > 0)
    std::memcpy(to.mutable_raw() + to_first * bytes, from.raw() + from_first * bytes,
                static_cast<std::size_t>(count * bytes));
}

}  // namespace

HashTable::HashTable(std::string name, std::string declaration, DType key_dtype, DType value_dtype, Shape value_shape)
    : Resource(std::move(name), std::move(declaration)),
      key_dtype_(key_dtype),
      value_dtype_(value_dtype),
      value_shape_(std::move(value_shape)) {
  if (key_dtype != DType::i64 && key_dtype != DType::string)
    invalid_argument("table '{}': keys must be i64 or string, not {}", this->name(), troupe::name(key_dtype));
  if (!value_shape_.has_rank() || !value_shape_.fully_known())
    invalid_argument("table '{}': the shape of its values must be known, not {}", this->name(),
                     value_shape_.to_string());
  values_ = Tensor(value_dtype_, Shape{0}.concatenated(value_shape_));
}

std::size_t HashTable::num_bytes() const {
  std::size_t bytes = values_.num_bytes() + (numbers_.size() + texts_.size()) * 4 * sizeof(std::int64_t);
  for (const auto* entry : texts_) bytes += entry->first.size();
  return bytes;
}

void HashTable::check_keys(const Tensor& keys) const {
  if (keys.dtype() != key_dtype_)
    invalid_argument("table '{}': keys must be {}, not {}", name(), troupe::name(key_dtype_),
                     troupe::name(keys.dtype()));
}

const std::int64_t* HashTable::found(const Tensor& keys, std::int64_t i) const {
  const auto in = [](const auto& map, const auto& key) {
    const auto it = map.find(key);
    return it == map.end() ? nullptr : &it->second;
  };
  return key_dtype_ == DType::i64 ? in(by_number_, keys.data<std::int64_t>()[i])
                                  : in(by_text_, keys.data<std::string>()[i]);
}

void HashTable::reserve(std::int64_t entries) {
  const std::int64_t capacity = values_.shape().dim(0);
  if (entries <= capacity) return;
  Tensor larger(value_dtype_, Shape{std::max(entries, 2 * capacity)}.concatenated(value_shape_));
  copy_elements(larger, 0, values_, 0, size_ * elements());
  values_ = std::move(larger);
}

void HashTable::check(const Tensor& keys, const Tensor& values) const {
  check_keys(keys);
  if (values.dtype() != value_dtype_ || !(values.shape() == keys.shape().concatenated(value_shape_)))
    invalid_argument("table '{}': values of keys {} must be {}{}, not {}{}", name(), keys.shape().to_string(),
                     troupe::name(value_dtype_), keys.shape().concatenated(value_shape_).to_string(),
                     troupe::name(values.dtype()), values.shape().to_string());
}

void HashTable::insert(const Tensor& keys, const Tensor& values) {
  check(keys, values);
  for (std::int64_t i = 0; i < keys.num_elements(); ++i) {
    const std::int64_t* known = found(keys, i);
    const std::int64_t entry = known ? *known : size_;
    if (!known) {
      reserve(size_ + 1);
      if (key_dtype_ == DType::i64)
        numbers_.push_back(&*by_number_.emplace(keys.data<std::int64_t>()[i], entry).first);
      else
        texts_.push_back(&*by_text_.emplace(keys.data<std::string>()[i], entry).first);
      ++size_;
    }
    copy_elements(values_, entry * elements(), values, i * elements(), elements());
  }
}

void HashTable::remove(const Tensor& keys) {
  check_keys(keys);
  const auto erase = [this](auto& map, auto& entries, std::int64_t gone) {
    const auto erased = *entries[static_cast<std::size_t>(gone)];
    entries[static_cast<std::size_t>(gone)] = entries.back();
    entries.back()->second = gone;
    entries.pop_back();
    map.erase(erased.first);
    copy_elements(values_, gone * elements(), values_, (size_ - 1) * elements(), gone == size_ - 1 ? 0 : elements());
    --size_;
  };
  for (std::int64_t i = 0; i < keys.num_elements(); ++i) {
    const std::int64_t* known = found(keys, i);
    if (!known) continue;
    if (key_dtype_ == DType::i64)
      erase(by_number_, numbers_, *known);
    else
      erase(by_text_, texts_, *known);
  }
}

Tensor HashTable::find(const Tensor& keys, const Tensor& otherwise, Allocator& allocator) const {
  check_keys(keys);
  const Shape all = keys.shape().concatenated(value_shape_);
  const bool one = otherwise.shape() == value_shape_;
  if (otherwise.dtype() != value_dtype_ || (!one && !(otherwise.shape() == all)))
    invalid_argument("table '{}': the default must be {}{} or {}, not {}{}", name(), troupe::name(value_dtype_),
                     value_shape_.to_string(), all.to_string(), troupe::name(otherwise.dtype()),
                     otherwise.shape().to_string());
  Tensor out = allocator.tensor(value_dtype_, all);
  for (std::int64_t i = 0; i < keys.num_elements(); ++i) {
    const std::int64_t* known = found(keys, i);
    if (known)
      copy_elements(out, i * elements(), values_, *known * elements(), elements());
    else
      copy_elements(out, i * elements(), otherwise, one ? 0 : i * elements(), elements());
  }
  return out;
}

Tensor HashTable::keys() const {
  Tensor out(key_dtype_, Shape{size_});
  for (std::size_t i = 0; i < numbers_.size(); ++i) out.mutable_data<std::int64_t>()[i] = numbers_[i]->first;
  for (std::size_t i = 0; i < texts_.size(); ++i) out.mutable_data<std::string>()[i] = texts_[i]->first;
  return out;
}

Tensor HashTable::values() const {
  Tensor out(value_dtype_, Shape{size_}.concatenated(value_shape_));
  copy_elements(out, 0, values_, 0, size_ * elements());
  return out;
}

void HashTable::assign_all(const Tensor& keys, const Tensor& values) {
  check(keys, values);
  size_ = 0;
  numbers_.clear();
  texts_.clear();
  by_number_.clear();
  by_text_.clear();
  values_ = Tensor(value_dtype_, Shape{0}.concatenated(value_shape_));
  insert(keys, values);
}

}  // namespace troupe
