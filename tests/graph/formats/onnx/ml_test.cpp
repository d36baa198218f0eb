// Operators of ai.onnx.ml other than trees, with values worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/graph/formats/onnx/ml_model.hpp"

namespace troupe {
namespace {

using ::testing::FloatNear;
using testing::Floats;
using ::testing::HasSubstr;
using testing::list_of;
using testing::Longs;
using testing::MlCase;
using testing::NodeMaker;
using ::testing::Pointwise;
using testing::refused_ml;
using testing::run_ml;
using testing::Strings;

const float kMissing = std::numeric_limits<float>::quiet_NaN();

Tensor square(std::initializer_list<float> values) { return Tensor::of<float>(Shape{2, 2}, values); }
Tensor words(const Strings& values) { return Tensor::of<std::string>(Shape{std::ssize(values)}, values); }

Floats floats(const MlCase& c) { return list_of<float>(run_ml(c)[0]); }

TEST(OnnxMl, ScalersShiftAndScaleFeatures) {
  const auto scaler = [](Tensor x, Floats offset, Floats scale) {
    return floats({"Scaler", {x}, [=](NodeMaker& n) {
                     if (!offset.empty()) n.set("offset", offset);
                     if (!scale.empty()) n.set("scale", scale);
                   }});
  };
  const Tensor x = square({1, 2, 3, 4});
  EXPECT_EQ(scaler(x, {1, 2}, {2, 10}), (Floats{0, 0, 4, 20}));
  EXPECT_EQ(scaler(x, {1}, {2}), (Floats{0, 2, 4, 6}));
  EXPECT_EQ(scaler(x, {}, {}), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(scaler(Tensor::vector<std::int64_t>({5, 7}), {1, 2}, {0.5f, 1}), (Floats{2, 5}));
  EXPECT_EQ(scaler(Tensor::vector<double>({5, 7}), {1, 2}, {0.5f, 1}), (Floats{2, 5}));
  EXPECT_THAT(refused_ml({"Scaler",
                          {x},
                          [](NodeMaker& n) {
                            n.set("scale", Floats{1, 2, 3});
                          }}),
              HasSubstr("'scale' has 3 elements, but there are 2 features"));
}

TEST(OnnxMl, NormalizersDivideRowsByTheirSize) {
  const auto normalized = [](const char* norm, Tensor x) {
    return floats({"Normalizer", {x}, [=](NodeMaker& n) { n.set("norm", std::string(norm)); }});
  };
  const Tensor x = Tensor::of<float>(Shape{3, 2}, {3, -4, 0, 0, -2, -1});
  EXPECT_EQ(normalized("MAX", x), (Floats{1, -4.0f / 3, 0, 0, 2, 1}));
  EXPECT_THAT(normalized("L1", x),
              Pointwise(FloatNear(1e-6f), Floats{3.0f / 7, -4.0f / 7, 0, 0, -2.0f / 3, -1.0f / 3}));
  const float root = std::sqrt(5.0f);
  EXPECT_THAT(normalized("L2", x), Pointwise(FloatNear(1e-6f), Floats{0.6f, -0.8f, 0, 0, -2 / root, -1 / root}));
  EXPECT_THAT(refused_ml({"Normalizer", {x}, [](NodeMaker& n) { n.set("norm", std::string("L3")); }}),
              HasSubstr("not 'L3'"));
}

TEST(OnnxMl, ImputersReplaceWhatIsMissing) {
  const Tensor x = square({kMissing, 1, 0, kMissing});
  EXPECT_EQ(floats({"Imputer",
                    {x},
                    [](NodeMaker& n) {
                      n.set("imputed_value_floats", Floats{7, 8}).set("replaced_value_float", kMissing);
                    }}),
            (Floats{7, 1, 0, 8}));
  EXPECT_EQ(floats({"Imputer", {square({0, 1, 2, 0})}, [](NodeMaker& n) { n.set("imputed_value_floats", Floats{9}); }}),
            (Floats{9, 1, 2, 9}));
  const Tensor numbers = Tensor::of<std::int64_t>(Shape{2, 2}, {1, 0, 3, 1});
  EXPECT_EQ(list_of<std::int64_t>(run_ml({"Imputer",
                                          {numbers},
                                          [](NodeMaker& n) {
                                            n.set("imputed_value_int64s", Longs{5, 6});
                                            n.set("replaced_value_int64", std::int64_t{1});
                                          }})[0]),
            (Longs{5, 0, 3, 6}));
  EXPECT_THAT(refused_ml({"Imputer",
                          {x},
                          [](NodeMaker& n) {
                            n.set("imputed_value_floats", Floats{1, 2, 3});
                          }}),
              HasSubstr("has 3 elements, but there are 2 features"));
}

TEST(OnnxMl, BinarizersCompare) {
  EXPECT_EQ(floats({"Binarizer", {square({0.5f, 0.6f, -1, 3})}, [](NodeMaker& n) { n.set("threshold", 0.5f); }}),
            (Floats{0, 1, 0, 1}));
  EXPECT_EQ(
      list_of<std::int64_t>(run_ml(
          {"Binarizer", {Tensor::vector<std::int64_t>({0, 1, 2})}, [](NodeMaker& n) { n.set("threshold", 0.5f); }})[0]),
      (Longs{0, 1, 1}));
}

TEST(OnnxMl, FeaturesAreChosenAndJoined) {
  const Tensor x = square({1, 2, 3, 4}), index = Tensor::vector<std::int64_t>({1, 1, 0});
  EXPECT_EQ(floats({"ArrayFeatureExtractor", {x, index}}), (Floats{2, 2, 1, 4, 4, 3}));
  const std::vector<Tensor> row = run_ml({"ArrayFeatureExtractor", {words({"a", "b"}), index}});
  EXPECT_EQ(row[0].shape(), (Shape{1, 3}));
  EXPECT_EQ(list_of<std::string>(row[0]), (Strings{"b", "b", "a"}));
  const MlCase joined{"FeatureVectorizer", {x, square({5, 6, 7, 8})}, [](NodeMaker& n) {
                        n.set("inputdimensions", Longs{1, 3});
                      }};
  EXPECT_EQ(floats(joined), (Floats{1, 5, 6, 0, 3, 7, 8, 0}));
  EXPECT_THAT(refused_ml({"FeatureVectorizer", {x, x}, [](NodeMaker& n) { n.set("inputdimensions", Longs{1}); }}),
              HasSubstr("has 1 elements for 2 inputs"));
  EXPECT_THAT(refused_ml({"FeatureVectorizer", {x}, [](NodeMaker& n) { n.set("inputdimensions", Longs{-1}); }}),
              HasSubstr("element 0 of attribute 'inputdimensions' is -1"));
}

TEST(OnnxMl, LabelsAreEncoded) {
  const auto encoded = [](Tensor x, std::function<void(NodeMaker&)> set, std::int64_t version) {
    return run_ml({"LabelEncoder", {x}, std::move(set), 1, version})[0];
  };
  const auto classes = [](NodeMaker& n) { n.set("classes_strings", Strings{"a", "b"}); };
  EXPECT_EQ(list_of<std::int64_t>(encoded(words({"b", "?", "a"}), classes, 1)), (Longs{1, -1, 0}));
  EXPECT_EQ(list_of<std::string>(encoded(Tensor::vector<std::int64_t>({1, 7}), classes, 1)), (Strings{"b", "_Unused"}));
  const auto numbers = [](NodeMaker& n) {
    n.set("keys_floats", Floats{1.5f, kMissing, 0, 1.5f}).set("values_strings", Strings{"x", "nan", "zero", "later"});
    n.set("default_string", std::string("other"));
  };
  EXPECT_EQ(list_of<std::string>(encoded(Tensor::vector<float>({kMissing, -0.0f, 1.5f, 2}), numbers, 2)),
            (Strings{"nan", "zero", "x", "other"}));
  const auto tensors = [](NodeMaker& n) {
    n.set("keys_tensor", words({"a", "b"})).set("values_tensor", Tensor::vector<double>({0.25, 0.5}));
    n.set("default_tensor", Tensor::vector<double>({-1}));
  };
  EXPECT_EQ(list_of<double>(encoded(words({"b", "c"}), tensors, 4)), (std::vector<double>{0.5, -1}));
  EXPECT_THAT(refused_ml({"LabelEncoder",
                          {words({"b"})},
                          [](NodeMaker& n) {
                            n.set("keys_strings", Strings{"a"}).set("values_int64s", Longs{1, 2});
                          }}),
              HasSubstr("has 1 keys, but 2 values"));
  EXPECT_THAT(refused_ml({"LabelEncoder", {words({"b"})}}), HasSubstr("needs attributes for its keys and values"));
  EXPECT_THAT(refused_ml({"LabelEncoder",
                          {words({"b"})},
                          [](NodeMaker& n) { n.set("keys_int64s", Longs{1}).set("values_int64s", Longs{1}); }}),
              HasSubstr("the keys are i64, but the input is string"));
}

TEST(OnnxMl, CategoriesAreMapped) {
  const auto set = [](NodeMaker& n) { n.set("cats_strings", Strings{"a", "b"}).set("cats_int64s", Longs{10, 20}); };
  EXPECT_EQ(list_of<std::int64_t>(run_ml({"CategoryMapper", {words({"b", "z"})}, set})[0]), (Longs{20, -1}));
  EXPECT_EQ(list_of<std::string>(run_ml({"CategoryMapper", {Tensor::vector<std::int64_t>({10, 3})}, set})[0]),
            (Strings{"a", "_Unused"}));
}

TEST(OnnxMl, CategoriesBecomeOneHot) {
  const auto numbers = [](NodeMaker& n) { n.set("cats_int64s", Longs{1, 5}); };
  const Tensor y = run_ml({"OneHotEncoder", {Tensor::of<std::int64_t>(Shape{2, 1}, {5, 3})}, numbers})[0];
  EXPECT_EQ(y.shape(), (Shape{2, 1, 2}));
  EXPECT_EQ(list_of<float>(y), (Floats{0, 1, 0, 0}));
  EXPECT_EQ(floats({"OneHotEncoder", {Tensor::vector<float>({1.7f, 5})}, numbers}), (Floats{1, 0, 0, 1}));
  const auto strict = [](NodeMaker& n) { n.set("cats_strings", Strings{"a", "b"}).set("zeros", std::int64_t{0}); };
  EXPECT_EQ(floats({"OneHotEncoder", {words({"b", "a"})}, strict}), (Floats{0, 1, 1, 0}));
  EXPECT_NE(testing::error_of([&] { floats({"OneHotEncoder", {words({"z"})}, strict}); }).message(), "");
}

TEST(OnnxMl, LinearRegressorsAddUp) {
  const auto set = [](NodeMaker& n) {
    n.set("coefficients", Floats{1, 2, 3, 4}).set("intercepts", Floats{10, 20}).set("targets", std::int64_t{2});
  };
  EXPECT_EQ(floats({"LinearRegressor", {square({1, 1, 0, -1})}, set}), (Floats{13, 27, 8, 16}));
  EXPECT_EQ(floats({"LinearRegressor", {Tensor::vector<float>({1, 1})}, set}), (Floats{13, 27}));
  EXPECT_THAT(refused_ml({"LinearRegressor",
                          {square({1, 1, 0, -1})},
                          [](NodeMaker& n) {
                            n.set("coefficients", Floats{1, 2, 3}).set("targets", std::int64_t{2});
                          }}),
              HasSubstr("'coefficients' has 3 elements for 2 targets"));
  EXPECT_THAT(refused_ml({"LinearRegressor",
                          {square({1, 1, 0, -1})},
                          [](NodeMaker& n) {
                            n.set("coefficients", Floats{1, 2}).set("intercepts", Floats{2, 1});
                          }}),
              HasSubstr("'intercepts' has 2 elements for 1 targets"));
}

// Scores 0.3, -0.2, 0 of three classes.
MlCase three_classes(const char* transform) {
  return {"LinearClassifier",
          {Tensor::of<float>(Shape{1, 1}, {1})},
          [=](NodeMaker& n) {
            n.set("coefficients", Floats{0.3f, -0.2f, 0}).set("classlabels_strings", Strings{"a", "b", "c"});
            n.set("post_transform", std::string(transform));
          },
          2};
}

TEST(OnnxMl, ScoresAreTransformed) {
  const auto scores = [](const char* transform) { return list_of<float>(run_ml(three_classes(transform))[1]); };
  const auto sigmoid = [](double v) { return static_cast<float>(1 / (1 + std::exp(-v))); };
  const double a = std::exp(0.3), b = std::exp(-0.2);
  const auto close = [](const Floats& wanted) { return Pointwise(FloatNear(1e-6f), wanted); };
  EXPECT_THAT(scores("NONE"), close({0.3f, -0.2f, 0}));
  EXPECT_THAT(scores("LOGISTIC"), close({sigmoid(0.3), sigmoid(-0.2), 0.5f}));
  EXPECT_THAT(scores("SOFTMAX"), close({static_cast<float>(a / (a + b + 1)), static_cast<float>(b / (a + b + 1)),
                                        static_cast<float>(1 / (a + b + 1))}));
  EXPECT_THAT(scores("SOFTMAX_ZERO"), close({static_cast<float>(a / (a + b)), static_cast<float>(b / (a + b)), 0}));
  // The quantile of the normal distribution at 0.3 is -0.5244; the approximation is good to 3 digits.
  const Floats probit = scores("PROBIT");
  EXPECT_NEAR(probit[0], -0.5244, 1e-3);
  EXPECT_TRUE(std::isnan(probit[1]));
  EXPECT_THAT(refused_ml(three_classes("CUBIC")), HasSubstr("not 'CUBIC'"));
}

TEST(OnnxMl, ClassifiersNameTheirClasses) {
  const std::vector<Tensor> found = run_ml(three_classes("NONE"));
  EXPECT_EQ(list_of<std::string>(found[0]), (Strings{"a"}));
  const OnnxModel model = parse_onnx(testing::ml_model(three_classes("NONE")));
  EXPECT_EQ(list_of<std::string>(model.outputs[1].type.classes), (Strings{"a", "b", "c"}));
  EXPECT_EQ(to_string(model.outputs[1].type), "f32[1,3] of classes a, b, c");
}

TEST(OnnxMl, OneScoreTellsTwoClasses) {
  const auto run = [](const char* transform) {
    return run_ml({"LinearClassifier",
                   {Tensor::of<float>(Shape{2, 1}, {-0.3f, 0.4f})},
                   [=](NodeMaker& n) {
                     n.set("coefficients", Floats{1}).set("intercepts", Floats{0}).set("classlabels_ints", Longs{7, 9});
                     n.set("post_transform", std::string(transform));
                   },
                   2});
  };
  EXPECT_EQ(list_of<std::int64_t>(run("NONE")[0]), (Longs{7, 9}));
  EXPECT_THAT(list_of<float>(run("NONE")[1]), Pointwise(FloatNear(1e-6f), Floats{1.3f, -0.3f, 0.6f, 0.4f}));
  EXPECT_THAT(list_of<float>(run("LOGISTIC")[1]),
              Pointwise(FloatNear(1e-6f), Floats{0.5744425f, 0.4255575f, 0.4013123f, 0.5986877f}));
}

TEST(OnnxMl, ZipMapsNameColumns) {
  const MlCase c{"ZipMap", {square({0.1f, 0.9f, 0.7f, 0.3f})}, [](NodeMaker& n) {
                   n.set("classlabels_int64s", Longs{3, 4});
                 }};
  EXPECT_EQ(floats(c), (Floats{0.1f, 0.9f, 0.7f, 0.3f}));
  const OnnxModel model = parse_onnx(testing::ml_model(c));
  EXPECT_EQ(to_string(model.outputs[0].type), "f32[2,2] of classes 3, 4");
  EXPECT_THAT(
      refused_ml({"ZipMap", {square({0, 0, 0, 0})}, [](NodeMaker& n) { n.set("classlabels_int64s", Longs{3}); }}),
      HasSubstr("has 1 labels for 2 columns"));
  EXPECT_THAT(refused_ml({"ZipMap", {square({0, 0, 0, 0})}}), HasSubstr("needs one of the attributes"));
}

}  // namespace
}  // namespace troupe
