"""Functions of neural networks: activations, convolutions, pools, normalisations, losses of each example."""

from __future__ import annotations

import functools
import typing

from . import _troupe
from ._core import Axis, Tensor, TensorLike
from .ragged import RaggedTensor
from .sparse import SparseTensor
from .sparse import to_ragged as sparse_to_ragged

__all__ = [
    "attention", "avg_pool", "batch_norm", "batch_to_space", "bias_add", "celu", "col2im", "conv1d", "conv2d", "conv3d",
    "conv_transpose", "ctc_loss", "depth_to_space", "depthwise_conv2d", "dropout", "elu", "embedding_lookup_sparse",
    "gelu", "global_avg_pool", "global_lp_pool", "global_max_pool", "group_norm", "gru", "hard_sigmoid", "hard_swish",
    "hardmax", "im2col", "in_top_k", "instance_norm", "l2_loss", "l2_normalize", "layer_norm", "leaky_relu",
    "local_response_norm", "log_softmax", "log_uniform_candidates", "lp_normalize", "lp_pool", "lstm", "max_pool",
    "max_pool_with_indices", "max_unpool", "mean_variance_normalize", "mish", "moments", "nce_loss", "prelu", "relu",
    "relu6", "resize", "rms_norm", "rnn", "rotary_embedding", "sampled_softmax_loss", "selu", "separable_conv2d",
    "shrink", "sigmoid", "sigmoid_cross_entropy", "silu", "softmax", "softmax_cross_entropy", "softplus", "softsign",
    "space_to_batch", "space_to_depth", "sparse_softmax_cross_entropy", "tanh", "thresholded_relu",
    "weighted_sigmoid_cross_entropy", "weighted_sparse_softmax_cross_entropy",
]

Integers = typing.Union[int, typing.Sequence[int]]
Padding = typing.Union[str, int, typing.Sequence]


def _each(value: Integers, axes: int) -> typing.List[int]:
    return [value] * axes if isinstance(value, int) else [int(v) for v in value]


def _padding(padding: Padding, axes: int) -> typing.Tuple[str, typing.List[int]]:
    """The mode, and numbers before all axes, then after them."""
    if isinstance(padding, str):
        return padding.upper(), []
    pairs = [(p, p) if isinstance(p, int) else tuple(p) for p in _sequence(padding, axes)]
    return "explicit", [int(p[0]) for p in pairs] + [int(p[1]) for p in pairs]


def _sequence(padding: typing.Union[int, typing.Sequence], axes: int) -> typing.Sequence:
    return [padding] * axes if isinstance(padding, int) else padding


def _conv(x: TensorLike, filters: TensorLike, axes: int, strides: Integers, padding: Padding, dilations: Integers,
          groups: int, data_format: str) -> Tensor:
    mode, pads = _padding(padding, axes)
    return _troupe.conv(x, filters, _each(strides, axes), mode, pads, _each(dilations, axes), groups, data_format)


def _pool(pool: typing.Callable[..., typing.Any], x: TensorLike, ksize: Integers, strides: typing.Optional[Integers],
          padding: Padding, data_format: str) -> typing.Any:
    images = _troupe.tensor(x)
    axes = images.ndim - 2
    mode, pads = _padding(padding, axes)
    sizes = _each(ksize, axes)
    return pool(images, sizes, sizes if strides is None else _each(strides, axes), mode, pads, data_format)


def relu(x: TensorLike) -> Tensor:
    """max(x, 0).

    >>> troupe.nn.relu([-1., 0., 2.])
    Tensor([0., 0., 2.], dtype=float32)
    """
    return _troupe.relu(x)


def relu6(x: TensorLike) -> Tensor:
    """x clipped to [0, 6].

    >>> troupe.nn.relu6([-1., 0., 2.])
    Tensor([0., 0., 2.], dtype=float32)
    """
    return _troupe.relu6(x)


def silu(x: TensorLike) -> Tensor:
    """x sigmoid(x), also called swish.

    >>> troupe.nn.silu([-1., 0., 2.])
    Tensor([-0.26894143,  0.        ,  1.761594  ], dtype=float32)
    """
    return _troupe.silu(x)


def mish(x: TensorLike) -> Tensor:
    """x tanh(softplus(x)) (Misra 2019).

    >>> troupe.nn.mish([-1., 0., 2.])
    Tensor([-0.30340147,  0.        ,  1.943959  ], dtype=float32)
    """
    return _troupe.mish(x)


def softsign(x: TensorLike) -> Tensor:
    """x / (1 + |x|).

    >>> troupe.nn.softsign([-1., 0., 2.])
    Tensor([-0.5      ,  0.       ,  0.6666667], dtype=float32)
    """
    return _troupe.softsign(x)


def hard_swish(x: TensorLike) -> Tensor:
    """x hard_sigmoid(x) with alpha = 1/6 (Howard et al. 2019).

    >>> troupe.nn.hard_swish([-1., 0., 2.])
    Tensor([-0.3333333,  0.       ,  1.6666667], dtype=float32)
    """
    return _troupe.hard_swish(x)


