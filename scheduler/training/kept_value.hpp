// The value of a slice before an update: whole, or, if an update changes only the rows of its gradient, these rows.
#pragma once

#include <troupe/messages/tensor.hpp>

namespace troupe {

// Rows `rows` (i64 [n], each in the value) of a value on the host: [n, rest of its shape].
Tensor rows_of(const Tensor& value, const Tensor& rows);

class KeptValue {
 public:
  KeptValue() = default;  // nothing: the update did not change the value
  static KeptValue of_whole(Tensor value);
  // `values`: those of `rows`, which may repeat. Rows from several slots are one ascending run each.
  static KeptValue of_rows(const Tensor& rows, const Tensor& values);

  bool valid() const { return whole_.valid() || rows_.valid(); }
  const Tensor& whole() const { return whole_; }  // invalid unless kept whole
  // Makes `values`, those of `rows` after the update, those before it.
  void restore(const Tensor& rows, Tensor& values) const;
  // The same for the value: returns that before the update.
  Tensor restored(const Tensor& value) const;

 private:
  Tensor whole_;
  Tensor rows_;    // i64, ascending, distinct
  Tensor values_;  // of these
};

}  // namespace troupe
