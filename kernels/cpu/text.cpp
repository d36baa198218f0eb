#include "troupe/kernels/cpu/text.hpp"

#include <re2/re2.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <unordered_set>

#include <troupe/graph/word_piece.hpp>
#include <troupe/graph/words.hpp>
#include <troupe/kernels/common/movement.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kStringGrain = 1024, kTextGrain = 16;

// A kernel that makes one element of each string.
template <class Out, class Fn>
Kernel each_string(Fn fn) {
  return [fn](KernelContext& c) {
    const Tensor& x = c.input(0);
    Tensor out = c.allocate(dtype_of<Out>, x.shape());
    const std::string* from = x.data<std::string>();
    Out* to = out.template mutable_data<Out>();
    c.parallelism().parallel_for(x.num_elements(), kStringGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) to[i] = fn(from[i]);
    });
    c.set_output(0, std::move(out));
  };
}

template <class Out, class Fn>
void add_each(KernelRegistry& registry, const char* op, Fn fn) {
  add_untyped(registry, op, [fn](const KernelInit&) -> Kernel { return each_string<Out>(fn); });
}

std::shared_ptr<const re2::RE2> pattern(const KernelInit& init) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  auto made = std::make_shared<const re2::RE2>(init.attributes.string("pattern"), options);
  if (!made->ok())
    invalid_argument("the pattern '{}' is not valid: {}", init.attributes.string("pattern"), made->error());
  return made;
}

void register_patterns(KernelRegistry& registry) {
  add_untyped(registry, "RegexFullMatch", [](const KernelInit& init) -> Kernel {
    return each_string<bool>([re = pattern(init)](const std::string& text) { return re2::RE2::FullMatch(text, *re); });
  });
  add_untyped(registry, "RegexReplace", [](const KernelInit& init) -> Kernel {
    auto re = pattern(init);
    const std::string rewrite = init.attributes.string("rewrite");
    std::string error;
    if (!re->CheckRewriteString(rewrite, &error)) invalid_argument("the rewrite '{}' is not valid: {}", rewrite, error);
    return each_string<std::string>([re, rewrite, global = init.attributes.boolean("global")](std::string text) {
      if (global)
        re2::RE2::GlobalReplace(&text, *re, rewrite);
      else
        re2::RE2::Replace(&text, *re, rewrite);
      return text;
    });
  });
}

// Both outputs of a ragged result.
void set_ragged(KernelContext& c, std::span<const std::string> values, std::span<const std::int64_t> splits) {
  c.set_output(0, Tensor::of<std::string>(Shape{std::ssize(values)}, values));
  Tensor rows = c.allocate(DType::i64, Shape{std::ssize(splits)});
  std::ranges::copy(splits, rows.mutable_data<std::int64_t>());
  c.set_output(1, std::move(rows));
}

