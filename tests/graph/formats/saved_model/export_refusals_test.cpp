// What SavedModels cannot express: each reason is an error that names the node, not a model that computes otherwise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/error_of.hpp"
#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/formats/saved_model/saved_model.hpp>
#include <troupe/graph/formats/text.hpp>

namespace troupe::testing {
namespace {

using ::testing::HasSubstr;

// The signature's inputs are the Placeholders; its output is `output`.
TensorflowBytes exported_text(const std::string& text, const std::string& output = "y",
                              const std::map<std::string, Tensor>& values = {}) {
  const std::unique_ptr<Graph> graph = parse_text(text);
  TensorflowSignature signature;
  for (int id = 0; id < graph->size(); ++id)
    if (const Node& node = graph->node(id); node.op->role == OpRole::placeholder)
      signature.inputs[node.name] = graph->output(node);
  signature.outputs["out"] = graph->output(output);
  return to_tensorflow(*graph, {.signatures = {{"s", signature}}, .variables = values});
}

struct RefusedGraph {
  std::string text;    // what is after the Placeholders
  std::string reason;  // in the error, after the op and the node
  std::string output = "y";
};

constexpr const char* kGiven = R"(
any = Placeholder() T=f32 shape=[?...]
row = Placeholder() T=f32 shape=[4]
rows = Placeholder() T=f32 shape=[?,4]
cube = Placeholder() T=f32 shape=[2,?,4]
lines = Placeholder() T=f32 shape=[2,9,4]
images = Placeholder() T=f32 shape=[2,9,9,4]
bytes = Placeholder() T=u8 shape=[2,9,9,4]
bodies = Placeholder() T=f32 shape=[2,5,5,5,4]
narrow = Placeholder() T=u8 shape=[2,3]
flags = Placeholder() T=bool shape=[3]
reals = Placeholder() T=f32 shape=[3]
numbers = Placeholder() T=i64 shape=[3]
number = Placeholder() T=i64 shape=[]
yes = Placeholder() T=bool shape=[]
words = Placeholder() T=string shape=[3]
one = Const() T=i64 value=i64[1] = 1
axes = Const() T=i64 value=i64[2] = 0 -1
none = Const() T=f32 value=f32[0] =
nowhere = Const() T=i64 value=i64[0] =
)";

TEST(TensorflowExportRefuses, EachReasonIsNamed) {
  const std::vector<RefusedGraph> cases = {
      // Arrays.
      {"y = Reshape(rows, shape) copy_zeros=true\nshape = Placeholder() T=i64 shape=[?]",
       "the rank of its result must"},
      {"y = Squeeze(rows, n)\nn = Placeholder() T=i64 shape=[1]", "its axes (its input 1) must be known"},
      {"y = ExpandDims(any, numbers)", "its axes (its input 1) must be known"},
      {"y = ExpandDims(any, axes)", "the rank of its input must be known"},
      {"y = Transpose(any)", "the rank of its input 0 is not known"},
      {"y = StridedSlice(any, one, one, one, one)", "the rank of its input 0 is not known"},
      {"y = StridedSlice(row, one, one, one, n)\nn = Placeholder() T=i64 shape=[1]", "its axes (its input 4) must be"},
      {"y = Pad(row, pads, zero)\npads = Const() T=i64 value=i64[2] = -1 0\nzero = Const() T=f32 value=f32[] = 0",
       "pads below 0"},
      {"y = Pad(row, pads, zero) mode=\"edge\"\npads = Const() T=i64 value=i64[2] = 1 0\n"
       "zero = Const() T=f32 value=f32[] = 0",
       "TensorFlow has no pads of mode 'edge'"},
      {"y = DepthToSpace(images) block=2 mode=\"CRD\" layout=\"NHWC\"", "TensorFlow has mode DCR only"},
      {"y = Trilu(rows, number)", "the diagonal (its input 1) must be known"},
      // Elements.
      {"list = ListOf(row)\nsame = Identity(list)\ny = ListSize(same)", "Identity 'same' (it takes a list)"},
      {"y = ArgMax(rows, number) select_last_index=true", "TensorFlow's are the first, not last"},
      {"y = ArgMax(rows, number)", "its axis (its input 1) must be known"},
      {"y = AsString(row)", "TensorFlow writes reals with other digits"},
      {"keys = Const() T=f64 value=f64[1] = 1\nx = Placeholder() T=f64 shape=[1]\ny = TableFind(x, keys)",
       "TensorFlow has no tables with keys of f64"},
      {"y = TableLookup(words, k, v, o)\nk = Const() T=string value=string[1] = \"a\"\nv = Const() T=u8 value=u8[1] = "
       "1\n"
       "o = Const() T=u8 value=u8[] = 0",
       "TensorFlow has no tables with values of u8"},
      {"y = TableFind(words, words)", "its keys must be constants"},
      {"y = TableLookup(words, k, row1, o)\nk = Const() T=string value=string[1] = \"a\"\n"
       "row1 = Placeholder() T=f32 shape=[1]\no = Const() T=f32 value=f32[] = 0",
       "its values must be constants"},
      // Places.
      {"y = GatherND(cube, at) batch_dims=1\nat = Placeholder() T=i64 shape=[2,1]",
       "TensorFlow's GatherNd has no batch dimensions"},
      {"y = GatherElements(lines, at) axis=1\nat = Placeholder() T=i64 shape=[2,9,4]",
       "elements along an axis before the last"},
      {"y = GatherElements(lines, at) axis=2\nat = Placeholder() T=i64 shape=[2,8,4]", "must have equal dimensions"},
      {"y = ScatterND(row, at, up) reduction=\"mul\"\nat = Placeholder() T=i64 shape=[1,1]\n"
       "up = Placeholder() T=f32 shape=[1]",
       "scatters of reduction 'mul'"},
      {"y = ScatterND(lines, at, up) batch_dims=1\nat = Placeholder() T=i64 shape=[2,1,1]\n"
       "up = Placeholder() T=f32 shape=[2,1,4]",
       "or with batch dimensions"},
      {"y = TopK(narrow, one) largest=false", "the smallest of u8 are not written", "y"},
      {"y = Sort(flags)", "the smallest of bool are not written"},
      {"y = SegmentReduce(reals, numbers, number) reduction=\"max\"", "segments of reduction 'max'"},
      {"y = SegmentReduce(numbers, numbers, number) reduction=\"mean\"", "segments of reduction 'mean'"},
      // Networks.
      {"m = Placeholder() T=f32 shape=[4,2]\ny = MatMul(row, m)", "products of vectors are not written"},
      {"m = Placeholder() T=f32 shape=[4]\ny = MatMul(rows, m)", "products of vectors are not written"},
      {"y = MatMul(any, rows)", "the rank of its input 0 is not known"},
      {"y = BiasAdd(any, row) data_format=\"channels_first\"", "the rank of its input 0 is not known"},
      {"f = Placeholder() T=f32 shape=[?,3,4,2]\ny = Conv(images, f) padding=\"VALID\"", "dimension 0 of its input 1"},
      {"f = Placeholder() T=f32 shape=[3,3,3,2,4]\ny = Conv(bodies, f) padding=\"VALID\" groups=2",
       "TensorFlow has no groups of images with 3 axes"},
      {"f = Placeholder() T=f32 shape=[3,3,3,1,4]\ny = Conv(bodies, f) padding=\"VALID\" groups=4",
       "TensorFlow has no groups of images with 3 axes"},
      {"f = Placeholder() T=f32 shape=[3,3,3,2,4]\ny = ConvTranspose(bodies, f, nowhere) padding=\"VALID\"",
       "transposed convolutions with groups, dilations or 3 axes"},
      {"f = Placeholder() T=f32 shape=[3,3,2,4]\ny = ConvTranspose(images, f, nowhere) padding=\"VALID\" dilations=[2, "
       "2]",
       "transposed convolutions with groups, dilations or 3 axes"},
      {"f = Placeholder() T=f32 shape=[3,3,2,4]\ny = ConvTranspose(images, f, nowhere) padding=\"VALID\" groups=2",
       "transposed convolutions with groups, dilations or 3 axes"},
      {"y = MaxPool(images) ksize=[2, 2] padding=\"VALID\" dilations=[2, 2]", "TensorFlow has no pools with dilations"},
      {"y = MaxPool(images) ksize=[2, 2] strides=[2, 2] padding=\"EXPLICIT\" ceil_mode=true",
       "nor windows that reach over the end"},
      {"y = AvgPool(images) ksize=[2, 2] padding=\"SAME\" divisor=\"padded\"",
       "averages with padding SAME are of elements"},
      {"y = MaxPool(bytes) ksize=[2, 2] padding=\"EXPLICIT\" pads=[1, 1, 0, 0]", "pads of integers"},
      {"y = Softmax(any)", "the rank of its input 0 is not known"},
      {"y = RMSNorm(rows, row) epsilon=0.1", "its output 1 cannot be expressed", "y:1"},
      {"q = Placeholder() T=f32 shape=[1,2,3,4]\ny = Attention(q, q, q, none) scale=1",
       "its second output is for gradients", "y:1"},
      {"q = Placeholder() T=f32 shape=[1,?,3,4]\ny = Attention(q, q, q, none) scale=1", "dimension -3 of its input 0"},
      {"y = Attention(any, any, any, none) scale=1", "the rank of its input 0 is not known"},
      // Control flow and state.
      {"list = ListOf(row)\ny = ListStack(list) T=f32", "lists other than those of loops"},
      {"w = Variable() T=f32 shape=[4]\nbefore = NoOp()\ny = ReadVariable(w, ^before) T=f32",
       "it reads a variable after another node has run"},
  };
  for (const RefusedGraph& given : cases) {
    const Error error = error_of([&] { exported_text(kGiven + given.text, given.output); });
    EXPECT_EQ(error.code(), Code::unimplemented) << given.text << ": " << error.to_string();
    EXPECT_THAT(error.message(), HasSubstr("TensorFlow's ops cannot express: ")) << given.text;
    EXPECT_THAT(error.message(), HasSubstr(given.reason)) << given.text;
  }
}

TEST(TensorflowExportRefuses, RecurrentLayersOfOtherKinds) {
  const std::string given = R"(
x = Placeholder() T=f32 shape=[5,2,3]
w = Placeholder() T=f32 shape=[1,16,3]
r = Placeholder() T=f32 shape=[1,16,4]
none = Const() T=f32 value=f32[0] =
peepholes = Placeholder() T=f32 shape=[1,12]
no_lengths = Const() T=i64 value=i64[0] =
)";
  const std::string plain = R"( activations=["sigmoid", "tanh", "tanh"] alphas=[0, 0, 0] betas=[0, 0, 0])";
  const std::string scaled = R"( activations=["sigmoid", "scaled_tanh", "tanh"] alphas=[0, 1, 0] betas=[0, 1, 0])";
  const auto lstm = [](const std::string& peepholes) {
    return "y = LSTM(x, w, r, none, no_lengths, none, none, " + peepholes + ")";
  };
  const std::pair<std::string, std::string> cases[] = {
      {lstm("none") + plain + " clip=1", "activations with bounds (clip)"},
      {lstm("none") + plain + " input_forget=true", "without a gate to forget"},
      {lstm("peepholes") + plain, "an LSTM with peepholes"},
      {lstm("none") + scaled, "the activation 'scaled_tanh' is not written"}};
  for (const auto& [text, reason] : cases) {
    const Error error = error_of([&, &line = text] { exported_text(given + line); });
    EXPECT_EQ(error.code(), Code::unimplemented) << text << ": " << error.to_string();
    EXPECT_THAT(error.message(), HasSubstr(reason)) << text;
  }
  EXPECT_FALSE(error_of([&] { exported_text(given + lstm("none") + plain); }));
  EXPECT_THAT(error_of([&] { exported_text(given + lstm("none") + plain, "y:3"); }).message(),
              HasSubstr("LSTM 'y' (its output 3 cannot be expressed)"));
}

