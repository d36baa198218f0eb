// DistinctRows, SumRows and JoinRows: rows of tables that lie in pieces (graph/ops/rows.cpp).
#include <algorithm>
#include <cstring>
#include <vector>

#include <troupe/kernels/common/row_groups.hpp>
#include <troupe/kernels/cpu/elementwise.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/index_moves.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

// Row r is in piece r mod K, as its row r / K. Keys number the rows of piece 0, then those of piece 1, and so on.
class RowPieces {
 public:
  // rows = 0: not known; then there is one piece.
  explicit RowPieces(const Attributes& attributes)
      : rows_(attributes.integer("rows")), pieces_(attributes.integer("K")) {
    if (rows_ == 0 && pieces_ > 1) invalid_argument("a table of {} pieces must have a known number of rows", pieces_);
    each_ = rows_ / pieces_ + (rows_ % pieces_ != 0);
  }
  int count() const { return static_cast<int>(pieces_); }

  // The key of each row number; throws invalid_argument for one that the table does not have.
  void keys(std::string_view op, std::span<const std::int64_t> rows, std::int64_t* out) const {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::int64_t row = rows[i];
      if (row < 0 || (rows_ > 0 && row >= rows_))
        throw_bad_index(op, row, static_cast<std::int64_t>(i), rows_, /*from_end=*/false);
      out[i] = pieces_ == 1 ? row : row % pieces_ * each_ + row / pieces_;
    }
  }
  // Of ascending keys: where those of each piece begin, and the end.
  std::vector<std::int64_t> begins(const std::vector<std::int64_t>& keys) const {
    std::vector<std::int64_t> out;
    for (std::int64_t k = 0; k < pieces_; ++k)
      out.push_back(k == 0 ? 0 : std::ranges::lower_bound(keys, k * each_) - keys.begin());
    out.push_back(std::ssize(keys));
    return out;
  }
  // The keys [begin, end) of piece k as its rows.
  Tensor rows_of(KernelContext& c, const std::vector<std::int64_t>& keys, int k, std::int64_t begin,
                 std::int64_t end) const {
    Tensor out = c.allocate(DType::i64, Shape{end - begin});
    std::transform(keys.begin() + begin, keys.begin() + end, out.mutable_data<std::int64_t>(),
                   [first = k * each_](std::int64_t key) { return key - first; });
    return out;
  }

 private:
  std::int64_t rows_, pieces_, each_ = 0;
};

Kernel distinct_rows(const KernelInit& init) {
  return [pieces = RowPieces(init.attributes)](KernelContext& c) {
    std::vector<std::int64_t> keys;
    for (int i = 0; i < c.num_inputs(); ++i) {
      const auto ids = c.input(i).values<std::int64_t>();
      keys.resize(keys.size() + ids.size());
      pieces.keys("DistinctRows", ids, keys.data() + (keys.size() - ids.size()));
    }
    const RowGroups groups = group_rows(keys);
    const std::vector<std::int64_t> begins = pieces.begins(groups.rows);
    for (int k = 0; k < pieces.count(); ++k)
      c.set_output(k, pieces.rows_of(c, groups.rows, k, begins[static_cast<std::size_t>(k)],
                                     begins[static_cast<std::size_t>(k) + 1]));
    for (std::size_t group = 0; group < groups.rows.size(); ++group)
      for (std::int64_t i = groups.begins[group]; i < groups.begins[group + 1]; ++i)
        keys[static_cast<std::size_t>(groups.order[static_cast<std::size_t>(i)])] = static_cast<std::int64_t>(group);
    const std::int64_t* place = keys.data();
    for (int i = 0; i < c.num_inputs(); ++i) {
      Tensor places = c.allocate(DType::i64, c.input(i).shape());
      std::copy_n(place, places.num_elements(), places.mutable_data<std::int64_t>());
      place += places.num_elements();
      c.set_output(pieces.count() + i, std::move(places));
    }
  };
}

