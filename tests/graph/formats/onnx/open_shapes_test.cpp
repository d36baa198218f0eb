// Models whose inputs have open dimensions, for inference: plans for the shapes that they are fed.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <future>

#include "tests/patience.hpp"
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/formats/onnx/onnx.hpp>

namespace troupe {
namespace {

Tensor waves(const Shape& shape, float step) {
  Tensor out(DType::f32, shape);
  float at = 0;
  for (float& x : out.mutable_values<float>()) x = std::sin(at += step);
  return out;
}

// Heads split by Shape, Gather, Concat and Reshape, as exporters write them.
std::string model_with_open_shapes() {
  Graph g;
  const Output x = placeholder(g, DType::f32, {kUnknown, kUnknown, 8}, "x");
  const auto dimension = [&](std::int64_t axis) {
    return gather(shape_of(x), constant(g, Tensor::vector<std::int64_t>({axis})));
  };
  const auto sizes = [&](std::initializer_list<std::int64_t> last) {
    return concat({dimension(0), dimension(1), constant(g, Tensor::vector<std::int64_t>(last))}, 0);
  };
  const Output product = matmul(x, constant(g, waves({8, 8}, 0.7f))) + constant(g, waves({8}, 0.3f));
  const Output heads = transpose(reshape(product, sizes({2, 4})), {0, 2, 1, 3});
  const Output scores = matmul(heads, transpose(heads, {0, 1, 3, 2})) / 2.0;
  const Output read = transpose(matmul(softmax(scores), heads), {0, 2, 1, 3});
  const Output y = reshape(read, sizes({8}), "y");
  OnnxExport what;
  what.inputs.push_back({"", x, {}});
  what.outputs.push_back({"", y, {}});
  return to_onnx(g, what);
}

TEST(OnnxOpenShapes, APlanForAShapeHasTheSameBits) {
  const OnnxModel model = parse_onnx(model_with_open_shapes(), {.weights = OnnxImportOptions::Weights::constants});
  const Output x = model.inputs[0].output, y = model.outputs[0].output;
  ASSERT_FALSE(x.shape().fully_known());
  std::promise<std::string> told;
  Session general(*model.graph, {.inference = InferencePasses{.switched_off = {"shape_classes"}}});
  Session shaped(*model.graph,
                 {.inference = InferencePasses{.shape_classes = 1,
                                               .on_shapes = [&](const std::string& line) { told.set_value(line); }}});
  const Feeds feeds{{x, waves({3, 5, 8}, 0.9f)}};
  const Tensor expected = general.run(feeds, y);
  const auto check = [&] {
    const Tensor actual = shaped.run(feeds, y);
    ASSERT_EQ(actual.shape(), expected.shape());
    EXPECT_EQ(std::memcmp(actual.raw(), expected.raw(), expected.num_bytes()), 0);
  };
  for (int step = 0; step < 3; ++step) check();
  auto line = told.get_future();
  ASSERT_EQ(line.wait_for(testing::kPatience), std::future_status::ready);
  EXPECT_EQ(line.get(), "x f32[3,5,8]: has a plan of its own");
  check();
  const std::string text = shaped.explain({x}, {y});
  const std::string plan = text.substr(text.find("for x f32[3,5,8]: 1 steps"));
  for (const char* op : {"Shape '", "Gather '", "Concat '"}) {
    EXPECT_NE(text.find(op), std::string::npos) << op;
    EXPECT_EQ(plan.find(fmt::format("  {}", op)), std::string::npos) << op;
  }
  EXPECT_NE(plan.find("; 0 slots of unknown size"), std::string::npos);
}

}  // namespace
}  // namespace troupe