void register_splits(KernelRegistry& registry) {
  add_untyped(registry, "StringSplit", [](const KernelInit& init) -> Kernel {
    return [separator = init.attributes.string("separator")](KernelContext& c) {
      if (c.input(0).shape().rank() != 1)
        invalid_argument("StringSplit: x must be a vector, not {}", c.input(0).shape().to_string());
      std::vector<std::string> values;
      std::vector<std::int64_t> splits{0};
      for (const std::string& text : c.input(0).values<std::string>()) {
        texts::split_text(text, separator, [&](std::string_view part) { values.emplace_back(part); });
        splits.push_back(std::ssize(values));
      }
      set_ragged(c, values, splits);
    };
  });
  add_untyped(registry, "StringNGrams", [](const KernelInit& init) -> Kernel {
    return [low = init.attributes.integer("min_length"), high = init.attributes.integer("max_length"),
            separator = init.attributes.string("separator")](KernelContext& c) {
      const auto strings = c.input(0).values<std::string>();
      const std::vector<std::string_view> words(strings.begin(), strings.end());
      const auto rows = checked_splits(c.input(1), c.input(0).num_elements());
      std::vector<std::string> values;
      std::vector<std::int64_t> splits{0};
      for (std::size_t r = 0; r + 1 < rows.size(); ++r) {
        const auto first = static_cast<std::size_t>(rows[r]), count = static_cast<std::size_t>(rows[r + 1]) - first;
        texts::make_ngrams(std::span(words).subspan(first, count), low, high, separator,
                           [&](std::string_view gram) { values.emplace_back(gram); });
        splits.push_back(std::ssize(values));
      }
      set_ragged(c, values, splits);
    };
  });
  add_untyped(registry, "RowIds", [](const KernelInit&) -> Kernel {
    return [](KernelContext& c) {
      if (c.input(0).shape().rank() < 1) invalid_argument("RowIds: the values are a scalar");
      const std::int64_t count = c.input(0).shape().dim(0);
      const auto splits = checked_splits(c.input(1), count);
      Tensor out = c.allocate(DType::i64, Shape{count});
      std::int64_t* to = out.mutable_data<std::int64_t>();
      for (std::size_t r = 0; r + 1 < splits.size(); ++r)
        std::fill(to + splits[r], to + splits[r + 1], static_cast<std::int64_t>(r));
      c.set_output(0, std::move(out));
    };
  });
}

void register_joins_of_strings(KernelRegistry& registry) {
  add_untyped(registry, "StringJoin", [](const KernelInit& init) -> Kernel {
    return [separator = init.attributes.string("separator")](KernelContext& c) {
      Shape shape;
      for (int i = 0; i < c.num_inputs(); ++i) shape = broadcast(shape, c.input(i).shape());
      Tensor out = c.allocate(DType::string, shape);
      std::string* to = out.mutable_data<std::string>();
      for (int i = 0; i < c.num_inputs(); ++i) {
        const Tensor part = broadcast_to(c.device(), c.input(i), shape);
        const std::string* from = part.data<std::string>();
        for (std::int64_t k = 0; k < out.num_elements(); ++k) to[k] += (i > 0 ? separator : "") + from[k];
      }
      c.set_output(0, std::move(out));
    };
  });
  add_untyped(registry, "StringReduceJoin", [](const KernelInit& init) -> Kernel {
    return [separator = init.attributes.string("separator")](KernelContext& c) {
      const Shape& x = c.input(0).shape();
      if (x.rank() < 1) invalid_argument("StringReduceJoin: x is a scalar");
      Tensor out = c.allocate(DType::string, x.sub(0, x.rank() - 1));
      const std::int64_t width = x.dim(-1);
      const std::string* from = c.input(0).data<std::string>();
      for (std::string& to : out.mutable_values<std::string>())
        for (std::int64_t k = 0; k < width; ++k) to += (k > 0 ? separator : "") + *from++;
      c.set_output(0, std::move(out));
    };
  });
}

void register_normalizer(KernelRegistry& registry) {
  add_untyped(registry, "StringNormalizer", [](const KernelInit& init) -> Kernel {
    const bool sensitive = init.attributes.boolean("is_case_sensitive");
    const auto key = [sensitive](const std::string& word) { return sensitive ? word : texts::lower(word); };
    std::unordered_set<std::string> stopwords;
    for (const std::string& word : init.attributes.get<std::vector<std::string>>("stopwords"))
      stopwords.insert(key(word));
    return [change = init.attributes.string("change_case"), key, stopwords](KernelContext& c) {
      std::vector<std::string> kept;
      for (const std::string& word : c.input(0).values<std::string>()) {
        if (!stopwords.empty() && stopwords.contains(key(word))) continue;
        kept.push_back(change == "lower" ? texts::lower(word) : change == "upper" ? texts::upper(word) : word);
      }
      if (kept.empty()) kept.emplace_back();
      Shape shape{std::ssize(kept)};
      if (c.input(0).shape().rank() == 2) shape = Shape{1, shape[0]};
      c.set_output(0, Tensor::of<std::string>(shape, kept));
    };
  });
}