// Sums the values of groups [begin, end) into `out`.
template <class T>
void sum_groups(const RowGroups& groups, std::int64_t begin, std::int64_t end, const T* values, std::int64_t width,
                T* out) {
  std::vector<Compute<T>> sum(static_cast<std::size_t>(width));
  for (std::int64_t group = begin; group < end; ++group, out += width) {
    const auto at = static_cast<std::size_t>(group);
    const std::int64_t first = groups.begins[at], last = groups.begins[at + 1];
    const auto value = [&](std::int64_t i) { return values + groups.order[static_cast<std::size_t>(i)] * width; };
    if (last - first == 1) {
      std::copy_n(value(first), width, out);
      continue;
    }
    std::transform(value(first), value(first) + width, sum.begin(), [](T x) { return static_cast<Compute<T>>(x); });
    for (std::int64_t i = first + 1; i < last; ++i) {
      const T* more = value(i);
      for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += static_cast<Compute<T>>(more[j]);
    }
    std::transform(sum.begin(), sum.end(), out, [](Compute<T> x) { return static_cast<T>(x); });
  }
}

template <class T>
Kernel sum_rows(const KernelInit& init) {
  return [pieces = RowPieces(init.attributes)](KernelContext& c) {
    const auto indices = c.input(0).values<std::int64_t>();
    const Tensor& values = c.input(1);
    Shape shape = values.shape();
    if (shape.rank() < 1 || shape.dim(0) != std::ssize(indices))
      invalid_argument("SumRows: {} indices do not fit values {}", indices.size(), shape.to_string());
    const std::int64_t width = shape.without(0).num_elements();
    std::vector<std::int64_t> keys(indices.size());
    pieces.keys("SumRows", indices, keys.data());
    const RowGroups groups = group_rows(keys);
    const std::vector<std::int64_t> begins = pieces.begins(groups.rows);
    for (int k = 0; k < pieces.count(); ++k) {
      const std::int64_t first = begins[static_cast<std::size_t>(k)], last = begins[static_cast<std::size_t>(k) + 1];
      c.set_output(k, pieces.rows_of(c, groups.rows, k, first, last));
      shape.set_dim(0, last - first);
      Tensor sums = c.allocate(values.dtype(), shape);
      T* out = sums.mutable_data<T>();
      c.parallelism().parallel_for(last - first, rows_per_part(width), [&](std::int64_t begin, std::int64_t end) {
        sum_groups<T>(groups, first + begin, first + end, values.data<T>(), width, out + begin * width);
      });
      c.set_output(pieces.count() + k, std::move(sums));
    }
  };
}

Kernel join_rows(const KernelInit& init) {
  return [rows = init.attributes.integer("rows")](KernelContext& c) {
    const std::int64_t pieces = c.num_inputs();
    Shape shape = c.input(0).shape();
    if (shape.rank() < 1) invalid_argument("JoinRows: a piece is a scalar");
    const auto bytes = shape.without(0).num_elements() * static_cast<std::int64_t>(size_of(c.input(0).dtype()));
    shape.set_dim(0, rows);
    Tensor table = c.allocate(c.input(0).dtype(), shape);
    for (std::int64_t k = 0; k < pieces; ++k) {
      const Tensor& piece = c.input(static_cast<int>(k));
      const std::int64_t own = rows / pieces + (k < rows % pieces);
      shape.set_dim(0, own);
      if (piece.shape() != shape)
        invalid_argument("JoinRows: piece {} of {} is {}, expected {}", k, pieces, piece.shape().to_string(),
                         shape.to_string());
      for (std::int64_t i = 0; i < own; ++i)
        std::memcpy(table.mutable_raw() + (i * pieces + k) * bytes, piece.raw() + i * bytes,
                    static_cast<std::size_t>(bytes));
    }
    c.set_output(0, std::move(table));
  };
}

}  // namespace

void register_row_kernels(KernelRegistry& registry) {
  add_untyped(registry, "DistinctRows", distinct_rows);
  add_factories(registry, "SumRows", FloatTypes{}, []<class T>(const KernelInit& init) { return sum_rows<T>(init); });
  add_untyped(registry, "JoinRows", join_rows);
}

}  // namespace troupe
