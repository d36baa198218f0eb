#include "troupe/kernels/cuda/conv_graph.hpp"

#include <algorithm>

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
  const auto rank = static_cast<std::int64_t>(layout.sizes.size());
  out.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rank, layout.sizes.data());
  out.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rank, layout.strides.data());
  out.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  out.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
  if (is_virtual) out.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
  out.finalize();
  return out;
}

// An image of one dimension is one of two, of height 1.
int cudnn_spatial(const ConvGeometry& g) { return std::max(2, g.spatial); }

CudnnDescriptor convolution(const ConvGeometry& g) {
  CudnnDescriptor out(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  out.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  out.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  const int spatial = cudnn_spatial(g);
  out.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{spatial});
  const auto set = [&](cudnnBackendAttributeName_t name, std::int64_t WindowAxis::*value) {
    const std::int64_t values[] = {g.depth.*value, g.rows.*value, g.columns.*value};
    out.set(name, CUDNN_TYPE_INT64, spatial, values + (kMaxSpatial - spatial));
  };
  set(CUDNN_ATTR_CONVOLUTION_DILATIONS, &WindowAxis::dilation);
  set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, &WindowAxis::stride);
  set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, &WindowAxis::before);
  set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, &WindowAxis::after);
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

CudnnLayout image_layout(const ConvGeometry& g, std::int64_t images, std::int64_t channels, ConvSizes sizes) {
  const int spatial = cudnn_spatial(g);
  CudnnLayout out{.sizes = {images, channels}, .strides = {}};
  out.sizes.insert(out.sizes.end(), sizes.end() - spatial, sizes.end());
  out.strides.resize(out.sizes.size());
  std::int64_t step = g.channels_first ? 1 : channels;
  for (std::size_t i = out.sizes.size() - 1; i >= 2; --i) {
    out.strides[i] = step;
    step *= out.sizes[i];
  }
  out.strides[1] = g.channels_first ? step : 1;
  out.strides[0] = g.channels_first ? step * channels : step;
  return out;
}

ConvOperations::ConvOperations(const ConvKey& key) {
  const ConvGeometry& g = key.geometry;
  const cudnnDataType_t type = cudnn_type(key.dtype);
  const auto sizes = [&](std::int64_t WindowAxis::*size) {
    return ConvSizes{g.depth.*size, g.rows.*size, g.columns.*size};
  };
  const CudnnLayout result = image_layout(g, g.batch, g.out_channels, sizes(&WindowAxis::output));
  const auto add = [this](CudnnDescriptor descriptor) {
    return tensors_.emplace_back(std::move(descriptor)), tensors_.size() - 1;
  };
  const auto at = [this](std::size_t index) -> const CudnnDescriptor& { return tensors_[index]; };

  const std::size_t image =
      add(tensor(id(ConvTensor::image), type, image_layout(g, g.batch, g.in_channels, sizes(&WindowAxis::input))));
  const std::size_t filter = add(
      tensor(id(ConvTensor::filter), type, image_layout(g, g.out_channels, g.group_in(), sizes(&WindowAxis::kernel))));
  const std::size_t last = add(tensor(id(ConvTensor::result), type, result));
  if (!key.bias) {
    operations_.push_back(convolve(key, at(image), at(filter), at(last)));
    return;
  }
  const std::size_t product = add(tensor(kProduct, CUDNN_DATA_FLOAT, result, true));
  const std::size_t bias = add(tensor(id(ConvTensor::bias), type, image_layout(g, 1, g.out_channels, {1, 1, 1})));
  const std::size_t sum = key.relu ? add(tensor(kSum, CUDNN_DATA_FLOAT, result, true)) : last;
  operations_.push_back(convolve(key, at(image), at(filter), at(product)));
  operations_.push_back(pointwise(CUDNN_POINTWISE_ADD, at(product), &at(bias), at(sum)));
  if (key.relu) operations_.push_back(pointwise(CUDNN_POINTWISE_RELU_FWD, at(sum), nullptr, at(last)));
}

}  // namespace troupe
