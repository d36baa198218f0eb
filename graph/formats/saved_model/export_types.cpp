// The inputs and results of the ops of TensorFlow that are written, as TensorFlow's registry has them.
#include <algorithm>

#include <troupe/graph/formats/saved_model/export_writer.hpp>

namespace troupe {
namespace {

// Of an argument, its type: i32, i64, f32, bool, string, resource, variant, or the attribute that has it; followed by
// the attribute that has its count ("T N"), or by dots if the attribute is a list of types ("Tin..."). Results have
// names, which bodies of functions need. In alphabetical order.
constexpr TfSignature kTfSignatures[] = {
    {"Abs", "T", "y:T"},
    {"Acos", "T", "y:T"},
    {"Acosh", "T", "y:T"},
    {"AddN", "T N", "sum:T"},
    {"AddV2", "T, T", "z:T"},
    {"All", "bool, Tidx", "output:bool"},
    {"Any", "bool, Tidx", "output:bool"},
    {"ArgMax", "T, Tidx", "output:output_type"},
    {"ArgMin", "T, Tidx", "output:output_type"},
    {"AsString", "T", "output:string"},
    {"Asin", "T", "y:T"},
    {"Asinh", "T", "y:T"},
    {"AssignVariableOp", "resource, dtype", ""},
    {"Atan", "T", "y:T"},
    {"Atan2", "T, T", "z:T"},
    {"Atanh", "T", "y:T"},
    {"AvgPool", "T", "output:T"},
    {"AvgPool3D", "T", "output:T"},
    {"BatchMatMulV2", "T, T", "output:T"},
    {"BatchToSpaceND", "T, Tblock_shape, Tcrops", "output:T"},
    {"BiasAdd", "T, T", "output:T"},
    {"BitwiseAnd", "T, T", "z:T"},
    {"BitwiseOr", "T, T", "z:T"},
    {"BitwiseXor", "T, T", "z:T"},
    {"BroadcastTo", "T, Tidx", "output:T"},
    {"Cast", "SrcT", "y:DstT"},
    {"Ceil", "T", "y:T"},
    {"ConcatV2", "T N, Tidx", "output:T"},
    {"Const", "", "output:dtype"},
    {"Conv2D", "T, T", "output:T"},
    {"Conv2DBackpropInput", "i32, T, T", "output:T"},
    {"Conv3D", "T, T", "output:T"},
    {"Cos", "T", "y:T"},
    {"Cosh", "T", "y:T"},
    {"Cumprod", "T, Tidx", "out:T"},
    {"Cumsum", "T, Tidx", "out:T"},
    {"DepthToSpace", "T", "output:T"},
    {"DepthwiseConv2dNative", "T, T", "output:T"},
    {"Digamma", "T", "y:T"},
    {"Elu", "T", "activations:T"},
    {"Equal", "T, T", "z:bool"},
    {"Erf", "T", "y:T"},
    {"Erfc", "T", "y:T"},
    {"Exp", "T", "y:T"},
    {"ExpandDims", "T, Tdim", "output:T"},
    {"Expm1", "T", "y:T"},
    {"Fill", "index_type, T", "output:T"},
    {"Floor", "T", "y:T"},
    {"FloorDiv", "T, T", "z:T"},
    {"FloorMod", "T, T", "z:T"},
    {"FusedBatchNormV3", "T, U, U, U, U",
     "y:T, batch_mean:U, batch_variance:U, reserve_space_1:U, reserve_space_2:U, reserve_space_3:U"},
    {"GatherNd", "Tparams, Tindices", "output:Tparams"},
    {"GatherV2", "Tparams, Tindices, Taxis", "output:Tparams"},
    {"Greater", "T, T", "z:bool"},
    {"GreaterEqual", "T, T", "z:bool"},
    {"HashTableV2", "", "table_handle:resource"},
    {"Identity", "T", "output:T"},
    {"Invert", "T", "y:T"},
    {"IsFinite", "T", "y:bool"},
    {"LeakyRelu", "T", "activations:T"},
    {"LeftShift", "T, T", "z:T"},
    {"Less", "T, T", "z:bool"},
    {"LessEqual", "T, T", "z:bool"},
    {"Lgamma", "T", "y:T"},
    {"Log", "T", "y:T"},
    {"Log1p", "T", "y:T"},
    {"LogSoftmax", "T", "logsoftmax:T"},
    {"LogicalAnd", "bool, bool", "z:bool"},
    {"LogicalNot", "bool", "y:bool"},
    {"LogicalOr", "bool, bool", "z:bool"},
    {"LookupTableFindV2", "resource, Tin, Tout", "values:Tout"},
    {"LookupTableImportV2", "resource, Tin, Tout", ""},
    {"LowerBound", "T, T", "output:out_type"},
    {"MatMul", "T, T", "product:T"},
    {"MatrixBandPart", "T, Tindex, Tindex", "band:T"},
    {"Max", "T, Tidx", "output:T"},
    {"MaxPool", "T", "output:T"},
    {"MaxPool3D", "T", "output:T"},
    {"Maximum", "T, T", "z:T"},
    {"Mean", "T, Tidx", "output:T"},
    {"Min", "T, Tidx", "output:T"},
    {"Minimum", "T, T", "z:T"},
    {"MirrorPad", "T, Tpaddings", "output:T"},
    {"Mul", "T, T", "z:T"},
    {"Neg", "T", "y:T"},
    {"NoOp", "", ""},
    {"NotEqual", "T, T", "z:bool"},
    {"OneHot", "TI, i32, T, T", "output:T"},
    {"OnesLike", "T", "y:T"},
    {"Pack", "T N", "output:T"},
    {"PadV2", "T, Tpaddings, T", "output:T"},
    {"Placeholder", "", "output:dtype"},
    {"PlaceholderWithDefault", "dtype", "output:dtype"},
    {"Pow", "T, T", "z:T"},
    {"Prod", "T, Tidx", "output:T"},
    {"Range", "Tidx, Tidx, Tidx", "output:Tidx"},
    {"ReadVariableOp", "resource", "value:dtype"},
    {"RealDiv", "T, T", "z:T"},
    {"RegexFullMatch", "string, string", "output:bool"},
    {"RegexReplace", "string, string, string", "output:string"},
    {"Relu", "T", "activations:T"},
    {"Reshape", "T, Tshape", "output:T"},
    {"RestoreV2", "string, string, string", "tensors:dtypes..."},
    {"ReverseSequence", "T, Tlen", "output:T"},
    {"ReverseV2", "T, Tidx", "output:T"},
    {"RightShift", "T, T", "z:T"},
    {"Roll", "T, Tshift, Taxis", "output:T"},
    {"Round", "T", "y:T"},
    {"Rsqrt", "T", "y:T"},
    {"SaveV2", "string, string, string, dtypes...", ""},
    {"ScatterNd", "Tindices, T, Tindices", "output:T"},
    {"SelectV2", "bool, T, T", "output:T"},
    {"Selu", "T", "activations:T"},
    {"Shape", "T", "output:out_type"},
    {"Sigmoid", "T", "y:T"},
    {"Sign", "T", "y:T"},
    {"Sin", "T", "y:T"},
    {"Sinh", "T", "y:T"},
    {"Size", "T", "output:out_type"},
    {"Slice", "T, Index, Index", "output:T"},
    {"Softmax", "T", "softmax:T"},
    {"Softplus", "T", "activations:T"},
    {"Softsign", "T", "activations:T"},
    {"SpaceToBatchND", "T, Tblock_shape, Tpaddings", "output:T"},
    {"SpaceToDepth", "T", "output:T"},
    {"Split", "i32, T", "output:T num_split"},
    {"SplitV", "T, Tlen, i32", "output:T num_split"},
    {"Sqrt", "T", "y:T"},
    {"Square", "T", "y:T"},
    {"SquaredDifference", "T, T", "z:T"},
    {"Squeeze", "T", "output:T"},
    {"StatelessIf", "Tcond, Tin...", "output:Tout..."},
    {"StatelessWhile", "T...", "output:T..."},
    {"StopGradient", "T", "output:T"},
    {"StridedSlice", "T, Index, Index, Index", "output:T"},
    {"StringJoin", "string N", "output:string"},
    {"StringLength", "string", "output:i32"},
    {"StringLower", "string", "output:string"},
    {"StringSplitV2", "string, string", "indices:i64, values:string, shape:i64"},
    {"StringStrip", "string", "output:string"},
    {"StringToNumber", "string", "output:out_type"},
    {"StringUpper", "string", "output:string"},
    {"Sub", "T, T", "z:T"},
    {"Sum", "T, Tidx", "output:T"},
    {"Tan", "T", "y:T"},
    {"Tanh", "T", "y:T"},
    {"TensorListReserve", "shape_type, i32", "handle:variant"},
    {"TensorListSetItem", "variant, i32, element_dtype", "output_handle:variant"},
    {"TensorListStack", "variant, i32", "tensor:element_dtype"},
    {"TensorScatterAdd", "T, Tindices, T", "output:T"},
    {"TensorScatterMax", "T, Tindices, T", "output:T"},
    {"TensorScatterMin", "T, Tindices, T", "output:T"},
    {"TensorScatterUpdate", "T, Tindices, T", "output:T"},
    {"Tile", "T, Tmultiples", "output:T"},
    {"TopKV2", "T, Tk", "values:T, indices:index_type"},
    {"Transpose", "T, Tperm", "y:T"},
    {"TruncateDiv", "T, T", "z:T"},
    {"TruncateMod", "T, T", "z:T"},
    {"Unpack", "T", "output:T num"},
    {"UnsortedSegmentMax", "T, Tindices, Tnumsegments", "output:T"},
    {"UnsortedSegmentMin", "T, Tindices, Tnumsegments", "output:T"},
    {"UnsortedSegmentProd", "T, Tindices, Tnumsegments", "output:T"},
    {"UnsortedSegmentSum", "T, Tindices, Tnumsegments", "output:T"},
    {"UpperBound", "T, T", "output:out_type"},
    {"VarHandleOp", "", "resource:resource"},
    {"Where", "T", "index:i64"},
    {"Xlogy", "T, T", "z:T"},
    {"ZerosLike", "T", "y:T"},
};

}  // namespace

const TfSignature& tensorflow_signature(std::string_view op) {
  const auto* found = std::ranges::lower_bound(kTfSignatures, op, {}, &TfSignature::op);
  if (found == std::end(kTfSignatures) || found->op != op) fail(Code::internal, "no op of TensorFlow is named {}", op);
  return *found;
}

std::vector<TfArgument> arguments_of(std::string_view signature) {
  std::vector<TfArgument> out;
  while (!signature.empty()) {
    const std::size_t end = std::min(signature.find(", "), signature.size());
    std::string_view text = signature.substr(0, end);
    signature.remove_prefix(std::min(end + 2, signature.size()));
    TfArgument& argument = out.emplace_back();
    if (const std::size_t colon = text.find(':'); colon != text.npos) {
      argument.name = text.substr(0, colon);
      text.remove_prefix(colon + 1);
    }
    if (const std::size_t space = text.find(' '); space != text.npos) {
      argument.count = text.substr(space + 1);
      text = text.substr(0, space);
    }
    argument.types = text.ends_with("...");
    argument.type = argument.types ? text.substr(0, text.size() - 3) : text;
    constexpr std::pair<std::string_view, DType> kFixed[] = {
        {"i32", DType::i32},       {"i64", DType::i64},           {"f32", DType::f32},    {"bool", DType::boolean},
        {"string", DType::string}, {"resource", DType::resource}, {"variant", kTfVariant}};
    for (const auto& [name, dtype] : kFixed)
      if (name == argument.type) argument.fixed = dtype;
  }
  return out;
}

}  // namespace troupe
