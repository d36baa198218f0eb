// TopK: scans with a threshold, so that few elements are ever moved.
#include <algorithm>
#include <functional>

#include <troupe/kernels/common/movement.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/index_moves.hpp>
#include <troupe/kernels/cpu/scratch.hpp>
#include <troupe/kernels/cpu/sort_keys.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

// The `k` least words of those seen, of keys in the order of their indices. Words above a threshold are never kept.
template <class K>
class LeastWords {
 public:
  using Word = Indexed<K>;
  LeastWords(std::int64_t k, Word* room, std::int64_t capacity) : k_(k), capacity_(capacity), words_(room) {}

  // `count` keys, at most kIndexBlock, of the elements from `first` on.
  void see(const K* keys, std::int64_t count, std::int64_t first) {
    if (size_ + count > capacity_) shrink();
    if (!full_) {
      for (std::int64_t i = 0; i < count; ++i) words_[size_ + i] = indexed(keys[i], first + i);
      size_ += count;
      return;
    }
    // Later elements do not displace equal ones.
    constexpr std::int64_t kGroup = 32;
    std::int64_t i = 0;
    for (; i + kGroup <= count; i += kGroup) {
      std::uint32_t any = 0;
      for (std::int64_t j = 0; j < kGroup; ++j) any |= static_cast<std::uint32_t>(keys[i + j] < threshold_);
      if (any) append(keys + i, kGroup, first + i);
    }
    append(keys + i, count - i, first + i);
  }

  // The k least, in order.
  const Word* finish(Word* room) {
    if (size_ > k_) std::nth_element(words_, words_ + k_ - 1, words_ + size_);
    size_ = std::min(size_, k_);
    // Radix sort needs ascending indices.
    if constexpr (std::is_same_v<Word, std::uint64_t>) return sort_words_of(words_, room, size_);
    std::sort(words_, words_ + size_);
    return words_;
  }

 private:
  static const std::uint64_t* sort_words_of(std::uint64_t* words, std::uint64_t* room, std::int64_t count) {
    return sort_words(words, room, count);  // keys and indices in one word: by all its bits
  }
  static const IndexedKey* sort_words_of(IndexedKey* words, IndexedKey*, std::int64_t) { return words; }

  void append(const K* keys, std::int64_t count, std::int64_t first) {
    for (std::int64_t i = 0; i < count; ++i) {
      words_[size_] = indexed(keys[i], first + i);
      size_ += keys[i] < threshold_;
    }
  }
  void shrink() {
    std::nth_element(words_, words_ + k_ - 1, words_ + size_);
    size_ = k_;
    full_ = true;
    if constexpr (std::is_same_v<Word, std::uint64_t>)
      threshold_ = static_cast<K>(words_[k_ - 1] >> 32);
    else
      threshold_ = words_[k_ - 1].key;
  }

  std::int64_t k_, capacity_, size_ = 0;
  Word* words_;
  K threshold_ = 0;
  bool full_ = false;
};

template <class K>
void top_k_rows(Device& device, const Tensor& x, std::int64_t count, std::int64_t k, bool largest,
                std::int64_t* indices) {
  const std::int64_t rows = x.num_elements() / count;
  const std::int64_t capacity = std::min(count, 2 * k + 1024) + kIndexBlock;
  device.parallelism().parallel_for(rows, rows_per_part(count), [&](std::int64_t begin, std::int64_t end) {
    const ScratchArray<Indexed<K>> words(capacity), room(k);
    K keys[kIndexBlock];
    for (std::int64_t row = begin; row < end; ++row) {
      LeastWords<K> least(k, words.data(), capacity);
      for (std::int64_t at = 0; at < count; at += kIndexBlock) {
        const std::int64_t n = std::min(kIndexBlock, count - at);
        order_keys(x, row * count + at, n, largest ? ~K{0} : K{0}, keys);
        least.see(keys, n, at);
      }
      const Indexed<K>* sorted = least.finish(room.data());
      for (std::int64_t i = 0; i < k; ++i) indices[row * k + i] = index_of(sorted[i]);
    }
  });
}

void top_k(KernelContext& c, std::int64_t attribute, bool largest) {
  const Shape shape = c.input(0).shape();
  if (shape.rank() < 1) invalid_argument("TopK: x is a scalar");
  if (c.input(1).num_elements() != 1) invalid_argument("TopK: k is {}, not a scalar", c.input(1).shape().to_string());
  const int axis = checked_axis(attribute, shape.rank());
  const std::int64_t count = shape.dim(axis), k = c.input(1).item<std::int64_t>();
  if (k < 0 || k > count)
    invalid_argument("TopK: k is {}, but x {} has {} elements along the axis", k, shape.to_string(), count);
  check_row_length("TopK", count);
  Shape result = shape;
  result.set_dim(axis, k);
  if (result.num_elements() == 0) {
    c.set_output(0, c.allocate(c.input(0).dtype(), result));
    return c.set_output(1, c.allocate(DType::i64, result));
  }
  const Tensor x = with_axis_last(c.device(), c.input(0), axis);
  Shape last = x.shape();
  last.set_dim(shape.rank() - 1, k);
  Tensor indices = c.device().allocator().tensor(DType::i64, last),
         values = c.device().allocator().tensor(x.dtype(), last);
  std::int64_t* at = indices.mutable_data<std::int64_t>();
  with_keys(x.dtype(), [&]<class K>() { top_k_rows<K>(c.device(), x, count, k, largest, at); });
  const Piece piece = piece_of(x.dtype(), 1);
  for (std::int64_t row = 0; row < indices.num_elements() / k; ++row) {
    std::int64_t offsets[kIndexBlock];
    for (std::int64_t i = 0; i < k; i += kIndexBlock) {
      const std::int64_t n = std::min(kIndexBlock, k - i);
      for (std::int64_t j = 0; j < n; ++j) offsets[j] = (row * count + at[row * k + i + j]) * piece.bytes;
      move_from(x.raw(), offsets, n, piece, values.mutable_raw() + (row * k + i) * piece.bytes);
    }
  }
  c.set_output(0, with_last_at(c.device(), values, axis));
  c.set_output(1, with_last_at(c.device(), indices, axis));
}

}  // namespace

void register_top_k_kernels(KernelRegistry& registry) {
  add_untyped(registry, "TopK", [](const KernelInit& init) -> Kernel {
    return [axis = init.attributes.integer("axis"), largest = init.attributes.boolean("largest")](KernelContext& c) {
      top_k(c, axis, largest);
    };
  });
}

}  // namespace troupe
