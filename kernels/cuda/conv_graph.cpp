#include "troupe/kernels/cuda/conv_graph.hpp"

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kAlignment = 16;  // of memory, in bytes; buffers have more

// Ids of tensors between the operations of a graph.
constexpr std::int64_t kProduct = 5, kSum = 6;

cudnnDataType_t cudnn_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDNN_DATA_FLOAT;
    case DType::f16:
      return CUDNN_DATA_HALF;
    case DType::bf16:
      return CUDNN_DATA_BFLOAT16;
    default:
      fail(Code::unimplemented, "cuDNN convolutions of {} are not supported", name(dtype));
  }
}

CudnnDescriptor tensor(std::int64_t id, cudnnDataType_t type, const CudnnLayout& layout, bool is_virtual = false) {
  CudnnDescriptor out(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  out.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  out.set(CUDNN_ATTR_TENSOR_DIMENSIONS, layout.sizes);
  out.set(CUDNN_ATTR_TENSOR_STRIDES, layout.strides);
  out.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  out.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
  if (is_virtual) out.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
  out.finalize();
  return out;
}

CudnnDescriptor convolution(const ConvGeometry& g) {
  CudnnDescriptor out(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  out.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  out.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  out.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2});
  out.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::array<std::int64_t, 2>{1, 1});
  out.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::array{g.rows.stride, g.columns.stride});
  out.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, std::array{g.rows.before, g.columns.before});
  out.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, std::array{g.rows.after, g.columns.after});
  out.finalize();
  return out;
}

// Attribute names of an operation in one direction.
struct Names {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t convolution, image, filter, result, alpha, beta;
};

Names names(ConvDirection direction) {
  switch (direction) {
    case ConvDirection::forward:
      break;
    case ConvDirection::backward_input:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvDirection::backward_filter:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
}

CudnnDescriptor convolve(const ConvKey& key, const CudnnDescriptor& image, const CudnnDescriptor& filter,
                         const CudnnDescriptor& result) {
  const Names attributes = names(key.direction);
  CudnnDescriptor out(attributes.operation);
  out.set(attributes.convolution, convolution(key.geometry));
  out.set(attributes.image, image);
  out.set(attributes.filter, filter);
  out.set(attributes.result, result);
  out.set(attributes.alpha, 1.0f);
  out.set(attributes.beta, 0.0f);
  out.finalize();
  return out;
}

// `addend` may be null.
CudnnDescriptor pointwise(cudnnPointwiseMode_t mode, const CudnnDescriptor& from, const CudnnDescriptor* addend,
                          const CudnnDescriptor& to) {
  CudnnDescriptor what(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  what.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  what.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  if (mode == CUDNN_POINTWISE_RELU_FWD) {
    const cudnnNanPropagation_t nan = CUDNN_PROPAGATE_NAN;
    what.set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 1, &nan);
  }
  what.finalize();
  CudnnDescriptor out(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  out.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what);
  out.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, from);
  if (addend) out.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *addend);
  out.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to);
  out.finalize();
  return out;
}

std::int64_t id(ConvTensor which) { return static_cast<std::int64_t>(which); }

}  // namespace

CudnnLayout image_layout(std::int64_t images, std::int64_t channels, std::int64_t height, std::int64_t width) {
  return {{images, channels, height, width}, {height * width * channels, 1, width * channels, channels}};
}

ConvOperations::ConvOperations(const ConvKey& key) {
  const ConvGeometry& g = key.geometry;
  const cudnnDataType_t type = cudnn_type(key.dtype);
  const CudnnLayout result = image_layout(g.batch, g.out_channels, g.rows.output, g.columns.output);
  const auto add = [this](CudnnDescriptor descriptor) {
    return tensors_.emplace_back(std::move(descriptor)), tensors_.size() - 1;
  };
  const auto at = [this](std::size_t index) -> const CudnnDescriptor& { return tensors_[index]; };

  const std::size_t image =
      add(tensor(id(ConvTensor::image), type, image_layout(g.batch, g.in_channels, g.rows.input, g.columns.input)));
  const std::size_t filter = add(tensor(id(ConvTensor::filter), type,
                                        image_layout(g.out_channels, g.in_channels, g.rows.kernel, g.columns.kernel)));
  const std::size_t last = add(tensor(id(ConvTensor::result), type, result));
  if (!key.bias) {
    operations_.push_back(convolve(key, at(image), at(filter), at(last)));
    return;
  }
  const std::size_t product = add(tensor(kProduct, CUDNN_DATA_FLOAT, result, true));
  const std::size_t bias = add(tensor(id(ConvTensor::bias), type, image_layout(1, g.out_channels, 1, 1)));
  const std::size_t sum = key.relu ? add(tensor(kSum, CUDNN_DATA_FLOAT, result, true)) : last;
  operations_.push_back(convolve(key, at(image), at(filter), at(product)));
  operations_.push_back(pointwise(CUDNN_POINTWISE_ADD, at(product), &at(bias), at(sum)));
  if (key.relu) operations_.push_back(pointwise(CUDNN_POINTWISE_RELU_FWD, at(sum), nullptr, at(last)));
}

}  // namespace troupe
