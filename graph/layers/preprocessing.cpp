#include "troupe/graph/layers/preprocessing.hpp"

#include <algorithm>
#include <set>

#include <troupe/graph/layers/standard_layer.hpp>

namespace troupe {
namespace {

Output apply_normalization(const LayerConfig& config, LayerContext& context, Output x) {
  const DType dtype = real_type(context, x);
  const Output mean = cast(constant(*x.graph, config.options.tensor("mean")), dtype);
  const Output variance = cast(constant(*x.graph, config.options.tensor("variance")), dtype);
  const Output centred = cast(x, dtype) - mean;
  const Output deviation = sqrt(variance);
  return centred / maximum(deviation, scalar_like(deviation, 1e-7));
}

void check_normalization(const LayerConfig& config) {
  for (const char* option : {"mean", "variance"})
    if (const Tensor& t = config.options.tensor(option); !t.valid() || !is_floating(t.dtype()))
      invalid_argument("the {} must be a floating tensor", option);
}

Output apply_discretization(const LayerConfig& config, LayerContext& context, Output x) {
  const auto& boundaries = config.options.get<std::vector<double>>("boundaries");
  const DType dtype = real_type(context, x);
  const Tensor table =
      Tensor::of<double>(Shape{static_cast<std::int64_t>(boundaries.size())}, std::span<const double>(boundaries));
  const Output sorted = cast(constant(*x.graph, table), dtype);
  return search_sorted(sorted, cast(x, dtype), {.right = true});
}

void check_discretization(const LayerConfig& config) {
  const auto& boundaries = config.options.get<std::vector<double>>("boundaries");
  for (std::size_t i = 1; i < boundaries.size(); ++i)
    if (!(boundaries[i - 1] < boundaries[i]))
      invalid_argument("boundaries must ascend, but {} follows {}", boundaries[i], boundaries[i - 1]);
}

Output apply_category_encoding(const LayerConfig& config, LayerContext& context, Output x) {
  if (!is_integer(x.dtype())) invalid_argument("the input is {}, but categories are integers", name(x.dtype()));
  const std::string& encoding = config.options.string("encoding");
  if (encoding != "one_hot") require_rank(x, 1, kMaxRank, "[..., k]");
  if (x.dtype() != DType::i32 && x.dtype() != DType::i64) x = cast(x, DType::i64);
  const Output each = one_hot(x, {config.options.integer("categories")}, {.dtype = real_type(context, x)});
  if (encoding == "one_hot") return each;
  return encoding == "count" ? sum(each, {-2}) : max(each, {-2});
}

void check_category_encoding(const LayerConfig& config) {
  require_positive(config, "categories");
  require_one_of(config, "encoding", {"one_hot", "multi_hot", "count"});
}

Output apply_hashing(const LayerConfig& config, LayerContext&, Output x) {
  if (x.dtype() != DType::string) x = as_string(x);
  return string_to_hash_bucket(x, config.options.integer("buckets"), config.options.integer("seed"));
}

template <class Values>
void check_vocabulary(const LayerConfig& config) {
  const Values& values = config.options.get<Values>("vocabulary");
  const std::set<typename Values::value_type> distinct(values.begin(), values.end());
  if (values.empty()) invalid_argument("the vocabulary is empty");
  if (distinct.size() != values.size())
    invalid_argument("the vocabulary has {} words, but only {} distinct ones", values.size(), distinct.size());
  if (const std::int64_t oov = config.options.integer("out_of_vocabulary"); oov < 0)
    invalid_argument("out_of_vocabulary must not be negative, but is {}", oov);
}

template <class T>
Output vector_constant(Graph& graph, const std::vector<T>& values) {
  Tensor tensor(dtype_of<T>, Shape{static_cast<std::int64_t>(values.size())});
  std::ranges::copy(values, tensor.mutable_data<T>());
  return constant(graph, tensor);
}

using Strings = std::vector<std::string>;

struct Lookup {
  std::int64_t out_of_vocabulary = 1;
  bool masks = false;