def selu(x: TensorLike) -> Tensor:
    """A scaled elu() that keeps mean and variance (Klambauer et al. 2017).

    >>> troupe.nn.selu([-1., 0., 2.])
    Tensor([-1.1113307,  0.       ,  2.101402 ], dtype=float32)
    """
    return _troupe.selu(x)


def sigmoid(x: TensorLike) -> Tensor:
    """1 / (1 + exp(-x)).

    >>> troupe.nn.sigmoid([-1., 0., 2.])
    Tensor([0.26894143, 0.5       , 0.880797  ], dtype=float32)
    """
    return _troupe.sigmoid(x)


def softplus(x: TensorLike) -> Tensor:
    """log(1 + exp(x)).

    >>> troupe.nn.softplus([-1., 0., 2.])
    Tensor([0.3132617, 0.6931472, 2.126928 ], dtype=float32)
    """
    return _troupe.softplus(x)


def tanh(x: TensorLike) -> Tensor:
    """The hyperbolic tangent.

    >>> troupe.nn.tanh([-1., 0., 2.])
    Tensor([-0.7615942,  0.       ,  0.9640276], dtype=float32)
    """
    return _troupe.tanh(x)


def elu(x: TensorLike, alpha: float = 1.0) -> Tensor:
    """x where x > 0, else alpha (exp(x) - 1) (Clevert, Unterthiner & Hochreiter 2015).

    >>> troupe.nn.elu([-1., 0., 2.])
    Tensor([-0.63212055,  0.        ,  2.        ], dtype=float32)
    """
    return _troupe.elu(x, alpha)


def celu(x: TensorLike, alpha: float = 1.0) -> Tensor:
    """x where x > 0, else alpha (exp(x / alpha) - 1) (Barron 2017).

    >>> troupe.nn.celu([-1., 0., 2.])
    Tensor([-0.63212055,  0.        ,  2.        ], dtype=float32)
    """
    return _troupe.celu(x, alpha)


def leaky_relu(x: TensorLike, alpha: float = 0.2) -> Tensor:
    """x where x > 0, else alpha x.

    >>> troupe.nn.leaky_relu([-1., 0., 2.])
    Tensor([-0.2,  0. ,  2. ], dtype=float32)
    """
    return _troupe.leaky_relu(x, alpha)


def thresholded_relu(x: TensorLike, alpha: float = 1.0) -> Tensor:
    """x where x > alpha, else 0.

    >>> troupe.nn.thresholded_relu([-1., 0., 2.])
    Tensor([0., 0., 2.], dtype=float32)
    """
    return _troupe.thresholded_relu(x, alpha)


def gelu(x: TensorLike, approximate: bool = False) -> Tensor:
    """x times the probability that a standard normal number is below x (Hendrycks & Gimpel 2016); approximate: by tanh.

    >>> troupe.nn.gelu([-1., 0., 2.])
    Tensor([-0.15865523,  0.        ,  1.9544997 ], dtype=float32)
    """
    return _troupe.gelu(x, approximate)


