#include "troupe/graph/data/texts.hpp"

#include <algorithm>
#include <memory>

#include <troupe/graph/data/component_function.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::texts {
namespace {

using data::ComponentFunction;
using data::ElementContext;

using Table = std::shared_ptr<const WordTable>;

Table table_of(const Vocabulary& vocabulary, std::string_view function) {
  if (vocabulary.empty()) invalid_argument("{}: the vocabulary is empty", function);
  try {
    return std::make_shared<const WordTable>(vocabulary);
  } catch (const Error& error) {
    throw error.within(fmt::format("{}: the vocabulary", function));
  }
}

void check_strings(const BatchComponent& component, bool one) {
  if (component.dtype != DType::string || (one && component.shape.rank() != 0))
    invalid_argument("component '{}' is {}{}, but must be {}", component.name, name(component.dtype),
                     component.shape.to_string(), one ? "a text, string[]" : "strings");
}

// Writes ids, or counts, of a text.
class Vectorizer {
 public:
  Vectorizer(const Vocabulary& vocabulary, const VectorizeOptions& o)
      : table_(table_of(vocabulary, "vectorize")),
        words_{.lower = o.lower,
               .strip_punctuation = o.strip_punctuation,
               .separator = o.separator,
               .characters = o.characters,
               .ngrams = o.ngrams},
        output_(o.output) {}

  void write_ids(std::string_view text, std::int64_t* to, std::int64_t length) const {
    std::int64_t at = 0;
    each_word(text, words_, [&](std::string_view word) {
      if (at < length) to[at++] = table_->find(word) + 2;
    });
    std::fill(to + at, to + length, 0);
  }
  Tensor ids(std::string_view text) const {
    std::vector<std::int64_t> out;
    each_word(text, words_, [&](std::string_view word) { out.push_back(table_->find(word) + 2); });
    return Tensor::of<std::int64_t>(Shape{std::ssize(out)}, out);
  }
  std::int64_t numbers() const { return table_->size() + 1; }
  void write_counts(std::string_view text, float* to) const {
    std::fill_n(to, numbers(), 0.0f);
    each_word(text, words_, [&](std::string_view word) {
      float& number = to[table_->find(word) + 1];
      number = output_ == VectorOutput::count ? number + 1 : 1;
    });
  }

 private:
  Table table_;
  WordOptions words_;
  VectorOutput output_;
};

// A component of one shape, that `write` writes.
template <class T, class F>
ComponentFunction fixed_size(const std::string& component, std::int64_t size, F write) {
  return {.result = {component, dtype_of<T>, Shape{size}},
          .function =
              [=](const Tensor& text, const ElementContext&) {
                Tensor out(dtype_of<T>, Shape{size});
                write(text.item<std::string>(), out.template mutable_data<T>());
                return out;
              },
          .to_row = [=](const Tensor& text, const ElementContext&, std::int64_t row,
                        Tensor& out) { write(text.item<std::string>(), out.template mutable_data<T>() + row * size); }};
}

void check_words(const WordOptions& options, std::string_view function) {
  if (options.ngrams < 1) invalid_argument("{}: n-grams of {} words", function, options.ngrams);
  if (options.characters && !options.separator.empty())
    invalid_argument("{}: characters have no separator, but it is '{}'", function, options.separator);
}

}  // namespace

Transformation standardize(const std::string& component, const WordOptions& options) {
  return data::on_component("standardize", component, [options](const BatchComponent& given) -> ComponentFunction {
    check_strings(given, false);
    return {.result = given, .function = [options](const Tensor& texts, const ElementContext&) {
              Tensor out(DType::string, texts.shape());
              std::ranges::transform(texts.values<std::string>(), out.mutable_data<std::string>(),
                                     [&](const std::string& text) { return standardized(text, options); });
              return out;
            }};
  });
}

Transformation split(const std::string& component, const WordOptions& options) {
  check_words(options, "split");
  return data::on_component("split", component, [options](const BatchComponent& given) -> ComponentFunction {
    check_strings(given, true);
    return {.result = {given.name, DType::string, Shape{kUnknown}},
            .function = [options](const Tensor& text, const ElementContext&) {
              std::vector<std::string> words;
              each_word(text.item<std::string>(), options, [&](std::string_view word) { words.emplace_back(word); });
              return Tensor::of<std::string>(Shape{std::ssize(words)}, words);
            }};
  });
}

Transformation lookup(const std::string& component, const Vocabulary& vocabulary) {
  const Table table = table_of(vocabulary, "lookup");
  return data::on_component("lookup", component, [table](const BatchComponent& given) -> ComponentFunction {
    check_strings(given, false);
    return {.result = {given.name, DType::i64, given.shape},
            .function = [table](const Tensor& words, const ElementContext&) {
              Tensor out(DType::i64, words.shape());
              std::ranges::transform(words.values<std::string>(), out.mutable_data<std::int64_t>(),
                                     [&](const std::string& word) { return table->find(word) + 1; });
              return out;
            }};
  });
}

Transformation vectorize(const std::string& component, const Vocabulary& vocabulary, const VectorizeOptions& options) {
  check_words({.separator = options.separator, .characters = options.characters, .ngrams = options.ngrams},
              "vectorize");
  if (options.length < 0) invalid_argument("vectorize: length must not be negative, but is {}", options.length);
  if (options.length > 0 && options.output != VectorOutput::ids) invalid_argument("vectorize: length is of ids only");
  const Vectorizer vectorizer(vocabulary, options);
  return data::on_component("vectorize", component, [=](const BatchComponent& given) -> ComponentFunction {
    check_strings(given, true);
    if (options.output != VectorOutput::ids)
      return fixed_size<float>(given.name, vectorizer.numbers(),
                               [=](std::string_view text, float* to) { vectorizer.write_counts(text, to); });
    if (options.length > 0)
      return fixed_size<std::int64_t>(given.name, options.length, [=](std::string_view text, std::int64_t* to) {
        vectorizer.write_ids(text, to, options.length);
      });
    return {.result = {given.name, DType::i64, Shape{kUnknown}},
            .function = [=](const Tensor& text, const ElementContext&) {
              return vectorizer.ids(text.item<std::string>());
            }};
  });
}

}  // namespace troupe::texts
