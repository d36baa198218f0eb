"""Layers that turn raw features into numbers. They have no weights, but constants: given, or learnt by adapt()."""

from __future__ import annotations

import typing

import numpy as np

from ... import _troupe
from ..._core import TensorLike
from .. import _arrays
from .base import NativeLayer

_native = _troupe.keras


def _batches(data: typing.Any) -> typing.Iterator[np.ndarray]:
    """Arrays of a data set: one, or those of an iterable."""
    if isinstance(data, (np.ndarray, list, tuple)):
        yield np.asarray(data)
    elif hasattr(data, "__iter__"):
        for batch in data:
            yield np.asarray(_arrays.plain(batch[0] if isinstance(batch, tuple) else batch))
    else:
        yield np.asarray(data)


def _refuse(layer: NativeLayer, **given: typing.Any) -> None:
    for name, value in given.items():
        if value:
            raise ValueError(f"{type(layer).__name__}: {name} is not supported")


class Rescaling(NativeLayer):
    """scale x + offset, also of integers.

    >>> from troupe.keras import Input
    >>> Rescaling(1 / 255)(Input((28, 28), dtype="uint8")).dtype
    'float32'
    """

    _supports_masking = True

    def __init__(self, scale: float, offset: float = 0.0, **kwargs: typing.Any):
        super().__init__(**kwargs)
        self.scale, self.offset = float(scale), float(offset)

    def _configured(self, key: str) -> tuple:
        return "rescaling", {"factor": self.scale, "offset": self.offset}


class _Adapted(NativeLayer):
    """Has constants that adapt() learns."""

    def _needs(self, value: typing.Any, what: str) -> typing.Any:
        if value is None:
            raise ValueError(f"{type(self).__name__} {self.name!r} has no {what} yet: give it, or call adapt(data)")
        return value

    def _changed(self) -> None:
        if self.built:
            raise ValueError(f"{type(self).__name__} {self.name!r} is part of a model already: call adapt() before")

    def build_from(self, data: typing.Any) -> "_Adapted":
        self.adapt(data)
        return self


class Normalization(_Adapted):
    """(x - mean) / sqrt(variance) of each feature, the last dimension.

    >>> layer = Normalization()
    >>> layer.adapt(np.array([[0.0, 10.0], [2.0, 30.0]]))
    >>> layer.mean.tolist(), layer.variance.tolist()
    ([1.0, 20.0], [1.0, 100.0])
    """

    def __init__(self, axis: typing.Optional[int] = -1, mean: typing.Optional[TensorLike] = None,
                 variance: typing.Optional[TensorLike] = None, invert: bool = False, **kwargs: typing.Any):
        super().__init__(**kwargs)
        _refuse(self, invert=invert)
        if axis not in (-1, None):
            raise ValueError(f"Normalization: axis {axis} is not supported, only -1 and None")
        self.axis = axis
        self.mean = None if mean is None else np.asarray(mean, np.float32).reshape(-1)
        self.variance = None if variance is None else np.asarray(variance, np.float32).reshape(-1)

    def adapt(self, data: typing.Any) -> None:
        """Learns mean and variance of an array, or of batches of one."""
        self._changed()
        statistics = _native.FeatureStatistics()
        for batch in _batches(data):
            batch = np.asarray(batch, np.float64)
            shape = (-1, 1) if self.axis is None or batch.ndim < 2 else (-1, batch.shape[-1])
            statistics.update(_arrays.to_tensor(batch.reshape(shape)))
        self.mean, self.variance = (np.array(_arrays.to_array(t)) for t in (statistics.mean(), statistics.variance()))

    def _configured(self, key: str) -> tuple:
        return "normalization", {name: _arrays.to_tensor(self._needs(getattr(self, name), name))
                                 for name in ("mean", "variance")}

    def get_config(self) -> dict:
        return {"name": self.name, "axis": self.axis, "mean": self._needs(self.mean, "mean").tolist(),
                "variance": self._needs(self.variance, "variance").tolist()}


class Discretization(_Adapted):
    """The number of boundaries that are at most x: bins of numbers."""

    def __init__(self, bin_boundaries: typing.Optional[typing.Sequence[float]] = None,
                 num_bins: typing.Optional[int] = None, epsilon: float = 0.01, output_mode: str = "int",
                 sparse: bool = False, **kwargs: typing.Any):
        super().__init__(**kwargs)
        _refuse(self, sparse=sparse, output_mode=output_mode != "int" and output_mode)
        self.bin_boundaries = None if bin_boundaries is None else [float(b) for b in bin_boundaries]
        self.num_bins = num_bins

    def adapt(self, data: typing.Any) -> None:
        """Finds boundaries between num_bins bins of as many elements each."""
        self._changed()
        if self.num_bins is None:
            raise ValueError(f"Discretization {self.name!r}: adapt() finds boundaries of num_bins bins: give num_bins")
        values = np.concatenate([np.asarray(b, np.float64).reshape(-1) for b in _batches(data)])
        self.bin_boundaries = _native.quantiles(_arrays.to_tensor(values), self.num_bins)

    def _configured(self, key: str) -> tuple:
        return "discretization", {"boundaries": [float(b) for b in self._needs(self.bin_boundaries, "bin_boundaries")]}

    def get_config(self) -> dict:
        return {"name": self.name, "bin_boundaries": self.bin_boundaries}


