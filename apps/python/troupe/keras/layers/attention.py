"""Attention, positions and the blocks of transformers. Sequences are [n, steps, features]."""

from __future__ import annotations

import typing

import numpy as np

from .base import ActivationLike, ConstraintLike, InitializerLike, Layout, NativeLayer, RegularizerLike


def _reshape(*shape: int) -> typing.Callable[[np.ndarray], np.ndarray]:
    return lambda array: array.reshape(shape)


class MultiHeadAttention(NativeLayer):
    """Attention of queries to keys: [n, queries, features]. Called as layer(query, value, key=None,
    attention_mask=None, use_causal_mask=False); the mask is bool [n, keys] or [n, queries, keys], true where there is
    attention.

    >>> from troupe.keras import Input
    >>> x = Input((7, 16))
    >>> MultiHeadAttention(num_heads=4, key_dim=4)(x, x).shape
    (None, 7, 16)
    """

    _kv_heads = 0

    def __init__(self, num_heads: int, key_dim: int, value_dim: typing.Optional[int] = None, dropout: float = 0.0,
                 use_bias: bool = True, output_shape: typing.Any = None, attention_axes: typing.Any = None,
                 kernel_initializer: InitializerLike = "glorot_uniform", bias_initializer: InitializerLike = "zeros",
                 kernel_regularizer: RegularizerLike = None, bias_regularizer: RegularizerLike = None,
                 activity_regularizer: RegularizerLike = None, kernel_constraint: ConstraintLike = None,
                 bias_constraint: ConstraintLike = None, seed: typing.Optional[int] = None, **kwargs: typing.Any):
        for name in ("sliding_window", "flash_attention", "use_gate"):
            if kwargs.pop(name, None):
                raise ValueError(f"{type(self).__name__}: {name} is not supported")
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        if attention_axes is not None:
            raise ValueError(f"{type(self).__name__}: attention_axes is not supported: sequences are "
                             "[n, steps, features]")
        self.num_heads, self.key_dim = int(num_heads), int(key_dim)
        self.value_dim = int(value_dim or key_dim)
        self.dropout, self.seed, self.use_bias = float(dropout), int(seed or 0), bool(use_bias)
        self.features = int(output_shape[-1] if isinstance(output_shape, (list, tuple)) else output_shape or 0)
        self._options = {"kernel": self._weight("kernel", kernel_initializer, kernel_regularizer, kernel_constraint),
                         "bias": self._weight("bias", bias_initializer, bias_regularizer, bias_constraint)}

    def _configured(self, key: str) -> tuple:
        return "multi_head_attention", {
            "heads": self.num_heads, "depth": self.key_dim, "value_depth": self.value_dim, "kv_heads": self._kv_heads,
            "features": self.features, "takes_mask": "mask" in key, "causal": "causal" in key,
            "dropout": self.dropout, "seed": self.seed, "use_bias": self.use_bias, "compute": self._dtype or "",
        }, self._options

    def _inputs(self, query: typing.Any, value: typing.Any = None, key: typing.Any = None,
                query_mask: typing.Any = None, value_mask: typing.Any = None, key_mask: typing.Any = None,
                attention_mask: typing.Any = None, return_attention_scores: bool = False,
                training: typing.Optional[bool] = None, use_causal_mask: bool = False) -> typing.Tuple[list, str]:
        if return_attention_scores:
            raise ValueError(f"{type(self).__name__}: return_attention_scores is not supported")
        tensors = [query] + [t for t in (value, key) if t is not None]
        mask = attention_mask
        if mask is None:
            mask = next((m for m in (key_mask, value_mask, getattr(key, "_mask", None), getattr(value, "_mask", None))
                         if m is not None), None)
        form = ("mask," if mask is not None else "") + ("causal" if use_causal_mask else "")
        return tensors + ([] if mask is None else [mask]), form

    def _with_masks(self, results: list, tensors: list) -> typing.Any:
        out = self._packed(results)
        out._mask = tensors[0]._mask
        return out

    def _layouts(self) -> typing.Dict[str, Layout]:
        """Keras's kernels have the heads as a dimension of their own."""
        kv_heads = self._kv_heads or self.num_heads
        sizes = {"query": (self.num_heads, self.key_dim), "key": (kv_heads, self.key_dim),
                 "value": (kv_heads, self.value_dim)}
        out: typing.Dict[str, Layout] = {}
        for name, (heads, depth) in sizes.items():
            out[f"{name}_kernel"] = (_reshape(-1, heads, depth), lambda a: a.reshape(a.shape[0], -1))
            out[f"{name}_bias"] = (_reshape(heads, depth), _reshape(-1))
        out["output_kernel"] = (_reshape(self.num_heads, self.value_dim, -1), lambda a: a.reshape(-1, a.shape[-1]))
        return out


