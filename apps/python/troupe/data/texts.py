"""Functions on texts for Pipeline.map(), each of the component of strings that it names. They run without Python.

    words = texts.learn_vocabulary(reviews, "text", most=10_000)
    ids = reviews.map(texts.vectorize("text", words, length=64))
"""

from __future__ import annotations

import typing

from .. import _troupe
from .._troupe import Transformation

Words = typing.Sequence[typing.Union[str, bytes]]


def _strings(words: Words) -> typing.List[str]:
    return [w.decode() if isinstance(w, bytes) else w for w in words]


def standardize(component: str, lower: bool = True, strip_punctuation: bool = True) -> Transformation:
    """Lower case, without punctuation."""
    return _troupe.texts_standardize(component, lower, strip_punctuation)


def split(component: str, lower: bool = True, strip_punctuation: bool = True, separator: str = "",
          characters: bool = False, ngrams: int = 1) -> Transformation:
    """The words of a text: between white space or a separator, or characters."""
    return _troupe.texts_split(component, lower, strip_punctuation, separator, characters, ngrams)


def lookup(component: str, vocabulary: Words) -> Transformation:
    """Of words their places in a vocabulary, from 1; 0 for others."""
    return _troupe.texts_lookup(component, _strings(vocabulary))


def vectorize(component: str, vocabulary: Words, output: str = "ids", length: int = 0, lower: bool = True,
              strip_punctuation: bool = True, separator: str = "", characters: bool = False,
              ngrams: int = 1) -> Transformation:
    """A text to ids, cut or padded to a length (0 padding, 1 other words, 2 the first of the vocabulary); output
    "count" or "multi_hot": to how often each word is in it."""
    return _troupe.texts_vectorize(component, _strings(vocabulary), output, length, lower, strip_punctuation, separator,
                                   characters, ngrams)


def learn_vocabulary(pipeline: _troupe.Pipeline, component: str, most: int = 0, lower: bool = True,
                     strip_punctuation: bool = True, separator: str = "", characters: bool = False,
                     ngrams: int = 1) -> typing.List[str]:
    """The distinct words of a pipeline, the most frequent first; most: how many, 0: all."""
    return _troupe.texts_learn_vocabulary(pipeline, component, most, lower, strip_punctuation, separator, characters,
                                          ngrams)
