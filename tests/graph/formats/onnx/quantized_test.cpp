// Models of 8 bits, written in QDQ form and read back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/session/quantization.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/formats/onnx/onnx.hpp>

namespace troupe {
namespace {

using ::testing::HasSubstr;

Tensor wavy(const Shape& shape, float frequency) {
  Tensor out(DType::f32, shape);
  for (std::int64_t i = 0; i < out.num_elements(); ++i)
    out.mutable_data<float>()[i] = std::sin(frequency * static_cast<float>(i + 1));
  return out;
}

TEST(QuantizedOnnx, ModelsThatAreWrittenMultiplyBytesAgain) {
  Task task({.threads = 1});
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{2, 8, 8, 4}, "x");
  const auto conv = [&](Output from, std::int64_t size, const std::string& name) {
    const Output filter = constant(g, wavy({size, size, from.shape()[-1], 8}, 0.7f));
    return bias_add(conv2d(from, filter, {.name = name}), constant(g, wavy({8}, 1.3f)));
  };
  const Output first = relu(conv(x, 3, "first"));
  const Output sum = relu(conv(first, 1, "second") + first);
  const Output third = relu(conv(sum, 3, "third"));
  const Output y = bias_add(matmul(mean(third, {1, 2}), constant(g, wavy({8, 5}, 0.9f)), {.name = "scores"}),
                            constant(g, wavy({5}, 1.1f)));
  const Tensor images = wavy(x.shape(), 0.37f);
  const auto batches = [&, once = true]() mutable -> std::optional<std::map<std::string, Tensor>> {
    if (!std::exchange(once, false)) return std::nullopt;
    return std::map<std::string, Tensor>{{"x", images}};
  };
  QuantizedModel q = quantize(task, g, {y}, batches);

  const std::string bytes =
      to_onnx(*q.graph, {.inputs = {{"", q.graph->output("x"), {}}}, .outputs = {{"y", q.outputs[0], {}}}});
  const OnnxInfo info = onnx_info(bytes);
  EXPECT_EQ(info.ops.at("Transpose"), 1);  // of the images; filters are written as ONNX has them
  EXPECT_EQ(info.ops.at("Conv"), 3);
  EXPECT_EQ(info.ops.at("Gemm"), 1);

  const OnnxModel again = parse_onnx(bytes, {.weights = OnnxImportOptions::Weights::constants});
  const Output given = again.inputs[0].output, result = again.outputs[0].output;
  Session session(task, *again.graph, {.inference = InferencePasses{}}),
      before(task, *q.graph, {.inference = InferencePasses{}});
  const std::string explained = session.explain({given}, {result});
  for (const char* line :
       {"' multiplies bytes, relu, makes bytes\n", "' multiplies bytes, adds a residual, relu, makes bytes\n",
        "' multiplies bytes, relu\n", "MatMul' multiplies bytes\n"})
    EXPECT_THAT(explained, HasSubstr(line));
  const Tensor actual = session.run({{given, images}}, result),
               expected = before.run({{q.graph->output("x"), images}}, q.outputs[0]);
  for (std::int64_t i = 0; i < expected.num_elements(); ++i)
    EXPECT_NEAR(actual.data<float>()[i], expected.data<float>()[i], 1e-4) << i;
}

}  // namespace
}  // namespace troupe
