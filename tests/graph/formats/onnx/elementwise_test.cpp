// ONNX's elementwise ops in forms that its test data lack: early opsets, mixed dtypes, optional inputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/error_of.hpp"
#include "tests/graph/formats/onnx/model_maker.hpp"
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/formats/onnx/onnx.hpp>

namespace troupe {
namespace {

using testing::error_of;
using testing::ModelMaker;
using testing::NodeMaker;

struct OpCase {
  std::string op;
  std::int64_t opset;
  std::vector<Tensor> inputs;  // invalid: absent
  std::function<void(NodeMaker&)> attributes{};
  std::size_t outputs = 1;
};

ModelMaker model_of(const OpCase& c) {
  ModelMaker maker(c.opset);
  std::vector<std::string> inputs, outputs;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    inputs.push_back(c.inputs[i].valid() ? "x" + std::to_string(i) : "");
    if (c.inputs[i].valid()) maker.graph.input(inputs.back(), c.inputs[i].dtype(), c.inputs[i].shape());
  }
  for (std::size_t i = 0; i < c.outputs; ++i) outputs.push_back("y" + std::to_string(i));
  NodeMaker node = maker.graph.node(c.op, inputs, outputs);
  if (c.attributes) c.attributes(node);
  for (const std::string& output : outputs) maker.graph.output(output);
  return maker;
}

std::vector<Tensor> run_op(const OpCase& c) {
  const OnnxModel model = parse_onnx(model_of(c).bytes(), {.weights = OnnxImportOptions::Weights::constants});
  Feeds feeds;
  for (const Tensor& input : c.inputs)
    if (input.valid()) feeds.emplace_back(model.inputs.at(feeds.size()).output, input);
  Outputs fetches;
  for (const OnnxValue& output : model.outputs) fetches.push_back(output.output);
  return Session(*model.graph).run(feeds, fetches);
}

// The only output as doubles; of f32, f64, bool or an integer type.
std::vector<double> numbers(const Tensor& t) {
  std::vector<double> out;
  dispatch(DataTypes{}, t.dtype(), [&]<class T>() {
    for (const T& v : t.values<T>()) out.push_back(static_cast<double>(static_cast<Compute<T>>(v)));
  });
  return out;
}

void expect_op(const OpCase& c, DType dtype, const std::vector<double>& wanted) {
  SCOPED_TRACE(c.op + " of opset " + std::to_string(c.opset));
  const Tensor y = run_op(c)[0];
  EXPECT_EQ(y.dtype(), dtype);
  const std::vector<double> found = numbers(y);
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(found[i] == wanted[i] || std::abs(found[i] - wanted[i]) <= 1e-6 * (1 + std::abs(wanted[i])))
        << i << ": " << found[i] << ", not " << wanted[i];
}

constexpr DType f32 = DType::f32;
const Tensor kSome = Tensor::vector<float>({-2, -0.5f, 0, 3});

TEST(OnnxElementwise, EarlyOpsetsHaveAttributesInsteadOfInputs) {
  expect_op({"Clip", 6, {kSome}, [](NodeMaker& n) { n.set("min", -1.0f).set("max", 1.0f); }}, f32, {-1, -0.5, 0, 1});
  expect_op({"Clip", 6, {kSome}, [](NodeMaker& n) { n.set("max", 1.0f); }}, f32, {-2, -0.5, 0, 1});
  expect_op({"Clip", 13, {kSome, {}, Tensor::scalar(1.0f)}}, f32, {-2, -0.5, 0, 1});
  expect_op({"Clip", 13, {kSome}}, f32, {-2, -0.5, 0, 3});
  expect_op({"Cast", 5, {kSome}, [](NodeMaker& n) { n.set("to", std::string("INT64")); }}, DType::i64, {-2, 0, 0, 3});
  expect_op({"Cast", 6, {kSome}, [](NodeMaker& n) { n.set("to", std::int64_t{9}); }}, DType::boolean, {1, 1, 0, 1});
  expect_op({"Selu", 1, {kSome}}, f32, {-1.52010758, -0.69173139, 0, 3.1521});
}

TEST(OnnxElementwise, EarlyOpsetsBroadcastAlongAnAxis) {
  const Tensor a = Tensor::of<float>(Shape{2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), b = Tensor::vector<float>({10, 20});
  const auto along = [](std::int64_t axis) {
    return [axis](NodeMaker& n) { n.set("broadcast", std::int64_t{1}).set("axis", axis); };
  };
  expect_op({"Add", 6, {a, b}, along(0)}, f32, {11, 12, 13, 14, 25, 26, 27, 28});
  expect_op({"Sub", 6, {a, b}, along(1)}, f32, {-9, -8, -17, -16, -5, -4, -13, -12});
  expect_op({"Pow", 6, {a, Tensor::vector<float>({1, 2})}, along(2)}, f32, {1, 4, 3, 16, 5, 36, 7, 64});
  expect_op({"PRelu", 6, {Tensor::of<float>(Shape{1, 2, 2}, {-1, 2, -3, -4}), b}}, f32, {-10, 2, -60, -80});
}

TEST(OnnxElementwise, PowersHaveTheDtypeOfTheBase) {
  const Tensor base = Tensor::vector<std::int32_t>({2, 9, 5});
  expect_op({"Pow", 15, {base, Tensor::vector<float>({3, 0.5f, -1})}}, DType::i32, {8, 3, 0});
  expect_op({"Pow", 15, {base, Tensor::scalar(std::int64_t{2})}}, DType::i32, {4, 81, 25});
  expect_op({"Pow", 15, {Tensor::vector<double>({2, 4}), Tensor::vector<std::int8_t>({-1, 2})}}, DType::f64, {0.5, 16});
}

TEST(OnnxElementwise, IntegersWhereTroupeHasFloats) {
  expect_op({"Erf", 13, {Tensor::vector<std::int32_t>({-3, 0, 1, 9})}}, DType::i32, {0, 0, 0, 1});
  const Tensor a = Tensor::of<std::int64_t>(Shape{2, 2}, {1, 2, 3, 4}), c = Tensor::vector<std::int64_t>({5, -9});
  expect_op({"Gemm", 13, {a, a, c}, [](NodeMaker& n) { n.set("alpha", 0.5f).set("beta", 0.25f); }}, DType::i64,
            {4, 2, 8, 8});
  expect_op({"Gemm", 13, {a, a, c}, [](NodeMaker& n) { n.set("alpha", 2.0f); }}, DType::i64, {19, 11, 35, 35});
}

TEST(OnnxElementwise, AnyNumberOfOperands) {
  const Tensor a = Tensor::of<float>(Shape{2, 1}, {1, 4}), b = Tensor::vector<float>({2, 3}), c = Tensor::scalar(6.0f);
  expect_op({"Sum", 13, {a, b, c}}, f32, {9, 10, 12, 13});
  expect_op({"Mean", 13, {a, b, c}}, f32, {3, 10.0 / 3, 4, 13.0 / 3});
  expect_op({"Max", 13, {a, b}}, f32, {2, 3, 4, 4});
  expect_op({"Min", 13, {Tensor::vector<std::uint64_t>({7, 8})}}, DType::u64, {7, 8});
}

TEST(OnnxElementwise, LaterActivations) {
  expect_op({"HardSwish", 14, {kSome}}, f32, {-1.0 / 3, -0.20833333, 0, 3});
  expect_op({"Mish", 18, {kSome}}, f32, {-0.25250149, -0.22074377, 0, 2.98653506});
  expect_op({"Gelu", 20, {kSome}}, f32, {-0.04550026, -0.15426877, 0, 2.99595031});
  expect_op({"Gelu", 20, {kSome}, [](NodeMaker& n) { n.set("approximate", std::string("tanh")); }}, f32,
            {-0.04540231, -0.15428599, 0, 2.99636261});
  expect_op({"Shrink", 9, {Tensor::vector<std::int32_t>({-3, 0, 2})}, [](NodeMaker& n) { n.set("bias", 1.0f); }},
            DType::i32, {-2, 0, 1});
}

TEST(OnnxElementwise, RemaindersBitsAndLimits) {
  const Tensor a = Tensor::vector<std::int32_t>({-7, 7}), b = Tensor::vector<std::int32_t>({3, -3});
  expect_op({"Mod", 13, {a, b}}, DType::i32, {2, -2});
  expect_op({"Mod", 13, {a, b}, [](NodeMaker& n) { n.set("fmod", std::int64_t{1}); }}, DType::i32, {-1, 1});
  expect_op({"BitwiseXor", 18, {a, b}}, DType::i32, {-6, -6});
  expect_op({"IsInf",
             10,
             {Tensor::vector<float>({1, -INFINITY, INFINITY})},
             [](NodeMaker& n) { n.set("detect_positive", std::int64_t{0}); }},
            DType::boolean, {0, 1, 0});
  EXPECT_NE(error_of([&] {
              run_op({"Mod", 13, {kSome, kSome}});
            })
                .message()
                .find("'fmod' must be 1"),
            std::string::npos);
  EXPECT_NE(
      error_of([&] {
        run_op({"BitShift", 11, {Tensor::scalar(std::uint8_t{1}), Tensor::scalar(std::uint8_t{1})}, [](NodeMaker& n) {
                  n.set("direction", std::string("UP"));
                }});
      })
          .message()
          .find("not LEFT or RIGHT"),
      std::string::npos);
}

TEST(OnnxElementwise, QuantisationWithoutZeroPoints) {
  const Tensor scale = Tensor::scalar(0.5f);
  expect_op({"QuantizeLinear", 13, {kSome, scale}}, DType::u8, {0, 0, 0, 6});
  expect_op({"QuantizeLinear", 10, {Tensor::vector<std::int32_t>({3, 200}), scale, Tensor::scalar(std::int8_t{1})}},
            DType::i8, {7, 127});
  expect_op({"DequantizeLinear", 10, {Tensor::vector<std::int32_t>({3, -4}), scale}}, f32, {1.5, -2});
}

TEST(OnnxElementwise, DropoutTrainsIfToldTo) {
  Tensor x(f32, Shape{1000});
  std::ranges::fill(x.mutable_values<float>(), 1.0f);
  const Tensor yes = Tensor::scalar(true), no = Tensor::scalar(false);
  const auto kept = [&](const OpCase& c, double value) {
    const std::vector<Tensor> out = run_op(c);
    const std::vector<double> y = numbers(out[0]), mask = numbers(out[1]);
    int count = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      EXPECT_NEAR(y[i], mask[i] != 0 ? value : 0, 1e-6);
      count += y[i] != 0;
    }
    return count;
  };
  EXPECT_EQ(kept({"Dropout", 13, {x, Tensor::scalar(0.75f), no}, {}, 2}, 1), 1000);
  EXPECT_NEAR(kept({"Dropout", 13, {x, Tensor::scalar(0.75f), yes}, {}, 2}, 4), 250, 70);
  EXPECT_NEAR(kept({"Dropout", 13, {x, {}, yes}, {}, 2}, 2), 500, 80);
  EXPECT_EQ(kept({"Dropout", 13, {x, Tensor::scalar(0.75f)}, {}, 2}, 1), 1000);
  EXPECT_EQ(kept({"Dropout", 10, {x}, {}, 2}, 1), 1000);
  EXPECT_NEAR(kept({"Dropout", 6, {x}, [](NodeMaker& n) { n.set("ratio", 0.75f); }, 2}, 4), 250, 70);
  EXPECT_EQ(kept({"Dropout", 6, {x}, [](NodeMaker& n) { n.set("is_test", std::int64_t{1}); }, 2}, 1), 1000);
  EXPECT_NE(error_of([&] {
              run_op({"Dropout", 13, {x, Tensor::scalar(1.5f), yes}});
            })
                .message()
                .find("not in [0, 1)"),
            std::string::npos);
}

}  // namespace
}  // namespace troupe
