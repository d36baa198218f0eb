"""Functions of strings with TensorFlow's names. Strings are bytes; case changes concern ASCII letters only."""

from __future__ import annotations

import typing

from . import _troupe
from ._core import DTypeLike, Tensor, TensorLike
from .ragged import RaggedTensor

__all__ = [
    "as_string", "join", "length", "lower", "ngrams", "normalize", "reduce_join", "regex_full_match",
    "regex_replace", "split", "strip", "to_hash_bucket", "to_number", "upper", "word_piece",
]


def lower(x: TensorLike) -> Tensor:
    """ASCII letters as small ones.

    >>> troupe.strings.lower(["Ab", "C"]).numpy()
    array([b'ab', b'c'], dtype=object)
    """
    return _troupe.string_lower(x)


def upper(x: TensorLike) -> Tensor:
    """ASCII letters as capital ones.

    >>> troupe.strings.upper(["Ab", "C"]).numpy()
    array([b'AB', b'C'], dtype=object)
    """
    return _troupe.string_upper(x)


def length(x: TensorLike) -> Tensor:
    """The numbers of bytes, int64.

    >>> troupe.strings.length(["abc", ""])
    Tensor([3, 0], dtype=int64)
    """
    return _troupe.string_length(x)


def strip(x: TensorLike) -> Tensor:
    """Without ASCII white space at both ends.

    >>> troupe.strings.strip([" a b "]).numpy()
    array([b'a b'], dtype=object)
    """
    return _troupe.string_strip(x)


def join(inputs: typing.Sequence[TensorLike], separator: str = "") -> Tensor:
    """The strings of all inputs, which broadcast, one after the other.

    >>> troupe.strings.join([["a", "b"], "x"], separator="-").numpy()
    array([b'a-x', b'b-x'], dtype=object)
    """
    return _troupe.string_join(list(inputs), separator)


def reduce_join(x: TensorLike, separator: str = "") -> Tensor:
    """The strings of each row [..., n] joined: [...].

    >>> troupe.strings.reduce_join([["a", "b"], ["c", "d"]], separator=" ").numpy()
    array([b'a b', b'c d'], dtype=object)
    """
    return _troupe.string_reduce_join(x, separator)


def split(x: TensorLike, sep: str = "") -> RaggedTensor:
    """The parts of each string of x [n], between occurrences of sep; "": between runs of white space.

    >>> troupe.strings.split(["a b", "c"]).values.numpy()
    array([b'a', b'b', b'c'], dtype=object)
    """
    return RaggedTensor(*_troupe.string_split(x, sep))


def ngrams(x: RaggedTensor, ngram_width: typing.Union[int, typing.Tuple[int, int]], separator: str = " "
           ) -> RaggedTensor:
    """Runs of strings of each row, joined: of one width, or of widths from the first to the second, shorter ones first.

    >>> troupe.strings.ngrams(troupe.strings.split(["a b c"]), 2).values.numpy()
    array([b'a b', b'b c'], dtype=object)
    """
    least, most = (ngram_width, ngram_width) if isinstance(ngram_width, int) else ngram_width
    return RaggedTensor(*_troupe.string_ngrams(x.values, x.row_splits, least, most, separator))


def regex_full_match(x: TensorLike, pattern: str) -> Tensor:
    """Whether a whole string matches a pattern of RE2 (https://github.com/google/re2/wiki/Syntax).

    >>> troupe.strings.regex_full_match(["a1", "b"], "[a-z][0-9]")
    Tensor([ True, False], dtype=bool)
    """
    return _troupe.regex_full_match(x, pattern)


def regex_replace(x: TensorLike, pattern: str, rewrite: str, replace_global: bool = True) -> Tensor:
    r"""Matches replaced, in which \\1 to \\9 are the groups and \\0 the match; replace_global=False: the first one.

    >>> troupe.strings.regex_replace(["a1b2"], "[0-9]", "-").numpy()
    array([b'a-b-'], dtype=object)
    """
    return _troupe.regex_replace(x, pattern, rewrite, replace_global)


def to_hash_bucket(x: TensorLike, num_buckets: int, seed: int = 0) -> Tensor:
    """A number in [0, num_buckets) for each string, the same on each machine and in each version; int64.

    >>> bool(troupe.all(troupe.strings.to_hash_bucket(["a", "b"], 10) < 10))
    True
    """
    return _troupe.string_to_hash_bucket(x, num_buckets, seed)


def as_string(x: TensorLike) -> Tensor:
    """The shortest decimal number that reads as x.

    >>> troupe.strings.as_string([1.5, 2.0]).numpy()
    array([b'1.5', b'2.0'], dtype=object)
    """
    return _troupe.as_string(x)


def to_number(x: TensorLike, dtype: DTypeLike = "float32") -> Tensor:
    """Reads numbers; InvalidArgumentError for other text.

    >>> troupe.strings.to_number(["1.5", "-inf"])
    Tensor([ 1.5, -inf], dtype=float32)
    """
    return _troupe.string_to_number(x, dtype)


def word_piece(x: TensorLike, vocabulary: TensorLike, length: int, pad: bool = True) -> typing.Tuple[Tensor, Tensor]:
    """The pieces of words of each text of x [...] as BERT's uncased models cut them: their places in a vocabulary [v],
    which has [PAD], [UNK], [CLS] and [SEP], int64 [..., length], and which of them are no padding, bool. pad=False: as
    long as the longest text, at most `length`.

    >>> ids, mask = troupe.strings.word_piece(["a b"], ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"], 6)
    >>> ids
    Tensor([[2, 4, 1, 3, 0, 0]], dtype=int64)
    """
    return _troupe.word_piece(x, vocabulary, length, pad)


def normalize(x: TensorLike, change_case: str = "none", stopwords: typing.Sequence[str] = (),
              is_case_sensitive: bool = False) -> Tensor:
    """x [c] or [1, c] without its stopwords, in another case: "lower", "upper" or "none"; one empty string if nothing
    is left. ONNX's StringNormalizer.

    >>> troupe.strings.normalize(["The", "Cat"], "lower", ["the"]).numpy()
    array([b'cat'], dtype=object)
    """
    return _troupe.string_normalizer(x, change_case, is_case_sensitive, list(stopwords))