class GroupQueryAttention(MultiHeadAttention):
    """Attention whose heads share keys and values in groups."""

    def __init__(self, head_dim: int, num_query_heads: int, num_key_value_heads: int, dropout: float = 0.0,
                 use_bias: bool = True, **kwargs: typing.Any):
        super().__init__(num_query_heads, head_dim, dropout=dropout, use_bias=use_bias, **kwargs)
        self._kv_heads = int(num_key_value_heads)


class PositionEncoding(NativeLayer):
    """x + sines and cosines of the positions (Vaswani et al. 2017)."""

    _supports_masking = True

    def __init__(self, max_wavelength: float = 10000.0, **kwargs: typing.Any):
        super().__init__(**kwargs)
        self.max_wavelength = float(max_wavelength)

    def _configured(self, key: str) -> tuple:
        return "position_encoding", {"max_wavelength": self.max_wavelength}


class PositionEmbedding(NativeLayer):
    """x + the first rows of a learnt table [sequence_length, features]."""

    _supports_masking = True

    def __init__(self, sequence_length: int, initializer: InitializerLike = "glorot_uniform", **kwargs: typing.Any):
        super().__init__(**kwargs)
        self.sequence_length = int(sequence_length)
        self._options = {"table": self._weight("table", initializer)}

    def _configured(self, key: str) -> tuple:
        return "position_embedding", {"max_steps": self.sequence_length}, self._options


class RotaryEmbedding(NativeLayer):
    """Rotates pairs of features of x [..., steps, features] by angles of the positions (Su et al. 2021)."""

    _supports_masking = True

    def __init__(self, max_wavelength: float = 10000.0, interleaved: bool = False, **kwargs: typing.Any):
        super().__init__(**kwargs)
        self.max_wavelength, self.interleaved = float(max_wavelength), bool(interleaved)

    def _configured(self, key: str) -> tuple:
        return "rotary", {"base": self.max_wavelength, "interleaved": self.interleaved}


class TransformerEncoder(NativeLayer):
    """Self-attention and two dense layers, intermediate_dim wide inside, each with a sum around it.

    >>> from troupe.keras import Input
    >>> TransformerEncoder(intermediate_dim=32, num_heads=4)(Input((7, 16))).shape
    (None, 7, 16)
    """

    _supports_masking = True
    _kind = "transformer_encoder"

    def __init__(self, intermediate_dim: int, num_heads: int, dropout: float = 0.0, activation: ActivationLike = "relu",
                 layer_norm_epsilon: float = 1e-5, normalize_first: bool = False, causal: bool = False, seed: int = 0,
                 **kwargs: typing.Any):
        super().__init__(**kwargs)
        self.intermediate_dim, self.num_heads = int(intermediate_dim), int(num_heads)
        self.dropout, self.seed = float(dropout), int(seed)
        self.activation = self._activation(activation)
        self.layer_norm_epsilon = float(layer_norm_epsilon)
        self.normalize_first, self.causal = bool(normalize_first), bool(causal)

    def _configured(self, key: str) -> tuple:
        return self._kind, {"heads": self.num_heads, "hidden": self.intermediate_dim,
                            "norm_first": self.normalize_first, "causal": self.causal, "activation": self.activation,
                            "dropout": self.dropout, "seed": self.seed, "epsilon": self.layer_norm_epsilon}

    def _inputs(self, inputs: typing.Any, padding_mask: typing.Any = None,
                training: typing.Optional[bool] = None) -> typing.Tuple[list, str]:
        mask = getattr(inputs, "_mask", None) if padding_mask is None else padding_mask
        return ([inputs] if mask is None else [inputs, mask]), ""


class TransformerDecoder(TransformerEncoder):
    """Causal self-attention, attention to an encoder's result if given, and two dense layers."""

    _kind = "transformer_decoder"

    def _inputs(self, decoder_sequence: typing.Any,  # type: ignore[override]  # by the names of Keras
                encoder_sequence: typing.Any = None, encoder_padding_mask: typing.Any = None,
                training: typing.Optional[bool] = None) -> typing.Tuple[list, str]:
        tensors = [decoder_sequence] + ([] if encoder_sequence is None else [encoder_sequence])
        mask = getattr(encoder_sequence, "_mask", None) if encoder_padding_mask is None else encoder_padding_mask
        return tensors + ([] if mask is None else [mask]), ""


GroupedQueryAttention = GroupQueryAttention