  std::int64_t first() const { return out_of_vocabulary + (masks ? 1 : 0); }  // number of the first word
};

Lookup lookup_options(const LayerConfig& config) {
  return {config.options.integer("out_of_vocabulary"), config.options.boolean("masks")};
}

Output hashed(Output x, std::int64_t buckets) {
  if (x.dtype() == DType::string) return string_to_hash_bucket(x, buckets);
  return floor_mod(x, scalar_like(x, static_cast<double>(buckets)));
}

// `keys`: of x's dtype; `masked`: its value that means nothing.
Output looked_up(Output x, Output keys, Output masked, const Lookup& options) {
  const Output place = table_find(x, keys);
  Output otherwise = scalar_like(place, options.out_of_vocabulary == 0 ? -1 : options.masks ? 1 : 0);
  if (options.out_of_vocabulary > 1) otherwise = otherwise + hashed(x, options.out_of_vocabulary);
  const Output known = greater_equal(place, scalar_like(place, 0));
  const Output number = place + static_cast<double>(options.first());
  const Output ids = select(known, number, otherwise);
  if (!options.masks) return ids;
  const Output nothing = equal(x, masked);
  return select(nothing, scalar_like(ids, 0), ids);
}

Output apply_string_lookup(const LayerConfig& config, LayerContext&, Output x) {
  if (x.dtype() != DType::string) invalid_argument("the input is {}, but must be string", name(x.dtype()));
  const Output keys = vector_constant(*x.graph, config.options.get<Strings>("vocabulary"));
  const Output masked = constant(*x.graph, std::string());
  return looked_up(x, keys, masked, lookup_options(config));
}

Output apply_integer_lookup(const LayerConfig& config, LayerContext&, Output x) {
  if (!is_integer(x.dtype())) invalid_argument("the input is {}, but must be integers", name(x.dtype()));
  x = cast(x, DType::i64);
  const Output keys = vector_constant(*x.graph, config.options.integers("vocabulary"));
  const Output masked = constant(*x.graph, std::int64_t{0});
  return looked_up(x, keys, masked, lookup_options(config));
}

Output apply_string_of_lookup(const LayerConfig& config, LayerContext&, Output x) {
  if (!is_integer(x.dtype())) invalid_argument("the input is {}, but must be integers", name(x.dtype()));
  const Lookup options = lookup_options(config);
  Strings words;
  if (options.masks) words.emplace_back();
  words.insert(words.end(), static_cast<std::size_t>(options.out_of_vocabulary), "[UNK]");
  const Strings& vocabulary = config.options.get<Strings>("vocabulary");
  words.insert(words.end(), vocabulary.begin(), vocabulary.end());
  const Output table = vector_constant(*x.graph, words);
  return gather(table, cast(x, DType::i64));
}

LayerPtr lookup_of(const char* kind, AttrValue vocabulary, const layers::LookupOptions& options) {
  return standard_layer({.kind = kind,
                         .options = {{"vocabulary", std::move(vocabulary)},
                                     {"out_of_vocabulary", options.out_of_vocabulary},
                                     {"masks", options.masks}}});
}

void check_string_of_lookup(const LayerConfig& config) {
  check_vocabulary<Strings>(config);
  if (config.options.integer("out_of_vocabulary") > (1 << 20))
    invalid_argument("out_of_vocabulary must be at most {}", 1 << 20);
}

}  // namespace

std::span<const LayerKind> preprocessing_kinds() {
  static const std::vector<LayerKind> kinds = [] {
    const auto lookup = [](AttrValue vocabulary) {
      return Attributes{
          {"vocabulary", std::move(vocabulary)}, {"out_of_vocabulary", std::int64_t{1}}, {"masks", false}};
    };
    const Tensor one = Tensor::zeros(DType::f32, Shape{1});
    return std::vector<LayerKind>{
        {.name = "normalization",
         .options = {{"mean", one}, {"variance", one}},
         .apply = of_one<apply_normalization>,
         .check = check_normalization},
        {.name = "discretization",
         .options = {{"boundaries", std::vector<double>{}}},
         .apply = of_one<apply_discretization>,
         .check = check_discretization},
        {.name = "category_encoding",
         .options = {{"categories", std::int64_t{1}}, {"encoding", "multi_hot"}},
         .apply = of_one<apply_category_encoding>,
         .check = check_category_encoding},
        {.name = "hashing",
         .options = {{"buckets", std::int64_t{1}}, {"seed", std::int64_t{0}}},
         .apply = of_one<apply_hashing>,
         .check = [](const LayerConfig& c) { require_positive(c, "buckets"); }},
        {.name = "string_lookup",
         .options = lookup(Strings{}),
         .apply = of_one<apply_string_lookup>,
         .check = check_vocabulary<Strings>},
        {.name = "integer_lookup",
         .options = lookup(Integers{}),
         .apply = of_one<apply_integer_lookup>,
         .check = check_vocabulary<Integers>},
        {.name = "string_of_lookup",
         .options = lookup(Strings{}),
         .apply = of_one<apply_string_of_lookup>,
         .check = check_string_of_lookup},
    };
  }();
  return kinds;
}

namespace layers {

LayerPtr normalization(Tensor mean, Tensor variance) {
  return standard_layer(
      {.kind = "normalization", .options = {{"mean", std::move(mean)}, {"variance", std::move(variance)}}});
}
LayerPtr discretization(std::vector<double> boundaries) {
  return standard_layer({.kind = "discretization", .options = {{"boundaries", std::move(boundaries)}}});
}
LayerPtr category_encoding(std::int64_t categories, Encoding encoding) {
  constexpr const char* kNames[] = {"one_hot", "multi_hot", "count"};
  return standard_layer(
      {.kind = "category_encoding",
       .options = {{"categories", categories}, {"encoding", kNames[static_cast<std::size_t>(encoding)]}}});
}
LayerPtr hashing(std::int64_t buckets, std::int64_t seed) {
  return standard_layer({.kind = "hashing", .options = {{"buckets", buckets}, {"seed", seed}}});
}
LayerPtr string_lookup(std::vector<std::string> vocabulary, LookupOptions options) {
  return lookup_of("string_lookup", std::move(vocabulary), options);
}
LayerPtr integer_lookup(std::vector<std::int64_t> vocabulary, LookupOptions options) {
  return lookup_of("integer_lookup", std::move(vocabulary), options);
}
LayerPtr string_of_lookup(std::vector<std::string> vocabulary, LookupOptions options) {
  return lookup_of("string_of_lookup", std::move(vocabulary), options);
}

}  // namespace layers
}  // namespace troupe
