// Lookup tables, n-gram counts, and embeddings by ragged ids.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <unordered_map>

#include <troupe/graph/words.hpp>
#include <troupe/kernels/common/array.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/gather.hpp>
#include <troupe/kernels/cpu/low_precision.hpp>
#include <troupe/kernels/cpu/text.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

using GramKeys = Types<std::string, std::int32_t, std::int64_t>;
using TableKeys = Types<std::string, std::int32_t, std::int64_t, float, double>;
constexpr std::int64_t kLookupGrain = 4096;

// NaN is a key like others; 0 and -0 are the same.
template <class K>
struct NumberHash {
  std::size_t operator()(K key) const { return key != key ? ~std::size_t{0} : std::hash<K>{}(key); }
};
template <class K>
struct SameNumber {
  bool operator()(K a, K b) const { return a == b || (a != a && b != b); }
};
template <class K>
using NumberTable = std::unordered_map<K, std::int64_t, NumberHash<K>, SameNumber<K>>;

template <class K>
using KeyTable = std::conditional_t<std::is_same_v<K, std::string>, texts::WordTable, NumberTable<K>>;

template <class K>
std::shared_ptr<const KeyTable<K>> table_of(const Tensor& keys) {
  if constexpr (std::is_same_v<K, std::string>) {
    return std::make_shared<const KeyTable<K>>(keys.values<K>());
  } else {
    auto table = std::make_shared<KeyTable<K>>();
    table->reserve(static_cast<std::size_t>(keys.num_elements()));
    std::int64_t index = 0;
    for (const K& key : keys.values<K>())
      if (!table->emplace(key, index++).second) invalid_argument("key {} is given twice", key);
    return table;
  }
}

std::int64_t place_of(const texts::WordTable& table, const std::string& key) { return table.find(key); }
template <class K>
std::int64_t place_of(const NumberTable<K>& table, K key) {
  const auto found = table.find(key);
  return found == table.end() ? -1 : found->second;
}

// The table of input 1: made once if that is constant.
template <class K>
auto keys_of(const KernelInit& init) {
  const Tensor* constant = init.constant(1);
  return [fixed = constant ? table_of<K>(*constant) : nullptr](const KernelContext& c) {
    return fixed ? fixed : table_of<K>(c.input(1));
  };
}

// The position of each element of x, or -1.
template <class K>
void find_all(Parallelism& parallelism, const KeyTable<K>& table, const Tensor& x, std::int64_t* to) {
  const K* from = x.data<K>();
  parallelism.parallel_for(x.num_elements(), kLookupGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = place_of(table, from[i]);
  });
}

void register_tables(KernelRegistry& registry) {
  add_factories(registry, "TableFind", TableKeys{}, []<class K>(const KernelInit& init) -> Kernel {
    return [keys = keys_of<K>(init)](KernelContext& c) {
      Tensor out = c.allocate(DType::i64, c.input(0).shape());
      find_all<K>(c.parallelism(), *keys(c), c.input(0), out.mutable_data<std::int64_t>());
      c.set_output(0, std::move(out));
    };
  });
  // The values with `otherwise` behind them, by position.
  add_factories(registry, "TableLookup", TableKeys{}, []<class K>(const KernelInit& init) -> Kernel {
    return [keys = keys_of<K>(init)](KernelContext& c) {
      const auto table = keys(c);
      if (c.input(2).shape() != c.input(1).shape())
        invalid_argument("TableLookup: keys are {}, values {}", c.input(1).shape().to_string(),
                         c.input(2).shape().to_string());
      Tensor at(DType::i64, c.input(0).shape());
      find_all<K>(c.parallelism(), *table, c.input(0), at.mutable_data<std::int64_t>());
      const std::int64_t missing = c.input(2).num_elements();
      for (std::int64_t& i : at.mutable_values<std::int64_t>()) i = i < 0 ? missing : i;
      const Tensor rows[] = {c.input(2), c.input(3).reshaped(Shape{1})};
      c.set_output(0, gather(c.device(), concat(c.device(), rows, 0), at, {}));
    };
  });
}

// ---- n-grams of a pool