// Of a loop, and of the bodies that it calls.
TEST(TensorflowExportRefuses, LoopsAndBranches) {
  const std::string body = R"(
function step returns again, next, item {
  i = Arg() T=i64 index=0 shape=[]
  a = Arg() T=f32 index=1 shape=[4]
  two = Const() T=f32 value=f32[] = 2
  next = Mul(a, two)
  item = Neg(a)
  again = Const() T=bool value=bool[] = AGAIN
}
)";
  const std::string given = R"(
x = Placeholder() T=f32 shape=[4]
yes = Placeholder() T=bool shape=[]
always = Const() T=bool value=bool[] = true
some = Const() T=i64 value=i64[] = 3
without = Const() T=i64 value=i64[] = -1
)";
  const auto loop = [&](const std::string& limit, const std::string& cond, const std::string& again) {
    std::string text = body;
    text.replace(text.find("AGAIN"), 5, again);
    return given + "y = Loop(" + limit + ", " + cond + ", x) Tout=[f32,list] body=@step carried=1\n" +
           "items = ListStack(y:2) T=f32 item=[4]\n" + text;
  };
  EXPECT_FALSE(error_of([&] { exported_text(loop("some", "always", "true"), "items"); }));
  for (const std::string& text :
       {loop("some", "yes", "true"), loop("some", "always", "false"), loop("without", "always", "true")}) {
    const Error error = error_of([&] { exported_text(text, "items"); });
    EXPECT_EQ(error.code(), Code::unimplemented) << error.to_string();
    EXPECT_THAT(error.message(), HasSubstr("Loop 'y' (a loop that collects values and may end early")) << text;
  }
  const std::string of_lists = R"(