// The pieces of each text, as rows of the same length.
void set_pieces(KernelContext& c, const texts::WordPieces& pieces, std::int64_t length, bool pad) {
  const Tensor& x = c.input(0);
  const std::string* from = x.data<std::string>();
  std::vector<std::vector<std::int64_t>> rows(static_cast<std::size_t>(x.num_elements()));
  c.parallelism().parallel_for(x.num_elements(), kTextGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) rows[static_cast<std::size_t>(i)] = pieces.numbers(from[i], length);
  });
  if (!pad) {
    length = 0;
    for (const auto& row : rows) length = std::max<std::int64_t>(length, std::ssize(row));
  }
  const Shape shape = x.shape().concatenated(Shape{length});
  Tensor ids = c.allocate(DType::i64, shape), mask = c.allocate(DType::boolean, shape);
  std::ranges::fill(ids.mutable_values<std::int64_t>(), pieces.padding());
  std::ranges::fill(mask.mutable_values<bool>(), false);
  std::int64_t* id = ids.mutable_data<std::int64_t>();
  bool* is_piece = mask.mutable_data<bool>();
  for (const auto& row : rows) {
    std::ranges::copy(row, id);
    std::fill_n(is_piece, row.size(), true);
    id += length;
    is_piece += length;
  }
  c.set_output(0, std::move(ids));
  c.set_output(1, std::move(mask));
}

void register_word_piece(KernelRegistry& registry) {
  add_untyped(registry, "WordPiece", [](const KernelInit& init) -> Kernel {
    const auto table = [](const Tensor& vocabulary) {
      return std::make_shared<const texts::WordPieces>(vocabulary.values<std::string>());
    };
    const Tensor* constant = init.constant(1);
    return [table, fixed = constant ? table(*constant) : nullptr, length = init.attributes.integer("length"),
            pad = init.attributes.boolean("pad")](KernelContext& c) {
      set_pieces(c, fixed ? *fixed : *table(c.input(1)), length, pad);
    };
  });
}

}  // namespace

std::int64_t hash_bucket(std::string_view text, std::uint64_t seed, std::int64_t buckets) {
  std::uint64_t h = 0xcbf29ce484222325ull ^ seed;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ull;
  h = (h ^ (h >> 27)) * 0x94d049bb133111ebull;
  h ^= h >> 31;
  return static_cast<std::int64_t>((static_cast<unsigned __int128>(h) * static_cast<std::uint64_t>(buckets)) >> 64);
}

std::span<const std::int64_t> checked_splits(const Tensor& row_splits, std::int64_t values) {
  const auto splits = row_splits.values<std::int64_t>();
  if (splits.empty() || splits.front() != 0 || splits.back() != values || !std::ranges::is_sorted(splits))
    invalid_argument("row_splits must ascend from 0 to the number of values, {}, but is {}", values,
                     row_splits.to_string());
  return splits;
}

void register_text_kernels(KernelRegistry& registry) {
  add_each<std::string>(registry, "StringLower", [](const std::string& text) { return texts::lower(text); });
  add_each<std::string>(registry, "StringUpper", [](const std::string& text) { return texts::upper(text); });
  add_each<std::string>(registry, "StringStrip",
                        [](const std::string& text) { return std::string(texts::stripped(text)); });
  add_each<std::int64_t>(registry, "StringLength", [](const std::string& text) { return std::ssize(text); });
  add_untyped(registry, "StringToHashBucket", [](const KernelInit& init) -> Kernel {
    return each_string<std::int64_t>([buckets = init.attributes.integer("buckets"),
                                      seed = static_cast<std::uint64_t>(init.attributes.integer("seed"))](
                                         const std::string& text) { return hash_bucket(text, seed, buckets); });
  });
  register_patterns(registry);
  register_splits(registry);
  register_joins_of_strings(registry);
  register_normalizer(registry);
  register_word_piece(registry);
}

}  // namespace troupe
