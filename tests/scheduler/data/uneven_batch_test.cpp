// Sparse and ragged batches: of tables and streams, compared with lists; and what becomes of them in training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/error_of.hpp"
#include <troupe/scheduler/data/element_stream.hpp>
#include <troupe/scheduler/data/pipeline_source.hpp>

namespace troupe::testing {
namespace {

using data::Element;
using data::ElementContext;
using data::Pipeline;
using ::testing::HasSubstr;

std::int64_t number_of(const Element& element) { return element.at(0).item<std::int64_t>(); }

// Element n: its number, n % 4 words "n.0", "n.1", ..., and as many pairs.
Pipeline words(std::int64_t count) {
  return data::range(0, count).map("words",
                                   {{"number", DType::i64, Shape{}},
                                    {"words", DType::string, Shape{kUnknown}},
                                    {"pairs", DType::f32, Shape{kUnknown, 2}}},
                                   [](const Element& e, const ElementContext&) -> Element {
                                     const std::int64_t n = number_of(e), length = n % 4;
                                     Tensor texts(DType::string, Shape{length}), pairs(DType::f32, Shape{length, 2});
                                     for (std::int64_t i = 0; i < length; ++i) {
                                       texts.mutable_data<std::string>()[i] = fmt::format("{}.{}", n, i);
                                       pairs.mutable_data<float>()[2 * i] = static_cast<float>(n);
                                       pairs.mutable_data<float>()[2 * i + 1] = static_cast<float>(i);
                                     }
                                     return {e[0], texts, pairs};
                                   });
}

Pipeline only(const Pipeline& pipeline, std::size_t component) {
  return pipeline.map("only", {pipeline.schema()[component]},
                      [component](const Element& e, const ElementContext&) -> Element { return {e[component]}; });
}

// Element n: a sparse matrix of 3 rows and n + 1 columns with n values, n at [i % 3, i].
Pipeline matrices(std::int64_t count) {
  return data::range(0, count).map("matrix",
                                   {{"m.indices", DType::i64, Shape{kUnknown, 2}},
                                    {"m.values", DType::i64, Shape{kUnknown}},
                                    {"m.dense_shape", DType::i64, Shape{2}}},
                                   [](const Element& e, const ElementContext&) -> Element {
                                     const std::int64_t n = number_of(e);
                                     Tensor indices(DType::i64, Shape{n, 2}), values(DType::i64, Shape{n});
                                     for (std::int64_t i = 0; i < n; ++i) {
                                       indices.mutable_data<std::int64_t>()[2 * i] = i % 3;
                                       indices.mutable_data<std::int64_t>()[2 * i + 1] = i;
                                       values.mutable_data<std::int64_t>()[i] = n;
                                     }
                                     return {indices, values, Tensor::vector<std::int64_t>({3, n + 1})};
                                   });
}

Pipeline forward(const Pipeline& pipeline) {
  return pipeline.filter("all", [](const Element&) { return true; });
}

std::vector<std::string> texts_of(const Pipeline& pipeline) {
  std::vector<std::string> out;
  const auto stream = open_stream(pipeline.stage());
  stream->start(0);
  while (const auto element = stream->next()) {
    std::string text;
    for (const Tensor& tensor : *element) text += (text.empty() ? "" : "; ") + tensor.to_string(100);
    out.push_back(text);
  }
  return out;
}

TEST(UnevenBatch, VectorsBecomeRowsOfASparseMatrix) {
  const std::vector<std::string> expected = {"i64[3,2] = 1 0 2 0 2 1; string[3] = 1.0 2.0 2.1; i64[2] = 3 2",
                                             "i64[4,2] = 0 0 0 1 0 2 2 0; string[4] = 3.0 3.1 3.2 5.0; i64[2] = 3 3",
                                             "i64[2,2] = 0 0 0 1; string[2] = 6.0 6.1; i64[2] = 1 2"};
  for (const Pipeline& from : {only(words(7), 1), forward(only(words(7), 1))}) {
    const Pipeline batches = from.sparse_batch(3);
    EXPECT_EQ(to_string(batches.schema()), "words.indices i64[?,2], words.values string[?], words.dense_shape i64[2]");
    EXPECT_EQ(texts_of(batches), expected);
    EXPECT_EQ(texts_of(from.sparse_batch(3, {.drop_rest = true})), std::vector(expected.begin(), expected.begin() + 2));
  }
}

TEST(UnevenBatch, SparseElementsGetADimensionInFront) {
  for (const Pipeline& from : {matrices(4), forward(matrices(4))})
    EXPECT_EQ(texts_of(from.sparse_batch(3)),
              (std::vector<std::string>{"i64[3,3] = 1 0 0 2 0 0 2 1 1; i64[3] = 1 2 2; i64[3] = 3 3 3",
                                        "i64[3,3] = 0 0 0 0 1 1 0 2 2; i64[3] = 3 3 3; i64[3] = 1 3 4"}));
  // Batches of batches, too.
  EXPECT_EQ(texts_of(only(words(3), 1).sparse_batch(1).sparse_batch(3)),
            (std::vector<std::string>{"i64[3,3] = 1 0 0 2 0 0 2 0 1; string[3] = 1.0 2.0 2.1; i64[3] = 3 1 2"}));
}

TEST(UnevenBatch, LeadingDimensionsBecomeRowSplits) {
  const std::vector<std::string> expected = {
      "i64[3] = 0 1 2; string[3] = 1.0 2.0 2.1; i64[4] = 0 0 1 3; f32[3,2] = 1 0 2 0 2 1; i64[4] = 0 0 1 3",
      "i64[2] = 3 4; string[3] = 3.0 3.1 3.2; i64[3] = 0 3 3; f32[3,2] = 3 0 3 1 3 2; i64[3] = 0 3 3"};
  for (const Pipeline& from : {words(5), forward(words(5))}) {
    const Pipeline batches = from.ragged_batch(3);
    EXPECT_EQ(to_string(batches.schema()),
              "number i64[?], words.values string[?], words.row_splits i64[?], pairs.values f32[?,2], "
              "pairs.row_splits i64[?]");
    EXPECT_EQ(texts_of(batches), expected);
  }
}

// As many bytes as there are values, however long the longest vector is.
TEST(UnevenBatch, MemoryFollowsTheValues) {
  const Pipeline lengths = data::range(0, 64).map(
      "length", {{"x", DType::f32, Shape{kUnknown}}}, [](const Element& e, const ElementContext&) -> Element {
        return {Tensor::zeros(DType::f32, Shape{number_of(e) == 7 ? 10'000 : 1})};
      });
  const auto bytes = [](const Pipeline& pipeline) {
    const auto stream = open_stream(pipeline.stage());
    stream->start(0);
    return data::num_bytes(*stream->next());
  };
  constexpr std::size_t kValues = 10'063;
  EXPECT_EQ(bytes(lengths.sparse_batch(64)), kValues * (16 + 4) + 16);
  EXPECT_EQ(bytes(lengths.ragged_batch(64)), kValues * 4 + 65 * 8);
  EXPECT_EQ(bytes(lengths.padded_batch(64)), 640'000u * 4);
}

TEST(UnevenBatch, OfASourceIsOfTheBatchAsAWhole) {
  for (const Pipeline& from : {words(10), forward(words(10))}) {
    const PipelineSource source(from.ragged_batch(2));
    EXPECT_EQ(to_string(source.schema()),
              "number i64[], words.values string[?] of the batch, words.row_splits i64[?] of the batch, "
              "pairs.values f32[?,2] of the batch, pairs.row_splits i64[?] of the batch");
    EXPECT_EQ(source.batch(), 2);
    // Slot 1 of step 1 has elements 6 and 7.
    const Batch batch = source.open({.batch = 2, .slots = 2})->read(0, 1, 1).value();
    EXPECT_EQ(batch.examples, 2);
    EXPECT_EQ(batch.components[0].to_string(9), "i64[2] = 6 7");
    EXPECT_EQ(batch.components[1].to_string(9), "string[5] = 6.0 6.1 7.0 7.1 7.2");
    EXPECT_EQ(batch.components[2].to_string(9), "i64[3] = 0 2 5");
    for (std::size_t i = 0; i < batch.components.size(); ++i)
      EXPECT_TRUE(source.schema()[i].batch_shape(2).compatible_with(batch.components[i].shape())) << i;
  }
  // Also where each element has as many.
  const Pipeline ones =
      data::range(0, 4).map("one",
                            {{"v.indices", DType::i64, Shape{1, 1}},
                             {"v.values", DType::i64, Shape{1}},
                             {"v.dense_shape", DType::i64, Shape{1}}},
                            [](const Element& e, const ElementContext&) -> Element {
                              const std::int64_t n = number_of(e);
                              return {Tensor::of<std::int64_t>(Shape{1, 1}, {n}), Tensor::vector<std::int64_t>({n}),
                                      Tensor::vector<std::int64_t>({5})};
                            });
  for (const Pipeline& from : {ones, forward(ones)})
    EXPECT_EQ(PipelineSource(from.sparse_batch(2)).open({.batch = 2})->read(0, 1, 0)->components[0].to_string(9),
              "i64[2,2] = 0 2 1 3");
  const PipelineSource sparse(matrices(4).sparse_batch(2));
  EXPECT_EQ(sparse.open({.batch = 2})->read(0, 1, 0)->components[2].to_string(9), "i64[3] = 2 3 4");
}

TEST(UnevenBatch, WhatHasAnotherFormIsRefused) {
  const auto refused = [](const std::function<void()>& make) { return error_of(make).to_string(); };
  EXPECT_EQ(refused([] { static_cast<void>(words(3).sparse_batch(2)); }),
            "invalid_argument: stage 'sparse_batch 2': 'pairs' is f32[?,2]: a sparse batch has vectors of unknown "
            "length; padded_batch takes any shape");
  EXPECT_THAT(refused([] { static_cast<void>(words(3).ragged_batch(0)); }), HasSubstr("at least 1 element"));
  for (const auto& stage : std::vector<std::function<void()>>{[] { static_cast<void>(matrices(3).ragged_batch(2)); },
                                                              [] { static_cast<void>(matrices(3).padded_batch(2)); },
                                                              [] { static_cast<void>(matrices(3).batch(2)); },
                                                              [] { static_cast<void>(matrices(3).unbatch()); }})
    EXPECT_THAT(refused(stage), HasSubstr("'m' has the parts of a sparse tensor: use sparse_batch"));
  EXPECT_THAT(refused([] { static_cast<void>(words(3).ragged_batch(2).unbatch()); }),
              HasSubstr("'words' has the parts of a ragged tensor: map it to one tensor first"));
  const Pipeline grid = data::range(0, 2).map("grid", {{"x", DType::f32, Shape{kUnknown, kUnknown}}},
                                              [](const Element&, const ElementContext&) -> Element {
                                                return {Tensor::zeros(DType::f32, Shape{1, 1})};
                                              });
  EXPECT_THAT(refused([&] { static_cast<void>(grid.ragged_batch(2)); }),
              HasSubstr("'x' is f32[?,?]: in a ragged batch only the leading dimension may be unknown"));
}

TEST(UnevenBatch, PartsThatDoNotFitTogetherAreRefused) {
  const auto batch_of = [](Tensor indices, Tensor values) {
    const Pipeline made = data::range(0, 1).map("made",
                                                {{"m.indices", DType::i64, Shape{kUnknown, 2}},
                                                 {"m.values", DType::i64, Shape{kUnknown}},
                                                 {"m.dense_shape", DType::i64, Shape{2}}},
                                                [=](const Element&, const ElementContext&) -> Element {
                                                  return {indices, values, Tensor::vector<std::int64_t>({3, 4})};
                                                });
    return error_of([&] { texts_of(made.sparse_batch(1)); }).message();
  };
  const Tensor value = Tensor::vector<std::int64_t>({1});
  EXPECT_THAT(batch_of(Tensor::zeros(DType::i64, Shape{2, 2}), value),
              HasSubstr("stage 'sparse_batch 1': sparse element 'm' has 2 indices and 1 values"));
  EXPECT_THAT(batch_of(Tensor::of<std::int64_t>(Shape{1, 2}, {2, 4}), value),
              HasSubstr("the index 4 in a dimension of 4: row 0 of its indices"));
  EXPECT_THAT(batch_of(Tensor::of<std::int64_t>(Shape{1, 2}, {-1, 0}), value), HasSubstr("the index -1"));
  EXPECT_EQ(batch_of(Tensor::of<std::int64_t>(Shape{1, 2}, {2, 3}), value), "");
}

}  // namespace
}  // namespace troupe::testing
