// Strings, tables and embeddings by ragged ids.
#include "tests/kernels/kernel_fixture.hpp"

namespace troupe::testing {
namespace {

using Strings = std::vector<std::string>;
using Longs = std::vector<std::int64_t>;

Tensor strings(const Strings& values) { return Tensor::of<std::string>(Shape{std::ssize(values)}, values); }
Tensor longs(const Longs& values) { return Tensor::of<std::int64_t>(Shape{std::ssize(values)}, values); }
template <class T>
std::vector<T> list(const Tensor& t) {
  return {t.values<T>().begin(), t.values<T>().end()};
}

class TextTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    TROUPE_CPU_ONLY("strings are on the host");
  }
  std::vector<Tensor> run_text(std::string op, std::vector<Tensor> inputs, Attributes attributes = {},
                               std::size_t outputs = 1, DType dtype = DType::string, std::vector<DType> types = {}) {
    return run({.op = std::move(op),
                .dtype = dtype,
                .inputs = std::move(inputs),
                .attributes = std::move(attributes),
                .outputs = outputs,
                .output_types = std::move(types)});
  }
};

TEST_F(TextTest, CaseLengthAndWhiteSpace) {
  const Tensor x = strings({"Grün 1", "", " \t a b\n"});
  EXPECT_EQ(list<std::string>(run_text("StringUpper", {x})[0]), (Strings{"GRüN 1", "", " \t A B\n"}));
  EXPECT_EQ(list<std::string>(run_text("StringLower", {x})[0]), (Strings{"grün 1", "", " \t a b\n"}));
  EXPECT_EQ(list<std::string>(run_text("StringStrip", {x})[0]), (Strings{"Grün 1", "", "a b"}));
  EXPECT_EQ(list<std::int64_t>(run_text("StringLength", {x})[0]), (Longs{7, 0, 7}));
}

TEST_F(TextTest, SplitsAndJoins) {
  const auto words = run_text("StringSplit", {strings({" a  bc ", "", "d"})}, {{"separator", std::string()}}, 2);
  EXPECT_EQ(list<std::string>(words[0]), (Strings{"a", "bc", "d"}));
  EXPECT_EQ(list<std::int64_t>(words[1]), (Longs{0, 2, 2, 3}));
  const auto parts = run_text("StringSplit", {strings({",a,,", "b"})}, {{"separator", std::string(",")}}, 2);
  EXPECT_EQ(list<std::string>(parts[0]), (Strings{"", "a", "", "", "b"}));
  EXPECT_EQ(list<std::int64_t>(parts[1]), (Longs{0, 4, 5}));
  const Attributes dash{{"separator", std::string("-")}};
  EXPECT_EQ(list<std::string>(run_text("StringJoin", {strings({"a", "b"}), Tensor::scalar<std::string>("x")}, dash)[0]),
            (Strings{"a-x", "b-x"}));
  const Tensor square = Tensor::of<std::string>(Shape{2, 2}, {"a", "b", "c", "d"});
  EXPECT_EQ(list<std::string>(run_text("StringReduceJoin", {square}, dash)[0]), (Strings{"a-b", "c-d"}));
}

TEST_F(TextTest, NGramsOfRows) {
  const auto grams =
      run_text("StringNGrams", {strings({"a", "b", "c", "d"}), longs({0, 3, 3, 4})},
               {{"min_length", std::int64_t{2}}, {"max_length", std::int64_t{3}}, {"separator", std::string("_")}}, 2);
  EXPECT_EQ(list<std::string>(grams[0]), (Strings{"a_b", "b_c", "a_b_c"}));
  EXPECT_EQ(list<std::int64_t>(grams[1]), (Longs{0, 3, 3, 3}));
  for (const Longs& wrong : {Longs{}, Longs{1, 4}, Longs{0, 3}, Longs{0, 5, 4}})
    EXPECT_NE(
        error_of("StringNGrams", {strings({"a", "b", "c", "d"}), longs(wrong)},
                 {{"min_length", std::int64_t{1}}, {"max_length", std::int64_t{1}}, {"separator", std::string()}}),
        "");
}

TEST_F(TextTest, RegularExpressions) {
  const Tensor x = strings({"v1.25", "none", "v2.7 v3"});
  EXPECT_EQ(list<bool>(run_text("RegexFullMatch", {x}, {{"pattern", std::string(R"(v\d+\.\d+)")}})[0]),
            (std::vector<bool>{true, false, false}));
  const auto replace = [&](const char* rewrite, bool global) {
    return list<std::string>(
        run_text("RegexReplace", {x},
                 {{"pattern", std::string(R"(v(\d))")}, {"rewrite", std::string(rewrite)}, {"global", global}})[0]);
  };
  EXPECT_EQ(replace(R"(<\1>)", true), (Strings{"<1>.25", "none", "<2>.7 <3>"}));
  EXPECT_EQ(replace(R"(\0\0)", false), (Strings{"v1v1.25", "none", "v2v2.7 v3"}));
  EXPECT_NE(error_of("RegexFullMatch", {x}, {{"pattern", std::string("(")}}), "");
  EXPECT_NE(error_of("RegexReplace", {x},
                     {{"pattern", std::string("a")}, {"rewrite", std::string(R"(\5)")}, {"global", true}}),
            "");
}