// Counts n-grams that are in a pool: a tree of words, whose nodes hold the column of the n-gram that ends there.
template <class K>
class GramCounter {
 public:
  GramCounter(const KernelInit& init, std::span<const K> pool)
      : low_(init.attributes.integer("min_gram_length")),
        high_(init.attributes.integer("max_gram_length")),
        skips_(init.attributes.integer("max_skip_count")),
        nodes_(1) {
    const auto& counts = init.attributes.integers("ngram_counts");
    const auto& columns = init.attributes.integers("ngram_indexes");
    const auto& weights = init.attributes.get<std::vector<double>>("weights");
    const std::string& mode = init.attributes.string("mode");
    width_ = std::ranges::max(columns) + 1;
    std::size_t gram = 0;
    for (std::size_t n = 0; n < counts.size(); ++n) {
      const std::int64_t end = n + 1 < counts.size() ? counts[n + 1] : std::ssize(pool);
      const auto length = static_cast<std::int64_t>(n) + 1;
      if (counts[n] < 0 || end < counts[n] || end > std::ssize(pool) || (end - counts[n]) % length != 0)
        invalid_argument("attribute 'ngram_counts' does not fit a pool of {}", pool.size());
      for (std::int64_t at = counts[n]; at < end; at += length, ++gram) {
        if (gram >= columns.size()) invalid_argument("attribute 'ngram_indexes' has only {} entries", columns.size());
        add(pool.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(length)), columns[gram]);
      }
    }
    weights_.assign(static_cast<std::size_t>(width_), 1.0f);
    if (!weights.empty() && mode != "TF") {
      if (weights.size() < columns.size())
        invalid_argument("attribute 'weights' has {} entries for {} n-grams", weights.size(), columns.size());
      for (std::size_t i = 0; i < columns.size(); ++i)
        weights_[static_cast<std::size_t>(columns[i])] = static_cast<float>(weights[i]);
    }
    counts_only_presence_ = mode == "IDF";
  }

  std::int64_t width() const { return width_; }

  void count(std::span<const K> words, float* to) const {
    std::fill_n(to, width_, 0.0f);
    for (std::int64_t gap = 1; gap <= skips_ + 1; ++gap) {
      for (std::int64_t start = 0; start < std::ssize(words); ++start) walk(words, start, gap, to);
      if (high_ == 1) break;  // gaps do not matter
    }
    for (std::int64_t i = 0; i < width_; ++i) {
      if (counts_only_presence_) to[i] = to[i] > 0 ? 1.0f : 0.0f;
      to[i] *= weights_[static_cast<std::size_t>(i)];
    }
  }

 private:
  struct Node {
    std::map<K, std::size_t> next;
    std::vector<std::int64_t> columns;
  };

  void add(std::span<const K> gram, std::int64_t column) {
    std::size_t at = 0;
    for (const K& word : gram) {
      const auto [next, fresh] = nodes_[at].next.try_emplace(word, nodes_.size());
      const std::size_t to = next->second;
      if (fresh) nodes_.emplace_back();
      at = to;
    }
    nodes_[at].columns.push_back(column);
  }

  // N-grams from `start` whose words are `gap` apart. Those of one word are counted for a gap of 1 only.
  void walk(std::span<const K> words, std::int64_t start, std::int64_t gap, float* to) const {
    std::size_t at = 0;
    for (std::int64_t n = 1, i = start; n <= high_ && i < std::ssize(words); ++n, i += gap) {
      const auto next = nodes_[at].next.find(words[static_cast<std::size_t>(i)]);
      if (next == nodes_[at].next.end()) return;
      at = next->second;
      if (n >= low_ && (n > 1 || gap == 1))
        for (const std::int64_t column : nodes_[at].columns) to[column] += 1;
    }
  }

  std::int64_t low_, high_, skips_, width_ = 0;
  bool counts_only_presence_ = false;
  std::vector<Node> nodes_;
  std::vector<float> weights_;
};

template <class K>
std::vector<K> pool_of(const KernelInit& init) {
  if constexpr (std::is_same_v<K, std::string>) {
    return init.attributes.get<std::vector<std::string>>("pool_strings");
  } else {
    const auto& pool = init.attributes.integers("pool_integers");
    return std::vector<K>(pool.begin(), pool.end());
  }
}

void register_grams(KernelRegistry& registry) {
  add_factories(registry, "TfIdfVectorizer", GramKeys{}, []<class K>(const KernelInit& init) -> Kernel {
    return [counter = std::make_shared<const GramCounter<K>>(init, pool_of<K>(init))](KernelContext& c) {
      const Tensor& x = c.input(0);
      if (x.shape().rank() < 1 || x.shape().rank() > 2)
        invalid_argument("TfIdfVectorizer: x must be [c] or [n,c], not {}", x.shape().to_string());
      Shape shape = x.shape();
      const std::int64_t words = shape[-1], rows = shape.rank() == 1 ? 1 : shape[0];
      shape.set_dim(-1, counter->width());
      Tensor out = c.allocate(DType::f32, shape);
      const auto all = x.values<K>();
      float* to = out.mutable_data<float>();
      c.parallelism().parallel_for(rows, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r)
          counter->count(all.subspan(static_cast<std::size_t>(r * words), static_cast<std::size_t>(words)),
                         to + r * counter->width());
      });
      c.set_output(0, std::move(out));
    };
  });
}