def hard_sigmoid(x: TensorLike, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """alpha x + beta, clipped to [0, 1].

    >>> troupe.nn.hard_sigmoid([-1., 0., 9.])
    Tensor([0.3, 0.5, 1. ], dtype=float32)
    """
    return _troupe.hard_sigmoid(x, alpha, beta)


def prelu(x: TensorLike, slope: TensorLike) -> Tensor:
    """x where x >= 0, else slope x.

    >>> troupe.nn.prelu([-1., 2.], 0.5)
    Tensor([-0.5,  2. ], dtype=float32)
    """
    return _troupe.prelu(x, slope)


def softmax(x: TensorLike, axis: int = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along an axis.

    >>> troupe.nn.softmax([0., 0.])
    Tensor([0.5, 0.5], dtype=float32)
    """
    return _troupe.softmax(x, axis)


def log_softmax(x: TensorLike, axis: int = -1) -> Tensor:
    """x - log(sum(exp(x))) along an axis.

    >>> troupe.nn.log_softmax([0., 0.])
    Tensor([-0.6931472, -0.6931472], dtype=float32)
    """
    return _troupe.log_softmax(x, axis)


def dropout(x: TensorLike, rate: float, seed: int = 0) -> Tensor:
    """Each element 0 with a probability, and else divided by the rest of it.

    >>> troupe.nn.dropout([1., 2.], 0.0)
    Tensor([1., 2.], dtype=float32)
    """
    return _troupe.dropout(x, rate, seed)


def conv1d(x: TensorLike, filters: TensorLike, strides: Integers = 1, padding: Padding = "VALID",
           dilations: Integers = 1, groups: int = 1, data_format: str = "channels_last") -> Tensor:
    """A convolution: x [n, width, c], filters [width, c / groups, out]
    -> [n, width, out].
    padding: "SAME", "VALID", or numbers before and after each spatial axis.

    >>> troupe.nn.conv1d(troupe.ones((1, 4, 1)), troupe.ones((2, 1, 3))).shape
    (1, 3, 3)
    """
    return _conv(x, filters, 1, strides, padding, dilations, groups, data_format)


def conv2d(x: TensorLike, filters: TensorLike, strides: Integers = 1, padding: Padding = "VALID",
           dilations: Integers = 1, groups: int = 1, data_format: str = "channels_last") -> Tensor:
    """A convolution: x [n, height, width, c], filters [height, width, c / groups, out]
    -> [n, height, width, out].
    padding: "SAME", "VALID", or numbers before and after each spatial axis.

    >>> troupe.nn.conv2d(troupe.ones((1, 4, 4, 1)), troupe.ones((2, 2, 1, 3)), padding='SAME').shape
    (1, 4, 4, 3)
    """
    return _conv(x, filters, 2, strides, padding, dilations, groups, data_format)


def conv3d(x: TensorLike, filters: TensorLike, strides: Integers = 1, padding: Padding = "VALID",
           dilations: Integers = 1, groups: int = 1, data_format: str = "channels_last") -> Tensor:
    """A convolution: x [n, depth, height, width, c], filters [depth, height, width, c / groups, out]
    -> [n, depth, height, width, out].
    padding: "SAME", "VALID", or numbers before and after each spatial axis.

    >>> troupe.nn.conv3d(troupe.ones((1, 4, 4, 4, 1)), troupe.ones((2, 2, 2, 1, 3)), strides=2).shape
    (1, 2, 2, 2, 3)
    """
    return _conv(x, filters, 3, strides, padding, dilations, groups, data_format)


def depthwise_conv2d(x: TensorLike, filters: TensorLike, strides: Integers = 1,
                     padding: Padding = "VALID", dilations: Integers = 1,
                     data_format: str = "channels_last") -> Tensor:
    """Each channel with filters of its own: x [n, height, width, c], filters [height, width, c, multiplier]
    -> [n, height, width, c multiplier].

    >>> troupe.nn.depthwise_conv2d(troupe.ones((1, 4, 4, 2)), troupe.ones((2, 2, 2, 3))).shape
    (1, 3, 3, 6)
    """
    mode, pads = _padding(padding, 2)
    return _troupe.depthwise_conv2d(x, filters, _each(strides, 2), mode, pads, _each(dilations, 2), data_format)


def conv_transpose(x: TensorLike, filters: TensorLike,
                   output_shape: typing.Optional[typing.Sequence[int]] = None, strides: Integers = 1,
                   padding: str = "SAME", dilations: Integers = 1, data_format: str = "channels_last") -> Tensor:
    """The transpose of a convolution: x [n, spatial..., in], filters [spatial..., out, in] -> [n, spatial..., out].
    output_shape: spatial sizes of the result.

    >>> troupe.nn.conv_transpose(troupe.ones((1, 4, 4, 3)), troupe.ones((2, 2, 5, 3)), strides=2).shape
    (1, 8, 8, 5)
    """
    images = _troupe.tensor(x)
    axes = images.ndim - 2
    sizes = None if output_shape is None else list(output_shape)
    return _troupe.conv_transpose(images, filters, sizes, _each(strides, axes), padding.upper(),
                                  _each(dilations, axes), data_format)


def max_pool(x: TensorLike, ksize: Integers = 2, strides: typing.Optional[Integers] = None,
             padding: Padding = "VALID", data_format: str = "channels_last") -> Tensor:
    """The greatest element of each window of x [n, spatial..., c]. strides: by default ksize.

    >>> troupe.nn.max_pool(troupe.ones((1, 4, 4, 2))).shape
    (1, 2, 2, 2)
    """
    return _pool(_troupe.max_pool, x, ksize, strides, padding, data_format)


def avg_pool(x: TensorLike, ksize: Integers = 2, strides: typing.Optional[Integers] = None,
             padding: Padding = "VALID", data_format: str = "channels_last") -> Tensor:
    """The mean of the elements of each window of x [n, spatial..., c]. strides: by default ksize.

    >>> troupe.nn.avg_pool(troupe.ones((1, 4, 4, 2))).shape
    (1, 2, 2, 2)
    """
    return _pool(_troupe.avg_pool, x, ksize, strides, padding, data_format)


def bias_add(x: TensorLike, bias: TensorLike, data_format: str = "channels_last") -> Tensor:
    """x with bias [c] added along its channels.

    >>> troupe.nn.bias_add([[1., 2.]], [10., 20.])
    Tensor([[11., 22.]], dtype=float32)
    """
    return _troupe.bias_add(x, bias, data_format)


def resize(images: TensorLike, size: typing.Sequence[int], method: str = "bilinear",
           antialias: bool = False) -> Tensor:
    """Images [n, height, width, c] of another size; methods: nearest, bilinear, bicubic.

    >>> troupe.nn.resize(troupe.ones((1, 4, 4, 3)), (2, 2)).shape
    (1, 2, 2, 3)
    """
    return _troupe.resize(images, list(size), method, antialias)


@typing.overload
def batch_norm(x: TensorLike, scale: TensorLike, offset: TensorLike, *, epsilon: float = 1e-3
               ) -> typing.Tuple[Tensor, Tensor, Tensor]: ...
@typing.overload
def batch_norm(x: TensorLike, scale: TensorLike, offset: TensorLike, mean: TensorLike, variance: TensorLike,
               epsilon: float = 1e-3) -> Tensor: ...
def batch_norm(x: TensorLike, scale: TensorLike, offset: TensorLike,
               mean: typing.Optional[TensorLike] = None, variance: typing.Optional[TensorLike] = None,
               epsilon: float = 1e-3) -> typing.Any:
    """scale (x - mean) / sqrt(variance + epsilon) + offset over all dimensions but the last (Ioffe & Szegedy 2015).
    Without mean and variance, those of the batch: returns y, mean and variance.

    >>> troupe.nn.batch_norm([[1.], [3.]], [1.], [0.], [2.], [1.])
    Tensor([[-0.9995004],
            [ 0.9995004]], dtype=float32)
    """
    if mean is None or variance is None:
        return _troupe.batch_norm(x, scale, offset, epsilon)
    return _troupe.batch_norm_inference(x, scale, offset, mean, variance, epsilon)


def layer_norm(x: TensorLike, scale: TensorLike, offset: TensorLike, axis: int = -1, epsilon: float = 1e-5) -> Tensor:
    """Normalisation over the dimensions from axis on, of each row (Ba, Kiros & Hinton 2016).

    >>> troupe.nn.layer_norm([[1., 3.]], [1., 1.], [0., 0.])
    Tensor([[-0.999995,  0.999995]], dtype=float32)
    """
    return _troupe.layer_norm(x, scale, offset, axis, epsilon)


def rms_norm(x: TensorLike, scale: TensorLike, axis: int = -1, epsilon: float = 1e-5) -> Tensor:
    """x / sqrt(mean(x^2) + epsilon) scale (Zhang & Sennrich 2019).

    >>> troupe.nn.rms_norm([[3., 3.]], [1., 2.])
    Tensor([[0.9999994, 1.9999988]], dtype=float32)
    """
    return _troupe.rms_norm(x, scale, axis, epsilon)


def group_norm(x: TensorLike, scale: TensorLike, offset: TensorLike, groups: int, axis: int = -1,
               epsilon: float = 1e-5) -> Tensor:
    """Normalisation of groups of channels, of each example (Wu & He 2018).

    >>> troupe.nn.group_norm([[1., 3.]], [1., 1.], [0., 0.], 1)
    Tensor([[-0.999995,  0.999995]], dtype=float32)
    """
    rows = _troupe.tensor(x)
    return _troupe.group_norm(rows, scale, offset, groups, axis % rows.ndim, epsilon)


def l2_normalize(x: TensorLike, axis: Axis = None, epsilon: float = 1e-12) -> Tensor:
    """x / sqrt(max(sum of x^2 over axes, epsilon)).

    >>> troupe.nn.l2_normalize([3., 4.])
    Tensor([0.6, 0.8], dtype=float32)
    """
    return _troupe.l2_normalize(x, axis, epsilon)


def moments(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> typing.Tuple[Tensor, Tensor]:
    """Mean and variance over axes.

    >>> troupe.nn.moments([1., 3.])
    (Tensor(2., dtype=float32), Tensor(1., dtype=float32))
    """
    return _troupe.moments(x, axis, keepdims)


def attention(q: TensorLike, k: TensorLike, v: TensorLike, mask: typing.Optional[TensorLike] = None,
              causal: bool = False, scale: typing.Optional[float] = None) -> Tensor:
    """softmax(scale q k' + mask) v (Vaswani et al. 2017): q [..., heads, queries, depth], k [..., heads, keys, depth],
    v [..., heads, keys, value_depth] -> [..., heads, queries, value_depth]. mask: bool, where there is attention, or
    added to the scores.

    >>> troupe.nn.attention(troupe.ones((1, 2, 4)), troupe.ones((1, 3, 4)), troupe.ones((1, 3, 5))).shape
    (1, 2, 5)
    """
    return _troupe.attention(q, k, v, mask, causal, scale)


def sparse_softmax_cross_entropy(logits: TensorLike, labels: TensorLike, axis: int = -1,
                                 ignore_class: typing.Optional[int] = None, label_smoothing: float = 0.0) -> Tensor:
    """-log softmax(logits)[label]: logits [n, c], class numbers [n] -> [n]; any rank. ignore_class: labels with loss 0.

    >>> troupe.nn.sparse_softmax_cross_entropy([[0., 0.]], [1])
    Tensor([0.6931472], dtype=float32)
    """
    return _troupe.sparse_softmax_cross_entropy(logits, labels, axis, ignore_class, label_smoothing)


def softmax_cross_entropy(logits: TensorLike, labels: TensorLike, axis: int = -1,
                          label_smoothing: float = 0.0) -> Tensor:
    """-sum(labels log softmax(logits)): logits and probabilities [n, c] -> [n]; any rank.

    >>> troupe.nn.softmax_cross_entropy([[0., 0.]], [[0., 1.]])
    Tensor([0.6931472], dtype=float32)
    """
    return _troupe.softmax_cross_entropy(logits, labels, axis, label_smoothing)


def sigmoid_cross_entropy(logits: TensorLike, labels: TensorLike) -> Tensor:
    """Elementwise, for independent classes.

    >>> troupe.nn.sigmoid_cross_entropy([0.], [1.])
    Tensor([0.6931472], dtype=float32)
    """
    return _troupe.sigmoid_cross_entropy(logits, labels)


def ctc_loss(logits: TensorLike, labels: TensorLike, logit_lengths: TensorLike,
             label_lengths: TensorLike, blank: int = 0) -> Tensor:
    """Connectionist temporal classification (Graves et al. 2006): logits [t, n, c], labels [n, s], lengths [n] -> [n].

    >>> troupe.nn.ctc_loss(troupe.zeros((2, 1, 3)), [[1]], [2], [1])
    Tensor([1.0986123], dtype=float32)
    """
    return _troupe.ctc_loss(logits, labels, logit_lengths, label_lengths, blank)


def shrink(x: TensorLike, bias: float = 0.0, threshold: float = 0.5) -> Tensor:
    """x + bias where x < -threshold, x - bias where x > threshold, else 0.

    >>> troupe.nn.shrink([-2., 0.25, 2.], bias=0.5)
    Tensor([-1.5,  0. ,  1.5], dtype=float32)
    """
    return _troupe.shrink(x, bias, threshold)


def hardmax(x: TensorLike, axis: int = -1) -> Tensor:
    """1 at the first maximum along an axis, else 0.

    >>> troupe.nn.hardmax([1., 3., 2.])
    Tensor([0., 1., 0.], dtype=float32)
    """
    return _troupe.hardmax(x, axis)


def separable_conv2d(x: TensorLike, depthwise: TensorLike, pointwise: TensorLike, strides: Integers = 1,
                     padding: Padding = "VALID", dilations: Integers = 1, data_format: str = "channels_last") -> Tensor:
    """depthwise_conv2d(), then a convolution by pointwise [1, 1, c multiplier, out].

    >>> filters = troupe.ones((2, 2, 2, 3)), troupe.ones((1, 1, 6, 5))
    >>> troupe.nn.separable_conv2d(troupe.ones((1, 4, 4, 2)), *filters).shape
    (1, 3, 3, 5)
    """
    mode, pads = _padding(padding, 2)
    return _troupe.separable_conv2d(x, depthwise, pointwise, _each(strides, 2), mode, pads, _each(dilations, 2),
                                    data_format)


def max_pool_with_indices(x: TensorLike, ksize: Integers = 2, strides: typing.Optional[Integers] = None,
                          padding: Padding = "VALID", data_format: str = "channels_last"
                          ) -> typing.Tuple[Tensor, Tensor]:
    """max_pool(), and the index of each maximum in x in row-major order.

    >>> troupe.nn.max_pool_with_indices([[[1.], [3.]]])
    (Tensor([[[3.]]], dtype=float32), Tensor([[[1]]], dtype=int64))
    """
    return _pool(_troupe.max_pool_with_indices, x, ksize, strides, padding, data_format)


def max_unpool(x: TensorLike, indices: TensorLike, shape: typing.Sequence[int]) -> Tensor:
    """Zeros of a shape, with each x at its index in row-major order.

    >>> troupe.nn.max_unpool([[[3.]]], [[[1]]], (1, 2, 1)).tolist()
    [[[0.0], [3.0]]]
    """
    return _troupe.max_unpool(x, indices, list(shape))


def lp_pool(x: TensorLike, p: float = 2.0, ksize: Integers = 2, strides: typing.Optional[Integers] = None,
            padding: Padding = "VALID", data_format: str = "channels_last") -> Tensor:
    """(sum of |x|^p)^(1/p) of each window of x [n, spatial..., c]. strides: by default ksize.

    >>> troupe.nn.lp_pool([[[3.], [4.]]])
    Tensor([[[5.]]], dtype=float32)
    """
    return _pool(functools.partial(_lp_pool, p), x, ksize, strides, padding, data_format)


def _lp_pool(p: float, x: TensorLike, *windows: typing.Any) -> Tensor:
    return _troupe.lp_pool(x, p, *windows)


def global_avg_pool(x: TensorLike, data_format: str = "channels_last") -> Tensor:
    """Means over all spatial axes, which stay with size 1.

    >>> troupe.nn.global_avg_pool([[[1.], [3.]]])
    Tensor([[[2.]]], dtype=float32)
    """
    return _troupe.global_avg_pool(x, data_format)


def global_max_pool(x: TensorLike, data_format: str = "channels_last") -> Tensor:
    """The greatest elements over all spatial axes, which stay with size 1.

    >>> troupe.nn.global_max_pool([[[1.], [3.]]])
    Tensor([[[3.]]], dtype=float32)
    """
    return _troupe.global_max_pool(x, data_format)


def global_lp_pool(x: TensorLike, p: float = 2.0, data_format: str = "channels_last") -> Tensor:
    """(sum of |x|^p)^(1/p) over all spatial axes, which stay with size 1.

    >>> troupe.nn.global_lp_pool([[[3.], [4.]]])
    Tensor([[[5.]]], dtype=float32)
    """
    return _troupe.global_lp_pool(x, p, data_format)


def im2col(x: TensorLike, block: typing.Sequence[int], strides: Integers = 1, dilations: Integers = 1,
           padding: Padding = 0) -> Tensor:
    """The elements of x [n, c, spatial...] below each place of a block: [n, c * elements of the block, places].

    >>> troupe.nn.im2col(troupe.ones((1, 2, 3, 3)), (2, 2)).shape
    (1, 8, 4)
    """
    axes = len(block)
    return _troupe.im2col(x, list(block), _each(strides, axes), _each(dilations, axes), _pads(padding, axes))


def col2im(columns: TensorLike, image: typing.Sequence[int], block: typing.Sequence[int], strides: Integers = 1,
           dilations: Integers = 1, padding: Padding = 0) -> Tensor:
    """The transpose of im2col(): sums columns [n, c * elements of the block, places] to images [n, c, *image].

    >>> troupe.nn.col2im(troupe.ones((1, 8, 4)), (3, 3), (2, 2)).shape
    (1, 2, 3, 3)
    """
    axes = len(block)
    return _troupe.col2im(columns, list(image), list(block), _each(strides, axes), _each(dilations, axes),
                          _pads(padding, axes))


def _pads(padding: Padding, axes: int) -> typing.List[int]:
    if isinstance(padding, str):
        raise ValueError(f"padding is a number for each axis, or pairs, not {padding!r}")
    return _padding(padding, axes)[1]


def depth_to_space(x: TensorLike, block_size: int, data_format: str = "channels_last") -> Tensor:
    """Blocks of channels as squares of pixels: [n, h, w, c] -> [n, h block, w block, c / block^2].

    >>> troupe.nn.depth_to_space(troupe.ones((1, 2, 2, 4)), 2).shape
    (1, 4, 4, 1)
    """
    return _troupe.depth_to_space(x, block_size, data_format)


def space_to_depth(x: TensorLike, block_size: int, data_format: str = "channels_last") -> Tensor:
    """Squares of pixels as blocks of channels: [n, h, w, c] -> [n, h / block, w / block, c block^2].

    >>> troupe.nn.space_to_depth(troupe.ones((1, 4, 4, 1)), 2).shape
    (1, 2, 2, 4)
    """
    return _troupe.space_to_depth(x, block_size, data_format)


def space_to_batch(x: TensorLike, block_shape: typing.Sequence[int], paddings: Padding = 0) -> Tensor:
    """Dimensions 1, 2, ... of x, padded with zeros, cut into blocks whose places go to the front of dimension 0.
    paddings: numbers before and after each of these.

    >>> troupe.nn.space_to_batch(troupe.ones((1, 4, 4, 1)), (2, 2)).shape
    (4, 2, 2, 1)
    """
    return _troupe.space_to_batch(x, list(block_shape), _pads(paddings, len(block_shape)))


def batch_to_space(x: TensorLike, block_shape: typing.Sequence[int], crops: Padding = 0) -> Tensor:
    """The reverse of space_to_batch(), cropped.

    >>> troupe.nn.batch_to_space(troupe.ones((4, 2, 2, 1)), (2, 2)).shape
    (1, 4, 4, 1)
    """
    return _troupe.batch_to_space(x, list(block_shape), _pads(crops, len(block_shape)))


def instance_norm(x: TensorLike, scale: TensorLike, offset: TensorLike, axis: int = -1, epsilon: float = 1e-5
                  ) -> Tensor:
    """Normalisation of each channel of each example (Ulyanov et al. 2016). axis: of the channels.

    >>> troupe.nn.instance_norm([[[1.], [3.]]], [1.], [0.]).numpy().round(3).tolist()
    [[[-1.0], [1.0]]]
    """
    rows = _troupe.tensor(x)
    return _troupe.instance_norm(rows, scale, offset, axis % rows.ndim, epsilon)


def local_response_norm(x: TensorLike, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0,
                        axis: int = -1) -> Tensor:
    """x / (bias + alpha / size * sum of the squares of `size` channels around it)^beta (Krizhevsky et al. 2012).

    >>> troupe.nn.local_response_norm([[1., 1.]], 1, alpha=3.0, beta=0.5)
    Tensor([[0.5, 0.5]], dtype=float32)
    """
    rows = _troupe.tensor(x)
    return _troupe.local_response_norm(rows, size, alpha, beta, bias, axis % rows.ndim)


def lp_normalize(x: TensorLike, axis: int = -1, p: int = 2) -> Tensor:
    """x over its norm along an axis: the sum of magnitudes, p = 1, or the root of the sum of squares, p = 2.

    >>> troupe.nn.lp_normalize([3., 1.], p=1)
    Tensor([0.75, 0.25], dtype=float32)
    """
    return _troupe.lp_normalize(x, axis, p)


def mean_variance_normalize(x: TensorLike, axis: Axis = None, epsilon: float = 0.0) -> Tensor:
    """(x - mean) / (sqrt(variance) + epsilon) over axes.

    >>> troupe.nn.mean_variance_normalize([1., 3.])
    Tensor([-1.,  1.], dtype=float32)
    """
    return _troupe.mean_variance_normalize(x, axis, epsilon)


def rotary_embedding(x: TensorLike, cos: TensorLike, sin: TensorLike, interleaved: bool = False) -> Tensor:
    """Rotates pairs of elements of x [..., d] by angles with this cosine and sine [..., half], which broadcast (Su et
    al. 2021). Pairs are i and i + half; interleaved: 2i and 2i + 1.

    >>> troupe.nn.rotary_embedding([[1., 2.]], [[0.]], [[1.]])
    Tensor([[-2.,  1.]], dtype=float32)
    """
    return _troupe.rotary_embedding(x, cos, sin, interleaved)


def weighted_sigmoid_cross_entropy(logits: TensorLike, labels: TensorLike, pos_weight: float) -> Tensor:
    """sigmoid_cross_entropy() with the losses of positive labels multiplied.

    >>> troupe.nn.weighted_sigmoid_cross_entropy([0.], [1.], 2.0)
    Tensor([1.3862944], dtype=float32)
    """
    return _troupe.weighted_sigmoid_cross_entropy(logits, labels, pos_weight)


def weighted_sparse_softmax_cross_entropy(logits: TensorLike, labels: TensorLike, weights: TensorLike, axis: int = -1
                                          ) -> Tensor:
    """sparse_softmax_cross_entropy(), each loss multiplied with weights [c] at its label.

    >>> troupe.nn.weighted_sparse_softmax_cross_entropy([[0., 0.]], [1], [1., 2.])
    Tensor([1.3862944], dtype=float32)
    """
    return _troupe.weighted_sparse_softmax_cross_entropy(logits, labels, weights, axis)


def log_uniform_candidates(num_sampled: int, range_max: int, seed: int = 0) -> Tensor:
    """Random classes of [0, range_max), with repetitions, for the two losses below: class k has the probability
    log((k + 2) / (k + 1)) / log(range_max + 1), for classes in descending order of frequency. int64 [num_sampled].

    >>> troupe.nn.log_uniform_candidates(5, 100).shape
    (5,)
    """
    return _troupe.log_uniform_candidates(num_sampled, range_max, seed)


def sampled_softmax_loss(weights: TensorLike, biases: TensorLike, inputs: TensorLike, labels: TensorLike,
                         sampled: TensorLike, remove_accidental_hits: bool = True) -> Tensor:
    """Softmax cross entropy over the label and sampled classes (Jean et al. 2015): weights [classes, d], biases
    [classes], inputs [n, d], labels [n], sampled = log_uniform_candidates(count, classes) -> [n].
    remove_accidental_hits: a sampled class that is the label does not count as another.

    >>> layer, sampled = (troupe.zeros((9, 2)), troupe.zeros(9)), troupe.nn.log_uniform_candidates(4, 9)
    >>> troupe.nn.sampled_softmax_loss(*layer, troupe.ones((3, 2)), [1, 2, 3], sampled).shape
    (3,)
    """
    rows = _troupe.tensor(weights)
    return _troupe.sampled_softmax_loss(rows, biases, inputs, labels, sampled, rows.shape[0], remove_accidental_hits)


def nce_loss(weights: TensorLike, biases: TensorLike, inputs: TensorLike, labels: TensorLike, sampled: TensorLike,
             remove_accidental_hits: bool = False) -> Tensor:
    """Noise-contrastive estimation (Gutmann & Hyvärinen 2010), with the arguments of sampled_softmax_loss().

    >>> layer, sampled = (troupe.zeros((9, 2)), troupe.zeros(9)), troupe.nn.log_uniform_candidates(4, 9)
    >>> troupe.nn.nce_loss(*layer, troupe.ones((3, 2)), [1, 2, 3], sampled).shape
    (3,)
    """
    rows = _troupe.tensor(weights)
    return _troupe.nce_loss(rows, biases, inputs, labels, sampled, rows.shape[0], remove_accidental_hits)


def l2_loss(x: TensorLike) -> Tensor:
    """sum(x^2) / 2.

    >>> troupe.nn.l2_loss([3., 4.])
    Tensor(12.5, dtype=float32)
    """
    return _troupe.l2_loss(x)


def in_top_k(targets: TensorLike, predictions: TensorLike, k: int) -> Tensor:
    """Whether fewer than k predictions [n, classes] are greater than that of the target [n]: bool [n].

    >>> troupe.nn.in_top_k([0, 1], [[1., 2., 3.], [1., 2., 3.]], 2)
    Tensor([False,  True], dtype=bool)
    """
    return _troupe.in_top_k(targets, predictions, k)


def embedding_lookup_sparse(table: TensorLike, ids: typing.Union[RaggedTensor, SparseTensor],
                            weights: typing.Union[None, TensorLike, SparseTensor] = None,
                            combiner: str = "mean") -> Tensor:
    """For each row the combined rows of a table [v, d] of its ids: [rows, d]. weights: of each id; beside a
    SparseTensor of ids one with the same indices. combiner: sum, mean, or sqrtn, the sum over the root of the sum of
    squared weights. Rows without ids give zeros.

    >>> ids = troupe.RaggedTensor.from_row_lengths([0, 1, 1], [2, 1])
    >>> troupe.nn.embedding_lookup_sparse([[1., 2.], [3., 4.]], ids)
    Tensor([[2., 3.],
            [3., 4.]], dtype=float32)
    """
    if isinstance(weights, SparseTensor):
        weights = sparse_to_ragged(weights).values
    rows = sparse_to_ragged(ids) if isinstance(ids, SparseTensor) else ids
    return _troupe.embedding_lookup_sparse(table, rows.values, rows.row_splits, weights, combiner)


# Of the functions below: f, g and h of the formulas, by name or as (name, alpha, beta).
Activations = typing.Sequence[typing.Union[str, typing.Tuple[str, float, float]]]


def _activations(activations: Activations) -> typing.List[typing.Tuple[str, float, float]]:
    return [(a, 0.0, 0.0) if isinstance(a, str) else (a[0], float(a[1]), float(a[2])) for a in activations]


def rnn(x: TensorLike, w: TensorLike, r: TensorLike, bias: typing.Optional[TensorLike] = None,
        lengths: typing.Optional[TensorLike] = None, initial_h: typing.Optional[TensorLike] = None,
        direction: str = "forward", batch_major: bool = False, activations: Activations = (), clip: float = 0.0
        ) -> typing.Tuple[Tensor, Tensor]:
    """A recurrent layer over whole sequences, h' = tanh(x w' + h r' + bias): x [steps, batch, inputs], w [directions,
    units, inputs], r [directions, units, units] -> all states y [steps, directions, batch, units], and the last ones
    [directions, batch, units].

    bias: [directions, 2 units], of w, then of r. lengths: [batch], the steps of each sequence; y is 0 after them.
    direction: forward, reverse or bidirectional. batch_major: the batch comes first in x, y and states. activations:
    relu, tanh, sigmoid, affine, leaky_relu, ..., one set for all directions or one for each. clip: limits what they
    are applied to. Weights are those of ONNX.

    >>> y, h = troupe.nn.rnn(troupe.ones((5, 2, 3)), troupe.ones((1, 4, 3)), troupe.ones((1, 4, 4)))
    >>> y.shape, h.shape
    ((5, 1, 2, 4), (1, 2, 4))
    """
    return _troupe.rnn(x, w, r, bias, lengths, initial_h, direction, batch_major, _activations(activations), clip)


def gru(x: TensorLike, w: TensorLike, r: TensorLike, bias: typing.Optional[TensorLike] = None,
        lengths: typing.Optional[TensorLike] = None, initial_h: typing.Optional[TensorLike] = None,
        direction: str = "forward", batch_major: bool = False, activations: Activations = (), clip: float = 0.0,
        reset_after: bool = False) -> typing.Tuple[Tensor, Tensor]:
    """A gated recurrent layer (Cho et al. 2014), with the arguments of rnn(): w [directions, 3 units, inputs] and r
    [directions, 3 units, units] have the gates z, r, h; bias [directions, 6 units]. reset_after: the reset gate is
    applied after the product with r, as Keras's and PyTorch's.

    >>> y, h = troupe.nn.gru(troupe.ones((5, 2, 3)), troupe.ones((1, 12, 3)), troupe.ones((1, 12, 4)))
    >>> y.shape, h.shape
    ((5, 1, 2, 4), (1, 2, 4))
    """
    return _troupe.gru(x, w, r, bias, lengths, initial_h, direction, batch_major, _activations(activations), clip,
                       reset_after)


def lstm(x: TensorLike, w: TensorLike, r: TensorLike, bias: typing.Optional[TensorLike] = None,
         lengths: typing.Optional[TensorLike] = None, initial_h: typing.Optional[TensorLike] = None,
         initial_c: typing.Optional[TensorLike] = None, peepholes: typing.Optional[TensorLike] = None,
         direction: str = "forward", batch_major: bool = False, activations: Activations = (), clip: float = 0.0,
         input_forget: bool = False) -> typing.Tuple[Tensor, Tensor, Tensor]:
    """A long short-term memory (Hochreiter & Schmidhuber 1997), with the arguments of rnn(): w [directions, 4 units,
    inputs] and r [directions, 4 units, units] have the gates i, o, f, c; bias [directions, 8 units]; also returns the
    last cells. peepholes: [directions, 3 units], of i, o, f. input_forget: the forget gate is 1 - i.

    >>> y, h, c = troupe.nn.lstm(troupe.ones((5, 2, 3)), troupe.ones((1, 16, 3)), troupe.ones((1, 16, 4)))
    >>> y.shape, h.shape, c.shape
    ((5, 1, 2, 4), (1, 2, 4), (1, 2, 4))
    """
    return _troupe.lstm(x, w, r, bias, lengths, initial_h, initial_c, peepholes, direction, batch_major,
                        _activations(activations), clip, input_forget)