class CategoryEncoding(NativeLayer):
    """Integers in [0, num_tokens) as rows of 0 and 1, or of counts."""

    def __init__(self, num_tokens: int, output_mode: str = "multi_hot", sparse: bool = False, **kwargs: typing.Any):
        super().__init__(**kwargs)
        _refuse(self, sparse=sparse)
        self.num_tokens, self.output_mode = int(num_tokens), output_mode

    def _configured(self, key: str) -> tuple:
        return "category_encoding", {"categories": self.num_tokens, "encoding": self.output_mode}


class Hashing(NativeLayer):
    """Strings or integers as numbers in [0, num_bins): the same on each machine, but others than Keras's."""

    def __init__(self, num_bins: int, mask_value: typing.Any = None, salt: typing.Optional[int] = None,
                 output_mode: str = "int", sparse: bool = False, **kwargs: typing.Any):
        super().__init__(**kwargs)
        _refuse(self, sparse=sparse, mask_value=mask_value is not None,
                output_mode=output_mode != "int" and output_mode)
        self.num_bins, self.salt = int(num_bins), int(salt or 0)

    def _configured(self, key: str) -> tuple:
        return "hashing", {"buckets": self.num_bins, "seed": self.salt}


class _Lookup(_Adapted):
    _kind = "string_lookup"
    _inverse = "string_of_lookup"

    def __init__(self, max_tokens: typing.Optional[int] = None, num_oov_indices: int = 1, mask_token: typing.Any = None,
                 oov_token: typing.Any = None, vocabulary: typing.Optional[typing.Sequence] = None,
                 invert: bool = False, output_mode: str = "int", **kwargs: typing.Any):
        for name in ("idf_weights", "sparse", "pad_to_max_tokens", "vocabulary_dtype", "encoding", "oov_method",
                     "salt"):
            kwargs.pop(name, None)
        super().__init__(**kwargs)
        _refuse(self, output_mode=output_mode != "int" and output_mode,
                invert=invert and not self._inverse)
        self.max_tokens, self.num_oov_indices, self.mask_token = max_tokens, int(num_oov_indices), mask_token
        self.invert = bool(invert)
        self._vocabulary = None if vocabulary is None else self._own_words(list(vocabulary))

    def _own_words(self, words: list) -> list:
        """Without the mask and the words for what is unknown, with which Keras's lists may begin."""
        words = [self._word(w) for w in words]
        if self.mask_token is not None and words[:1] == [self._word(self.mask_token)]:
            words = words[1:]
        return words[1:] if words[:1] == [self._unknown] else words

    def adapt(self, data: typing.Any) -> None:
        """Learns the vocabulary of an array, or of batches: the most frequent values first."""
        self._changed()
        builder = _native.VocabularyBuilder()
        for batch in _batches(data):
            builder.update(_arrays.to_tensor(self._values(batch)))
        most = 0 if self.max_tokens is None else max(0, self.max_tokens - self.num_oov_indices - (
            self.mask_token is not None))
        self._vocabulary = self._found(builder, most)

    def get_vocabulary(self) -> list:
        """All values by number, the mask and those for unknown ones first."""
        return ([] if self.mask_token is None else [self.mask_token]) + [
            self._unknown] * self.num_oov_indices + self._needs(self._vocabulary, "vocabulary")

    def set_vocabulary(self, vocabulary: typing.Sequence) -> None:
        self._changed()
        self._vocabulary = self._own_words(list(vocabulary))

    def vocabulary_size(self) -> int:
        return len(self.get_vocabulary())

    def _configured(self, key: str) -> tuple:
        return self._inverse if self.invert else self._kind, {
            "vocabulary": self._needs(self._vocabulary, "vocabulary"), "out_of_vocabulary": self.num_oov_indices,
            "masks": self.mask_token is not None}

    def get_config(self) -> dict:
        return {"name": self.name, "vocabulary": self._vocabulary, "num_oov_indices": self.num_oov_indices,
                "mask_token": self.mask_token, "invert": self.invert}


class StringLookup(_Lookup):
    """Strings as their places in a vocabulary, or back with invert=True.

    >>> StringLookup(vocabulary=["a", "b"]).get_vocabulary()
    ['[UNK]', 'a', 'b']
    """

    _unknown = "[UNK]"

    def _word(self, word: typing.Any) -> str:
        return word.decode() if isinstance(word, bytes) else str(word)

    def _values(self, batch: np.ndarray) -> np.ndarray:
        return batch.reshape(-1)

    def _found(self, builder: _native.VocabularyBuilder, most: int) -> list:
        return builder.strings(most)


