// Functions of strings, tables and embeddings. The package has their public forms, with defaults and documentation.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "apps/python/arguments.hpp"
#include "apps/python/dtypes.hpp"
#include <troupe/graph/builder/math.hpp>
#include <troupe/graph/builder/ragged.hpp>
#include <troupe/graph/builder/text.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

using Text = std::string;
using Texts = std::vector<std::string>;

Outputs parts_of(const Ragged& x) { return {x.values, x.row_splits}; }

void bind_strings(nb::module_& m) {
  const auto plain = [&](const char* name, Output (*fn)(Output, Name)) {
    m.def(name, [fn](nb::handle x) { return call({x}, [fn](const Outputs& xs) { return fn(xs[0], {}); }); });
  };
  plain("string_lower", string_lower);
  plain("string_upper", string_upper);
  plain("string_length", string_length);
  plain("string_strip", string_strip);
  plain("as_string", as_string);
  m.def("string_to_number", [](nb::handle x, nb::handle dtype) {
    const DType type = dtype_from(dtype);
    return call({x}, [&](const Outputs& xs) { return string_to_number(xs[0], type); });
  });
  m.def("string_join", [](nb::handle xs, const Text& separator) {
    return call_list(xs, [&](const Outputs& all) { return string_join(all, separator); });
  });
  m.def("string_reduce_join", [](nb::handle x, const Text& separator) {
    return call({x}, [&](const Outputs& xs) { return string_reduce_join(xs[0], separator); });
  });
  m.def("string_split", [](nb::handle x, const Text& separator) {
    return call({x}, [&](const Outputs& xs) { return parts_of(string_split(xs[0], separator)); });
  });
  m.def("string_ngrams",
        [](nb::handle values, nb::handle row_splits, std::int64_t least, std::int64_t most, const Text& separator) {
          return call({values, row_splits}, [&](const Outputs& xs) {
            return parts_of(string_ngrams({xs[0], cast(xs[1], DType::i64)},
                                          {.min_length = least, .max_length = most, .separator = separator}));
          });
        });
  m.def("row_ids", [](nb::handle values, nb::handle row_splits) {
    return call({values, row_splits}, [](const Outputs& xs) { return row_ids({xs[0], cast(xs[1], DType::i64)}); });
  });
  m.def("regex_full_match", [](nb::handle x, const Text& pattern) {
    return call({x}, [&](const Outputs& xs) { return regex_full_match(xs[0], pattern); });
  });
  m.def("regex_replace", [](nb::handle x, const Text& pattern, const Text& rewrite, bool global) {
    return call({x}, [&](const Outputs& xs) { return regex_replace(xs[0], pattern, rewrite, {.global = global}); });
  });
  m.def("string_to_hash_bucket", [](nb::handle x, std::int64_t buckets, std::int64_t seed) {
    return call({x}, [&](const Outputs& xs) { return string_to_hash_bucket(xs[0], buckets, seed); });
  });
  m.def("word_piece", [](nb::handle x, nb::handle vocabulary, std::int64_t length, bool pad) {
    return call({x, vocabulary}, [&](const Outputs& xs) {
      const PiecesOfWords out = word_piece(xs[0], xs[1], {.length = length, .pad = pad});
      return Outputs{out.ids, out.mask};
    });
  });
  m.def("string_normalizer", [](nb::handle x, const Text& change_case, bool is_case_sensitive, const Texts& stopwords) {
    return call({x}, [&](const Outputs& xs) {
      StringNormalizerOptions o;
      o.change_case = change_case;
      o.is_case_sensitive = is_case_sensitive;
      o.stopwords = stopwords;
      return string_normalizer(xs[0], o);
    });
  });
}