x = Placeholder() T=f32 shape=[4]
always = Const() T=bool value=bool[] = true
some = Const() T=i64 value=i64[] = 3
list = ListOf(x)
y = Loop(some, always, list) Tout=[list] body=@same carried=1
size = ListSize(y:1)
function same returns again, a {
  i = Arg() T=i64 index=0 shape=[]
  a = Arg() T=list index=1 shape=[]
  again = Const() T=bool value=bool[] = true
}
)";
  EXPECT_THAT(error_of([&] { exported_text(of_lists, "size"); }).message(),
              HasSubstr("Loop 'y' (lists as values of a loop)"));
  const std::unique_ptr<Graph> bare =
      parse_text("x = Placeholder() T=f32 shape=[4]\nyes = Placeholder() T=bool shape=[]");
  const Output x = bare->output("x"), yes = bare->output("yes");
  const Attributes missing{
      {"Tout", std::vector<DType>{DType::f32}}, {"then_branch", FunctionName{"f"}}, {"else_branch", FunctionName{"f"}}};
  const Output y = add_op("If", {yes, x}, missing, "y");
  EXPECT_EQ(error_of([&] {
              to_tensorflow(*bare, {.signatures = {{"s", {{{"x", x}, {"yes", yes}}, {{"y", y}}}}}});
            }).to_string(),
            "not_found: If 'y': there is no function 'f'");
  // What is in a body is found too, and its table is not filled by the model's initialisation.
  const std::string branch = R"(
