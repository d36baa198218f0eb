// What preprocessing layers of troupe.keras learn from data: statistics, vocabularies, boundaries.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "apps/python/keras.hpp"
#include <troupe/graph/layers/preprocessing.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

void add_words(VocabularyBuilder& builder, const Tensor& texts, bool lower, bool strip_punctuation,
               std::int64_t ngrams) {
  const texts::WordOptions options{.lower = lower, .strip_punctuation = strip_punctuation, .ngrams = ngrams};
  for (const std::string& text : texts.values<std::string>())
    texts::each_word(text, options, [&](std::string_view word) { builder.add(word); });
}

}  // namespace

void bind_keras_preprocessing(nb::module_& m) {
  nb::class_<FeatureStatistics>(m, "FeatureStatistics")
      .def(nb::init<>())
      .def("update", &FeatureStatistics::update, "batch"_a)
      .def("mean", &FeatureStatistics::mean)
      .def("variance", &FeatureStatistics::variance);
  nb::class_<VocabularyBuilder>(m, "VocabularyBuilder")
      .def(nb::init<>())
      .def("update", &VocabularyBuilder::update, "values"_a)
      .def("add_words", &add_words, "texts"_a, "lower"_a, "strip_punctuation"_a, "ngrams"_a)
      .def("strings", &VocabularyBuilder::strings, "most"_a)
      .def("integers", &VocabularyBuilder::integers, "most"_a);
  m.def("quantiles", &layers::quantiles, "values"_a, "bins"_a);
}

}  // namespace troupe::python