// The values must never change: models depend on them.
TEST_F(TextTest, HashBucketsStayWhatTheyAre) {
  Strings many;
  for (int i = 0; i < 10'000; ++i) many.push_back("word" + std::to_string(i));
  const auto buckets = [&](std::int64_t seed) {
    return list<std::int64_t>(
        run_text("StringToHashBucket", {strings(many)}, {{"buckets", std::int64_t{10}}, {"seed", seed}})[0]);
  };
  // Models keep what they learnt of a bucket.
  const auto of_1000 = [&](std::int64_t seed) {
    return list<std::int64_t>(run_text("StringToHashBucket", {strings({"", "a", "word", "Grün"})},
                                       {{"buckets", std::int64_t{1000}}, {"seed", seed}})[0]);
  };
  EXPECT_EQ(of_1000(0), (Longs{957, 10, 972, 658}));
  EXPECT_EQ(of_1000(7), (Longs{941, 846, 784, 339}));
  std::vector<int> counts(10);
  for (const std::int64_t b : buckets(0)) ++counts.at(static_cast<std::size_t>(b));
  for (const int count : counts) EXPECT_NEAR(count, 1000, 130);
  EXPECT_NE(buckets(0), buckets(1));
}

TEST_F(TextTest, TablesFindKeys) {
  const Tensor keys = strings({"a", "b", "c"}), x = Tensor::of<std::string>(Shape{2, 2}, {"c", "z", "a", "c"});
  EXPECT_EQ(list<std::int64_t>(run_text("TableFind", {x, keys}, {}, 1, DType::string, {DType::i64})[0]),
            (Longs{2, -1, 0, 2}));
  const Tensor values = Tensor::vector<float>({1.5f, 2.5f, 3.5f});
  const Tensor found =
      run_text("TableLookup", {x, keys, values, Tensor::scalar(-1.0f)}, {}, 1, DType::string, {DType::f32})[0];
  EXPECT_EQ(found.shape(), (Shape{2, 2}));
  EXPECT_EQ(list<float>(found), (std::vector<float>{3.5f, -1, 1.5f, 3.5f}));
  const Tensor words =
      run_text("TableLookup", {longs({7, 9}), longs({9}), strings({"nine"}), Tensor::scalar<std::string>("?")}, {}, 1,
               DType::i64, {DType::string})[0];
  EXPECT_EQ(list<std::string>(words), (Strings{"?", "nine"}));
  EXPECT_NE(error_of("TableFind", {x, strings({"a", "a"})}), "");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor reals = Tensor::vector<float>({nan, 0, 1.5f});
  EXPECT_EQ(list<std::int64_t>(run_text("TableFind", {Tensor::vector<float>({1.5f, -nan, -0.0f, 2}), reals}, {}, 1,
                                        DType::f32, {DType::i64})[0]),
            (Longs{2, 0, 1, -1}));
  EXPECT_NE(error_of("TableFind", {reals, Tensor::vector<float>({nan, nan})}), "");
}

TEST_F(TextTest, EmbeddingsAreCombinedByRows) {
  const Tensor table = Tensor::of<float>(Shape{3, 2}, {1, 2, 10, 20, 100, 200});
  const auto lookup = [&](const char* combiner, std::vector<Tensor> weights = {}) {
    std::vector<Tensor> inputs{table, longs({2, 0, 1}), longs({0, 2, 2, 3})};
    inputs.insert(inputs.end(), weights.begin(), weights.end());
    return list<float>(
        run_text("EmbeddingLookupSparse", inputs, {{"combiner", std::string(combiner)}}, 2, DType::f32)[0]);
  };
  EXPECT_EQ(lookup("sum"), (std::vector<float>{101, 202, 0, 0, 10, 20}));
  EXPECT_EQ(lookup("mean"), (std::vector<float>{50.5f, 101, 0, 0, 10, 20}));
  const Tensor weights = Tensor::vector<float>({3, 4, 2});
  EXPECT_EQ(lookup("sum", {weights}), (std::vector<float>{304, 608, 0, 0, 20, 40}));
  const float norm = 1.0f / 5;
  EXPECT_EQ(lookup("sqrtn", {weights}), (std::vector<float>{304 * norm, 608 * norm, 0, 0, 10, 20}));
  for (const Longs& ids : {Longs{2, 0, 3}, Longs{-1, 0, 1}})
    EXPECT_NE(error_of("EmbeddingLookupSparse", {table, longs(ids), longs({0, 3})}, {{"combiner", std::string("sum")}}),
              "");
}

TEST_F(TextTest, PiecesOfWords) {
  const Tensor x = Tensor::of<std::string>(Shape{1, 2}, {"A ab", "b"});
  const auto pieces = [&](const Strings& vocabulary, std::int64_t length, bool pad) {
    return run_text("WordPiece", {x, strings(vocabulary)}, {{"length", length}, {"pad", pad}}, 2);
  };
  const Strings vocabulary{"a", "##b", "[UNK]", "[CLS]", "[SEP]", "[PAD]"};
  const auto padded = pieces(vocabulary, 6, true);
  EXPECT_EQ(padded[0].shape(), Shape({1, 2, 6}));
  EXPECT_EQ(list<std::int64_t>(padded[0]), (Longs{3, 0, 0, 1, 4, 5, 3, 2, 4, 5, 5, 5}));
  EXPECT_EQ(list<bool>(padded[1]),
            (std::vector<bool>{true, true, true, true, true, false, true, true, true, false, false, false}));
  EXPECT_EQ(list<std::int64_t>(pieces(vocabulary, 6, false)[0]), (Longs{3, 0, 0, 1, 4, 3, 2, 4, 5, 5}));
  EXPECT_EQ(list<std::int64_t>(pieces(vocabulary, 3, false)[0]), (Longs{3, 0, 4, 3, 2, 4}));
  EXPECT_NE(error_of("WordPiece", {x, strings({"a"})}, {{"length", std::int64_t{4}}, {"pad", true}}), "");
}

}  // namespace
}  // namespace troupe::testing