class IntegerLookup(_Lookup):
    """Integers as their places in a vocabulary."""

    _kind, _inverse, _unknown = "integer_lookup", "", -1

    def _word(self, word: typing.Any) -> int:
        return int(word)

    def _values(self, batch: np.ndarray) -> np.ndarray:
        return np.asarray(batch, np.int64).reshape(-1)

    def _found(self, builder: _native.VocabularyBuilder, most: int) -> list:
        return builder.integers(most)


class TextVectorization(_Adapted):
    """Texts [n] or [n, 1] as numbers of words [n, length]: 0 is padding, 1 an unknown word.

    >>> layer = TextVectorization(output_sequence_length=4)
    >>> layer.adapt(np.array(["the cat", "the dog sat"]))
    >>> layer.get_vocabulary()[:3]
    ['', '[UNK]', 'the']
    """

    def __init__(self, max_tokens: typing.Optional[int] = None,
                 standardize: typing.Optional[str] = "lower_and_strip_punctuation", split: str = "whitespace",
                 ngrams: typing.Optional[int] = None, output_mode: str = "int",
                 output_sequence_length: typing.Optional[int] = None, pad_to_max_tokens: bool = False,
                 vocabulary: typing.Optional[typing.Sequence] = None, idf_weights: typing.Any = None,
                 sparse: bool = False, ragged: bool = False, encoding: str = "utf-8", **kwargs: typing.Any):
        super().__init__(**kwargs)
        _refuse(self, sparse=sparse, ragged=ragged, idf_weights=idf_weights is not None,
                pad_to_max_tokens=pad_to_max_tokens)
        modes = {"int": "ids", "multi_hot": "multi_hot", "count": "count"}
        if output_mode not in modes:
            raise ValueError(f"TextVectorization: output_mode {output_mode!r} is none of {', '.join(modes)}")
        if standardize not in ("lower_and_strip_punctuation", "lower", "strip_punctuation", None):
            raise ValueError("TextVectorization: a standardize of your own is not supported: map the texts before")
        if split not in ("whitespace",):
            raise ValueError(f"TextVectorization: split {split!r} is not supported, only 'whitespace'")
        if isinstance(ngrams, tuple):
            raise ValueError("TextVectorization: ngrams must be a number: all runs of up to so many words")
        self.max_tokens, self.standardize, self.ngrams = max_tokens, standardize, ngrams
        self.output_mode, self.output_sequence_length = output_mode, output_sequence_length
        self._mode = modes[output_mode]
        self._vocabulary = None if vocabulary is None else self._own_words(list(vocabulary))

    @staticmethod
    def _own_words(words: list) -> list:
        words = [w.decode() if isinstance(w, bytes) else str(w) for w in words]
        return [w for i, w in enumerate(words) if not (i < 2 and w in ("", "[UNK]"))]

    def adapt(self, data: typing.Any) -> None:
        """Learns the vocabulary of an array of texts, or of batches: the most frequent words first."""
        self._changed()
        builder = _native.VocabularyBuilder()
        for batch in _batches(data):
            builder.add_words(_arrays.to_tensor(np.asarray(batch).reshape(-1)), **self._text_options())
        special = 2 if self._mode == "ids" else 1
        self._vocabulary = builder.strings(0 if self.max_tokens is None else max(0, self.max_tokens - special))

    def _text_options(self) -> dict:
        return {"lower": self.standardize in ("lower_and_strip_punctuation", "lower"),
                "strip_punctuation": self.standardize in ("lower_and_strip_punctuation", "strip_punctuation"),
                "ngrams": int(self.ngrams or 1)}

    def get_vocabulary(self, include_special_tokens: bool = True) -> list:
        """All words by number."""
        special = ["", "[UNK]"] if self._mode == "ids" else ["[UNK]"]
        return (special if include_special_tokens else []) + self._needs(self._vocabulary, "vocabulary")

    def set_vocabulary(self, vocabulary: typing.Sequence) -> None:
        self._changed()
        self._vocabulary = self._own_words(list(vocabulary))

    def vocabulary_size(self) -> int:
        return len(self.get_vocabulary())

    def _configured(self, key: str) -> tuple:
        return "text_vectorization", {
            "vocabulary": self._needs(self._vocabulary, "vocabulary"), "output": self._mode,
            "length": int(self.output_sequence_length or 0), **self._text_options()}

    def get_config(self) -> dict:
        return {"name": self.name, "standardize": self.standardize, "ngrams": self.ngrams,
                "output_mode": self.output_mode, "output_sequence_length": self.output_sequence_length,
                "vocabulary": self._vocabulary}


class WordPiece(NativeLayer):
    """Texts as numbers of the pieces of words that BERT's uncased models have: numbers, types, and a mask."""

    def __init__(self, vocabulary: typing.Sequence[str], length: int, pad: bool = True, **kwargs: typing.Any):
        super().__init__(**kwargs)
        self.vocabulary, self.length, self.pad = list(vocabulary), int(length), bool(pad)

    def _configured(self, key: str) -> tuple:
        return "word_piece", {"vocabulary": self.vocabulary, "length": self.length, "pad": self.pad}