void bind_ragged(nb::module_& m) {
  const auto of_parts = [&](const char* name, auto f) {
    m.def(name, [f](nb::handle values, nb::handle row_splits) {
      return call({values, row_splits}, [f](const Outputs& xs) { return f({xs[0], cast(xs[1], DType::i64)}); });
    });
  };
  of_parts("ragged_row_lengths", [](const Ragged& x) { return ragged_row_lengths(x); });
  of_parts("ragged_sum", [](const Ragged& x) { return ragged_sum(x); });
  of_parts("ragged_mean", [](const Ragged& x) { return ragged_mean(x); });
  of_parts("ragged_max", [](const Ragged& x) { return ragged_max(x); });
  of_parts("ragged_min", [](const Ragged& x) { return ragged_min(x); });
  m.def("ragged_from_row_lengths", [](nb::handle values, nb::handle lengths) {
    return call({values, lengths},
                [](const Outputs& xs) { return parts_of(ragged_from_row_lengths(xs[0], cast(xs[1], DType::i64))); });
  });
  m.def("ragged_from_tensor", [](nb::handle x, nb::handle lengths) {
    return call({x, lengths},
                [](const Outputs& xs) { return parts_of(ragged_from_tensor(xs[0], cast(xs[1], DType::i64))); });
  });
  m.def(
      "ragged_to_tensor",
      [](nb::handle values, nb::handle row_splits, nb::handle default_value) {
        const nb::handle all[] = {values, row_splits, default_value};
        const CallGraph of = CallGraph::of(all);
        Outputs xs = {operand(of, values), operand(of, row_splits)};
        if (!default_value.is_none()) xs.push_back(operand(of, default_value, xs[0].dtype()));
        return to_python(of, call_released(of, xs, [](const Outputs& in) {
                           return ragged_to_tensor({in[0], cast(in[1], DType::i64)},
                                                   {.default_value = in.size() > 2 ? in[2] : Output{}});
                         }));
      },
      "values"_a, "row_splits"_a, "default_value"_a.none());
}

void bind_tables(nb::module_& m) {
  m.def("table_lookup", [](nb::handle x, nb::handle keys, nb::handle values, nb::handle otherwise) {
    const nb::handle all[] = {x, keys, values, otherwise};
    const CallGraph of = CallGraph::of(all);
    Outputs xs = {operand(of, x), {}, operand(of, values)};
    xs[1] = operand(of, keys, xs[0].dtype());
    xs.push_back(operand(of, otherwise, xs[2].dtype()));
    return to_python(of,
                     call_released(of, xs, [](const Outputs& in) { return table_lookup(in[0], in[1], in[2], in[3]); }));
  });
  m.def("table_find", [](nb::handle x, nb::handle keys) {
    const nb::handle all[] = {x, keys};
    const CallGraph of = CallGraph::of(all);
    Outputs xs = {operand(of, x)};
    xs.push_back(operand(of, keys, xs[0].dtype()));
    return to_python(of, call_released(of, xs, [](const Outputs& in) { return table_find(in[0], in[1]); }));
  });
  m.def(
      "embedding_lookup_sparse",
      [](nb::handle table, nb::handle ids, nb::handle row_splits, nb::handle weights, const Text& combiner) {
        EmbeddingLookupOptions o;
        o.combiner = combiner == "sum"    ? Combiner::sum
                     : combiner == "mean" ? Combiner::mean
                     : combiner == "sqrtn"
                         ? Combiner::sqrtn
                         : throw Error(Code::invalid_argument,
                                       "embedding_lookup_sparse: the combiner is 'sum', 'mean' or 'sqrtn', not '" +
                                           combiner + "'");
        return call({table, ids, row_splits, weights}, [&](const Outputs& xs) {
          o.weights = xs[3].valid() ? cast(xs[3], xs[0].dtype()) : xs[3];
          return embedding_lookup_sparse(xs[0], {cast(xs[1], DType::i64), cast(xs[2], DType::i64)}, o);
        });
      },
      "table"_a, "ids"_a, "row_splits"_a, "weights"_a.none(), "combiner"_a);
}

}  // namespace

void bind_text_functions(nb::module_& m) {
  bind_strings(m);
  bind_ragged(m);
  bind_tables(m);
}

}  // namespace troupe::python