// ---- embeddings

struct EmbeddingRows {
  std::span<const std::int64_t> splits;
  std::int64_t width = 0;
  bool mean = false, sqrtn = false;
};

// Sums the table's rows of rows [begin, end), in the order of their ids.
template <class T, class I>
void combine_rows(const EmbeddingRows& e, const T* table, const I* ids, const T* weights, std::int64_t begin,
                  std::int64_t end, T* y, T* scales) {
  using C = Compute<T>;
  std::vector<C> sum(static_cast<std::size_t>(e.width)), row;
  if constexpr (!std::is_same_v<C, T>) row.resize(sum.size());
  for (std::int64_t r = begin; r < end; ++r) {
    const std::int64_t first = e.splits[static_cast<std::size_t>(r)], last = e.splits[static_cast<std::size_t>(r) + 1];
    std::fill(sum.begin(), sum.end(), C{0});
    C total{0};
    for (std::int64_t i = first; i < last; ++i) {
      const T* from = table + static_cast<std::int64_t>(ids[i]) * e.width;
      const C* values;
      if constexpr (std::is_same_v<C, T>) {
        values = from;
      } else {
        widen(from, row.data(), e.width);
        values = row.data();
      }
      const C w = weights ? static_cast<C>(weights[i]) : C{1};
      total += e.sqrtn ? w * w : w;
      for (std::int64_t k = 0; k < e.width; ++k) sum[static_cast<std::size_t>(k)] += w * values[k];
    }
    C scale = C{1};
    if (e.mean) scale = C{1} / total;
    if (e.sqrtn) scale = C{1} / std::sqrt(total);
    if (first == last) scale = C{0};
    for (std::int64_t k = 0; k < e.width; ++k)
      y[r * e.width + k] = static_cast<T>(sum[static_cast<std::size_t>(k)] * scale);
    scales[r] = static_cast<T>(scale);
  }
}

template <class T, class I>
void embedding_lookup(KernelContext& c, EmbeddingRows e) {
  const Tensor &table = c.input(0), &ids = c.input(1);
  const T* weights = nullptr;
  if (c.num_inputs() > 3) {
    if (c.input(3).shape() != ids.shape())
      invalid_argument("EmbeddingLookupSparse: weights are {}, ids {}", c.input(3).shape().to_string(),
                       ids.shape().to_string());
    weights = c.input(3).data<T>();
  }
  const std::int64_t rows = std::ssize(e.splits) - 1, known = table.shape()[0];
  const I* id = ids.data<I>();
  for (std::int64_t i = 0; i < ids.num_elements(); ++i)
    if (id[i] < 0 || static_cast<std::int64_t>(id[i]) >= known)
      invalid_argument("EmbeddingLookupSparse: id {} (element {}) is not in [0, {})", id[i], i, known);
  Tensor y = c.allocate(table.dtype(), Shape{rows, e.width}), scales = c.allocate(table.dtype(), Shape{rows});
  const std::int64_t work =
      std::max<std::int64_t>(1, (ids.num_elements() + rows) * e.width / std::max<std::int64_t>(rows, 1));
  const T* from = table.data<T>();
  T *to = y.mutable_data<T>(), *scale = scales.mutable_data<T>();
  c.parallelism().parallel_for(
      rows, std::max<std::int64_t>(1, 16384 / work),
      [&](std::int64_t begin, std::int64_t end) { combine_rows(e, from, id, weights, begin, end, to, scale); });
  c.set_output(0, std::move(y));
  c.set_output(1, std::move(scales));
}

void register_embeddings(KernelRegistry& registry) {
  add_factories(registry, "EmbeddingLookupSparse", FloatTypes{}, []<class T>(const KernelInit& init) -> Kernel {
    const std::string& combiner = init.attributes.string("combiner");
    return [mean = combiner == "mean", sqrtn = combiner == "sqrtn"](KernelContext& c) {
      if (c.input(0).shape().rank() != 2 || c.input(1).shape().rank() != 1)
        invalid_argument("EmbeddingLookupSparse: the table is {} and ids {}, not a matrix and a vector",
                         c.input(0).shape().to_string(), c.input(1).shape().to_string());
      const EmbeddingRows rows{checked_splits(c.input(2), c.input(1).num_elements()), c.input(0).shape()[1], mean,
                               sqrtn};
      dispatch(Types<std::int32_t, std::int64_t>{}, c.input(1).dtype(),
               [&]<class I>() { embedding_lookup<T, I>(c, rows); });
    };
  });
}

}  // namespace

void register_table_kernels(KernelRegistry& registry) {
  register_tables(registry);
  register_grams(registry);
  register_embeddings(registry);
}

}  // namespace troupe
