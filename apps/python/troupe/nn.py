"""Functions of neural networks: activations, convolutions, pools, normalisations, losses of each example."""

from __future__ import annotations

import typing

from . import _troupe
from ._core import Axis, Tensor, TensorLike

__all__ = [
    "attention", "avg_pool", "batch_norm", "bias_add", "celu", "conv1d", "conv2d", "conv3d", "conv_transpose",
    "ctc_loss", "depthwise_conv2d", "dropout", "elu", "gelu", "group_norm", "hard_sigmoid", "hard_swish",
    "l2_normalize", "layer_norm", "leaky_relu", "log_softmax", "max_pool", "mish", "moments", "prelu", "relu",
    "relu6", "resize", "rms_norm", "selu", "sigmoid", "sigmoid_cross_entropy", "silu", "softmax",
    "softmax_cross_entropy", "softplus", "softsign", "sparse_softmax_cross_entropy", "tanh", "thresholded_relu",
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


def _pool(pool: typing.Callable[..., Tensor], x: TensorLike, ksize: Integers, strides: typing.Optional[Integers],
          padding: Padding, data_format: str) -> Tensor:
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
