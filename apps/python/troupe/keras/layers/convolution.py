"""Convolutions and pools of one to three dimensions. Images are [n, spatial..., channels]."""

from __future__ import annotations

import typing

from ...nn import Integers
from .base import ActivationLike, ConstraintLike, InitializerLike, NativeLayer, RegularizerLike


def refuse_channels_first(layer: str, data_format: typing.Optional[str]) -> None:
    if data_format not in (None, "channels_last"):
        raise ValueError(f"{layer}: data_format {data_format!r} is not supported: images are [n, spatial..., "
                         "channels]; transpose them once, by np.moveaxis or Permute")


def per_axis(value: Integers, axes: int, what: str) -> typing.List[int]:
    """One number for each axis.

    >>> per_axis(2, 3, "strides"), per_axis((1, 2), 2, "strides")
    ([2, 2, 2], [1, 2])
    """
    if isinstance(value, int):
        return [value] * axes
    if len(value) != axes:
        raise ValueError(f"{what} must be a number or one for each of {axes} axes, not {value}")
    return [int(v) for v in value]


class _Convolution(NativeLayer):
    _axes, _kind, _transposed = 2, "conv2d", False

    def __init__(self, kernel_size: Integers, strides: Integers, padding: str, data_format: typing.Optional[str],
                 dilation_rate: Integers, groups: int, activation: ActivationLike, use_bias: bool, bias: dict,
                 kwargs: dict):
        activity = kwargs.pop("activity_regularizer", None)
        super().__init__(activity_regularizer=activity, **kwargs)
        layer = type(self).__name__
        refuse_channels_first(layer, data_format)
        self.kernel_size = per_axis(kernel_size, self._axes, f"{layer}: kernel_size")
        self.strides = per_axis(strides, self._axes, f"{layer}: strides")
        self.dilation_rate = per_axis(dilation_rate, self._axes, f"{layer}: dilation_rate")
        self.padding = padding.lower()
        allowed = ("valid", "same") + (("causal",) if self._axes == 1 and not self._transposed else ())
        if self.padding not in allowed:
            raise ValueError(f"{layer}: padding {padding!r} is none of {', '.join(allowed)}")
        self.groups = int(groups)
        self.use_bias = bool(use_bias)
        self.activation = self._activation(activation)
        self._options = {"bias": self._weight("bias", **bias)}

    def _configured(self, key: str) -> tuple:
        causal = self.padding == "causal"
        return self._kind, {"size": self.kernel_size, "strides": self.strides, "dilations": self.dilation_rate,
                            "groups": self.groups, "padding": "VALID" if causal else self.padding.upper(),
                            "causal": causal, "activation": self.activation, "use_bias": self.use_bias,
                            "compute": self._dtype or "",
                            **self._more()}, self._options

    def _more(self) -> dict:
        return {"filters": self.filters}


class _Conv(_Convolution):
    def __init__(self, filters: int, kernel_size: Integers, strides: Integers = 1, padding: str = "valid",
                 data_format: typing.Optional[str] = None, dilation_rate: Integers = 1, groups: int = 1,
                 activation: ActivationLike = None, use_bias: bool = True,
                 kernel_initializer: InitializerLike = "glorot_uniform", bias_initializer: InitializerLike = "zeros",
                 kernel_regularizer: RegularizerLike = None, bias_regularizer: RegularizerLike = None,
                 activity_regularizer: RegularizerLike = None, kernel_constraint: ConstraintLike = None,
                 bias_constraint: ConstraintLike = None, **kwargs: typing.Any):
        super().__init__(kernel_size, strides, padding, data_format, dilation_rate, groups, activation, use_bias,
                         {"initializer": bias_initializer, "regularizer": bias_regularizer,
                          "constraint": bias_constraint}, {**kwargs, "activity_regularizer": activity_regularizer})
        self.filters = int(filters)
        self._options["kernel"] = self._weight("kernel", kernel_initializer, kernel_regularizer, kernel_constraint)


class Conv1D(_Conv):
    """[n, steps, in] -> [n, steps', filters]; padding may be causal: a step depends on none after it."""

    _axes, _kind = 1, "conv1d"


class Conv2D(_Conv):
    """[n, height, width, in] -> [n, height', width', filters].

    >>> from troupe.keras import Input
    >>> Conv2D(16, 3, padding="same", activation="relu")(Input((28, 28, 1))).shape
    (None, 28, 28, 16)
    """


