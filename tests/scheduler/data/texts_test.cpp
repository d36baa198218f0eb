// Functions on texts as stages of pipelines, and vocabularies learnt of them.
#include "troupe/graph/data/texts.hpp"

#include <gtest/gtest.h>

#include "tests/error_of.hpp"
#include <troupe/scheduler/data/element_stream.hpp>
#include <troupe/scheduler/data/pipeline_source.hpp>
#include <troupe/scheduler/data/vocabulary.hpp>

namespace troupe::testing {
namespace {

using data::Pipeline;
using Words = std::vector<std::string>;

Pipeline lines(const Words& texts) {
  Tensor labels = Tensor::zeros(DType::i64, Shape{std::ssize(texts)});
  return data::tensors({{"text", Tensor::of<std::string>(Shape{std::ssize(texts)}, texts)}, {"label", labels}});
}

// Component 0 of all elements, as text.
Words shown(const Pipeline& pipeline) {
  Words out;
  const auto stream = open_stream(pipeline.stage());
  stream->start(0);
  while (const auto element = stream->next()) out.push_back((*element)[0].to_string(20));
  return out;
}

const Words kTexts = {"The cat, the DOG!", "a bird's  cat", ""};
const Words kVocabulary = {"the", "cat", "a", "dog"};

TEST(Texts, BecomeIds) {
  const Pipeline texts = lines(kTexts);
  EXPECT_EQ(shown(texts.map(texts::vectorize("text", kVocabulary))),
            (Words{"i64[4] = 2 3 2 5", "i64[3] = 4 1 3", "i64[0] ="}));
  EXPECT_EQ(shown(texts.map(texts::vectorize("text", kVocabulary, {.length = 2}))),
            (Words{"i64[2] = 2 3", "i64[2] = 4 1", "i64[2] = 0 0"}));
  EXPECT_EQ(shown(texts.map(texts::vectorize("text", {"cat", "a", "a bird's"},
                                             {.length = 5, .strip_punctuation = false, .ngrams = 2}))),
            (Words{"i64[5] = 1 1 1 1 1", "i64[5] = 3 1 2 4 1", "i64[5] = 0 0 0 0 0"}));
  EXPECT_EQ(shown(lines({"Ab a"}).map(texts::vectorize("text", {"a", "b"}, {.characters = true}))),
            (Words{"i64[4] = 2 3 1 2"}));
}

TEST(Texts, BecomeCounts) {
  const Pipeline texts = lines(kTexts);
  EXPECT_EQ(shown(texts.map(texts::vectorize("text", kVocabulary, {.output = texts::VectorOutput::count}))),
            (Words{"f32[5] = 0 2 1 0 1", "f32[5] = 1 0 1 1 0", "f32[5] = 0 0 0 0 0"}));
  EXPECT_EQ(shown(texts.map(texts::vectorize("text", kVocabulary, {.output = texts::VectorOutput::multi_hot}))),
            (Words{"f32[5] = 0 1 1 0 1", "f32[5] = 1 0 1 1 0", "f32[5] = 0 0 0 0 0"}));
}

TEST(Texts, AreStandardisedSplitAndLookedUp) {
  const Pipeline words = lines({"The Cat's"}).map(texts::standardize("text"));
  EXPECT_EQ(shown(words), (Words{"string[] = the cats"}));
  EXPECT_EQ(shown(words.map(texts::split("text"))), (Words{"string[2] = the cats"}));
  EXPECT_EQ(shown(words.map(texts::split("text")).map(texts::lookup("text", {"cats", "x"}))), (Words{"i64[2] = 0 1"}));
}

TEST(Texts, RowsOfBatchesAreTheElements) {
  const Pipeline ids = lines(kTexts).map(texts::vectorize("text", kVocabulary, {.length = 3}));
  EXPECT_EQ(to_string(ids.schema()), "text i64[3], label i64[]");
  const PipelineSource fixed(ids);
  const auto batch = fixed.open({.batch = 3})->read(0, 0, 0);
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->components[0].to_string(9), "i64[3,3] = 2 3 2 4 1 3 0 0 0");
  const PipelineSource padded(lines(kTexts).map(texts::vectorize("text", kVocabulary)).padded_batch(3));
  const auto rows = padded.open({.batch = 3})->read(0, 0, 0);
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->components[0].to_string(12), "i64[3,4] = 2 3 2 5 4 1 3 0 0 0 0 0");
}

TEST(Texts, VocabulariesAreInOrderOfFrequency) {
  const Pipeline texts = lines({"B a, c a", " c b!", "d"});
  EXPECT_EQ(texts::learn_vocabulary(texts, "text"), (Words{"c", "b", "a", "d"}));
  EXPECT_EQ(texts::learn_vocabulary(texts, "text", {.most = 2}), (Words{"c", "b"}));
  EXPECT_EQ(texts::learn_vocabulary(texts, "text", {.words = {.strip_punctuation = false}}),
            (Words{"c", "d", "b!", "b", "a,", "a"}));
  EXPECT_EQ(texts::learn_vocabulary(texts.map(texts::split("text")).filter("all", [](const auto&) { return true; }),
                                    "text", {.most = 1}),
            (Words{"c"}));
}

TEST(Texts, WhatCannotBeIsRefused) {
  const auto message = [](auto&& f) { return error_of(f).to_string(); };
  const Pipeline texts = lines(kTexts);
  EXPECT_EQ(message([&] { texts.map(texts::vectorize("label", kVocabulary)); }),
            "invalid_argument: stage 'map vectorize label': component 'label' is i64[], but must be a text, string[]");
  EXPECT_EQ(message([&] { texts.map(texts::split("text")).map(texts::split("text")); }),
            "invalid_argument: stage 'map split text': component 'text' is string[?], but must be a text, string[]");
  EXPECT_EQ(message([] { texts::vectorize("text", {}); }), "invalid_argument: vectorize: the vocabulary is empty");
  EXPECT_EQ(message([] {
              texts::lookup("text", {"a", "b", "a"});
            }),
            "invalid_argument: lookup: the vocabulary: 'a' is given twice");
  EXPECT_EQ(message([] { texts::vectorize("text", kVocabulary, {.length = -1}); }),
            "invalid_argument: vectorize: length must not be negative, but is -1");
  EXPECT_EQ(message([] { texts::vectorize("text", kVocabulary, {.output = texts::VectorOutput::count, .length = 1}); }),
            "invalid_argument: vectorize: length is of ids only");
  EXPECT_EQ(message([] { texts::vectorize("text", kVocabulary, {.ngrams = 0}); }),
            "invalid_argument: vectorize: n-grams of 0 words");
  EXPECT_EQ(message([] { texts::split("text", {.separator = ",", .characters = true}); }),
            "invalid_argument: split: characters have no separator, but it is ','");
  EXPECT_EQ(message([&] { texts::learn_vocabulary(texts, "label"); }),
            "invalid_argument: learn_vocabulary: 'label' is no component of strings: the elements are text string[], "
            "label i64[]");
}

}  // namespace
}  // namespace troupe::testing