x = Placeholder() T=string shape=[2]
yes = Placeholder() T=bool shape=[]
y = If(yes, x) Tout=[i64] then_branch=@find else_branch=@count
function find returns at {
  a = Arg() T=string index=0 shape=[2]
  keys = Const() T=string value=string[1] = "a"
  at = TableFind(a, keys)
}
function count returns n {
  a = Arg() T=string index=0 shape=[2]
  n = StringToHashBucket(a) buckets=5
}
)";
  const Error error = error_of([&] { exported_text(branch); });
  EXPECT_THAT(error.message(), HasSubstr("StringToHashBucket 'n'"));
  EXPECT_THAT(error.message(), HasSubstr("TableFind 'at' (tables in branches and loops are not written)"));
}

TEST(TensorflowExportRefuses, SignaturesAndVariables) {
  const std::unique_ptr<Graph> graph = parse_text(R"(
x = Placeholder() T=f32 shape=[2]
w = Variable() T=f32 shape=[2]
read = ReadVariable(w) T=f32
y = Mul(x, read)
)");
  const Output x = graph->output("x"), y = graph->output("y");
  const auto error = [&](const TensorflowSignature& signature, const std::map<std::string, Tensor>& values) {
    return error_of([&] { to_tensorflow(*graph, {.signatures = {{"s", signature}}, .variables = values}); });
  };
  const std::map<std::string, Tensor> values{{"w", Tensor::vector<float>({1, 2})}};
  ASSERT_FALSE(error({{{"x", x}}, {{"y", y}}}, values));
  const std::unique_ptr<Graph> other = graph->clone();
  for (const Output& wrong :
       {Output{}, other->output("x"), Output{graph.get(), -1, 0}, Output{graph.get(), graph->size(), 0},
        Output{graph.get(), y.node, 1}, Output{graph.get(), y.node, -1}}) {
    const Error of_output = error({{{"x", x}}, {{"y", wrong}}}, values),
                of_input = error({{{"x", wrong}}, {{"y", y}}}, values);
    EXPECT_EQ(of_output.to_string(), "invalid_argument: signature 's': 'y' is not a tensor of the graph");
    EXPECT_EQ(of_input.to_string(), "invalid_argument: signature 's': 'x' is not a tensor of the graph");
  }
  EXPECT_EQ(error({{{"x", x}}, {{"y", y}}}, {{"w", Tensor::vector<double>({1, 2})}}).to_string(),
            "invalid_argument: Mul 'y': variable 'w' is f32[2], but its value is f64[2]");
  const Output handle = graph->output("w"), list = add_op("ListOf", {x}, {}, "items");
  EXPECT_EQ(error({{{"x", x}}, {{"y", handle}}}, values).to_string(),
            "unimplemented: signature 's': 'y' is a resource, but inputs and outputs must be tensors");
  EXPECT_EQ(error({{{"x", list}}, {{"y", y}}}, values).to_string(),
            "unimplemented: signature 's': 'x' is a list, but inputs and outputs must be tensors");
}

}  // namespace
}  // namespace troupe::testing