class Conv3D(_Conv):
    """The same of volumes."""

    _axes, _kind = 3, "conv3d"


class _ConvTranspose(_Conv):
    _transposed = True

    def __init__(self, filters: int, kernel_size: Integers, strides: Integers = 1, padding: str = "valid",
                 output_padding: typing.Any = None, data_format: typing.Optional[str] = None,
                 dilation_rate: Integers = 1, activation: ActivationLike = None, use_bias: bool = True,
                 kernel_initializer: InitializerLike = "glorot_uniform", bias_initializer: InitializerLike = "zeros",
                 kernel_regularizer: RegularizerLike = None, bias_regularizer: RegularizerLike = None,
                 activity_regularizer: RegularizerLike = None, kernel_constraint: ConstraintLike = None,
                 bias_constraint: ConstraintLike = None, **kwargs: typing.Any):
        if output_padding is not None:
            raise ValueError(f"{type(self).__name__}: output_padding is not supported: pad or crop the result")
        super().__init__(filters, kernel_size, strides, padding, data_format, dilation_rate, 1, activation, use_bias,
                         kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer,
                         activity_regularizer, kernel_constraint, bias_constraint, **kwargs)


class Conv1DTranspose(_ConvTranspose):
    """The transpose of a convolution, which makes sequences longer."""

    _axes, _kind = 1, "conv1d_transpose"


class Conv2DTranspose(_ConvTranspose):
    """The transpose of a convolution, which makes images larger.

    >>> from troupe.keras import Input
    >>> Conv2DTranspose(8, 3, strides=2, padding="same")(Input((7, 7, 4))).shape
    (None, 14, 14, 8)
    """

    _kind = "conv2d_transpose"


class Conv3DTranspose(_ConvTranspose):
    """The same of volumes."""

    _axes, _kind = 3, "conv3d_transpose"


class _Depthwise(_Convolution):
    def __init__(self, kernel_size: Integers, strides: Integers = 1, padding: str = "valid", depth_multiplier: int = 1,
                 data_format: typing.Optional[str] = None, dilation_rate: Integers = 1,
                 activation: ActivationLike = None, use_bias: bool = True,
                 depthwise_initializer: InitializerLike = "glorot_uniform", bias_initializer: InitializerLike = "zeros",
                 depthwise_regularizer: RegularizerLike = None, bias_regularizer: RegularizerLike = None,
                 activity_regularizer: RegularizerLike = None, depthwise_constraint: ConstraintLike = None,
                 bias_constraint: ConstraintLike = None, **kwargs: typing.Any):
        super().__init__(kernel_size, strides, padding, data_format, dilation_rate, 1, activation, use_bias,
                         {"initializer": bias_initializer, "regularizer": bias_regularizer,
                          "constraint": bias_constraint}, {**kwargs, "activity_regularizer": activity_regularizer})
        self.depth_multiplier = int(depth_multiplier)
        self._options["kernel"] = self._weight("kernel", depthwise_initializer, depthwise_regularizer,
                                               depthwise_constraint)

    def _more(self) -> dict:
        return {"multiplier": self.depth_multiplier}


class DepthwiseConv1D(_Depthwise):
    """Each channel with depth_multiplier filters of its own."""

    _axes, _kind = 1, "depthwise_conv1d"


class DepthwiseConv2D(_Depthwise):
    """Each channel with depth_multiplier filters of its own."""

    _kind = "depthwise_conv2d"


class _Separable(_Convolution):
    def __init__(self, filters: int, kernel_size: Integers, strides: Integers = 1, padding: str = "valid",
                 data_format: typing.Optional[str] = None, dilation_rate: Integers = 1, depth_multiplier: int = 1,
                 activation: ActivationLike = None, use_bias: bool = True,
                 depthwise_initializer: InitializerLike = "glorot_uniform",
                 pointwise_initializer: InitializerLike = "glorot_uniform", bias_initializer: InitializerLike = "zeros",
                 depthwise_regularizer: RegularizerLike = None, pointwise_regularizer: RegularizerLike = None,
                 bias_regularizer: RegularizerLike = None, activity_regularizer: RegularizerLike = None,
                 depthwise_constraint: ConstraintLike = None, pointwise_constraint: ConstraintLike = None,
                 bias_constraint: ConstraintLike = None, **kwargs: typing.Any):
        super().__init__(kernel_size, strides, padding, data_format, dilation_rate, 1, activation, use_bias,
                         {"initializer": bias_initializer, "regularizer": bias_regularizer,
                          "constraint": bias_constraint}, {**kwargs, "activity_regularizer": activity_regularizer})
        self.filters, self.depth_multiplier = int(filters), int(depth_multiplier)
        self._options["kernel"] = self._weight("kernel", depthwise_initializer, depthwise_regularizer,
                                               depthwise_constraint)
        self._options["pointwise"] = self._weight("pointwise", pointwise_initializer, pointwise_regularizer,
                                                  pointwise_constraint)

    def _more(self) -> dict:
        return {"filters": self.filters, "multiplier": self.depth_multiplier}


