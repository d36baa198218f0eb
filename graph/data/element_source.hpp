// Sources of elements that lie elsewhere: in files. ElementSource is read in order, IndexedSource by number.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <troupe/messages/tensor.hpp>

namespace troupe::data {

// Copies tensors to row `row` of tensors with a leading dimension: shapes are alike, or it throws data_loss.
void copy_to_row(std::span<const Tensor> element, std::int64_t row, std::span<Tensor> out);

// An element that is read, but not made: the work left is pure, such as parsing a record. Any thread may do it, any
// number of times. The source must outlive it.
class UnmadeElement {
 public:
  virtual ~UnmadeElement() = default;
  // Its components. Throws data_loss for what cannot be made.
  virtual std::vector<Tensor> make() const = 0;
  // Likewise, to row `row` of tensors with a leading dimension. Only for schemas without unknown dimensions.
  virtual void make_row(std::int64_t row, std::span<Tensor> out) const;
  // That it holds in memory.
  virtual std::size_t num_bytes() const { return 0; }
};

std::size_t num_bytes(std::span<const Tensor> element);  // of strings: their characters

// Reads the elements of one split, from its beginning. Not thread-safe.
class ElementCursor {
 public:
  virtual ~ElementCursor() = default;
  // The components of the next element; false at the end.
  virtual bool next(std::vector<Tensor>& element) = 0;
  // Likewise, to row `row` of tensors with a leading dimension. Only for schemas without unknown dimensions.
  virtual bool next_row(std::int64_t row, std::span<Tensor> out);
  // The next element, to be made later; null at the end. A cursor whose elements are much work to make once they are
  // read overrides it: that work is then shared by threads, and not done for elements that nobody needs.
  virtual std::unique_ptr<const UnmadeElement> next_unmade();
  // Passes over the next element; false at the end.
  virtual bool skip();
  // Of the next element: a number that means something to cursors of this split only.
  virtual std::uint64_t position() const = 0;
  // Throws data_loss for a position that the split does not have.
  virtual void seek(std::uint64_t position) = 0;
};

// Thread-safe.
class ElementSource {
 public:
  virtual ~ElementSource() = default;
  // How many splits there are, and what each has, follows from the description alone.
  virtual std::uint64_t splits() const = 0;
  virtual std::unique_ptr<ElementCursor> open(std::uint64_t split) const = 0;
  // Elements of all splits, if they are known before any is read.
  virtual std::optional<std::uint64_t> size() const { return std::nullopt; }
  // Damaged records that all cursors so far have left out.
  virtual std::uint64_t skipped() const { return 0; }
  // Why elements cannot be read by number: "'a.npz:x.npy' is deflated". Empty: nobody asked for it.
  virtual std::string in_order_because() const { return {}; }
};

// Thread-safe.
class IndexedSource {
 public:
  virtual ~IndexedSource() = default;
  virtual std::uint64_t size() const = 0;
  // The components of element `index`, below size().
  virtual std::vector<Tensor> read(std::uint64_t index) const = 0;
  // Likewise, to row `row` of tensors with a leading dimension. Only for schemas without unknown dimensions.
  virtual void read_row(std::uint64_t index, std::int64_t row, std::span<Tensor> out) const;
};

}  // namespace troupe::data