class SeparableConv1D(_Separable):
    """A depthwise convolution, then one of size 1."""

    _axes, _kind = 1, "separable_conv1d"


class SeparableConv2D(_Separable):
    """A depthwise convolution, then one of size 1."""

    _kind = "separable_conv2d"


class _Pool(NativeLayer):
    _axes, _kind = 2, "max_pool"

    def __init__(self, pool_size: Integers = 2, strides: typing.Optional[Integers] = None, padding: str = "valid",
                 data_format: typing.Optional[str] = None, **kwargs: typing.Any):
        super().__init__(**kwargs)
        layer = type(self).__name__
        refuse_channels_first(layer, data_format)
        self.pool_size = per_axis(pool_size, self._axes, f"{layer}: pool_size")
        self.strides = self.pool_size if strides is None else per_axis(strides, self._axes, f"{layer}: strides")
        self.padding = padding.lower()

    def _configured(self, key: str) -> tuple:
        return self._kind, {"size": self.pool_size, "strides": self.strides, "padding": self.padding.upper()}


class MaxPooling1D(_Pool):
    """The greatest of each window of steps."""

    _axes, _kind = 1, "max_pool1d"


class MaxPooling2D(_Pool):
    """The greatest of each window.

    >>> from troupe.keras import Input
    >>> MaxPooling2D(2)(Input((28, 28, 16))).shape
    (None, 14, 14, 16)
    """


class MaxPooling3D(_Pool):
    """The greatest of each window of a volume."""

    _axes, _kind = 3, "max_pool3d"


class AveragePooling1D(_Pool):
    """The mean of each window of steps."""

    _axes, _kind = 1, "average_pool1d"


class AveragePooling2D(_Pool):
    """The mean of each window."""

    _kind = "average_pool"


class AveragePooling3D(_Pool):
    """The mean of each window of a volume."""

    _axes, _kind = 3, "average_pool3d"


class _GlobalPool(NativeLayer):
    _kind = ""

    def __init__(self, data_format: typing.Optional[str] = None, keepdims: bool = False, **kwargs: typing.Any):
        super().__init__(**kwargs)
        refuse_channels_first(type(self).__name__, data_format)
        if keepdims:
            raise ValueError(f"{type(self).__name__}: keepdims is not supported: Reshape the result")

    def _configured(self, key: str) -> tuple:
        return self._kind, {}


class GlobalAveragePooling1D(_GlobalPool):
    """The mean over all steps [n, steps, c] -> [n, c], or over those of a mask."""

    _kind = "global_average_pool"

    def _inputs(self, inputs: typing.Any, mask: typing.Any = None,
                training: typing.Optional[bool] = None) -> typing.Tuple[list, str]:
        if mask is None:
            mask = getattr(inputs, "_mask", None)
        return ([inputs] if mask is None else [inputs, mask]), ""


class GlobalAveragePooling2D(_GlobalPool):
    """The mean over all positions: [n, height, width, c] -> [n, c]."""

    _kind = "global_average_pool"


class GlobalAveragePooling3D(GlobalAveragePooling2D):
    """The mean over all positions."""


class GlobalMaxPooling1D(_GlobalPool):
    """The greatest of all steps."""

    _kind = "global_max_pool"


class GlobalMaxPooling2D(GlobalMaxPooling1D):
    """The greatest of all positions."""


class GlobalMaxPooling3D(GlobalMaxPooling1D):
    """The greatest of all positions."""


Convolution1D, Convolution2D, Convolution3D = Conv1D, Conv2D, Conv3D
MaxPool1D, MaxPool2D, MaxPool3D = MaxPooling1D, MaxPooling2D, MaxPooling3D
AvgPool1D, AvgPool2D, AvgPool3D = AveragePooling1D, AveragePooling2D, AveragePooling3D
