"""WordPiece against BERT's tokenizer as its paper's code describes it, written anew here with unicodedata."""

import random
import unicodedata

import numpy as np
import pytest
import troupe

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
IDEOGRAPHS = [(0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)]
IDEOGRAPHS += [(0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0x2F800, 0x2FA1F)]


def is_punctuation(c):
    return unicodedata.category(c).startswith("P") or ("!" <= c <= "~" and not c.isalnum())


def words_of(text):
    clean = ""
    for c in text:
        if c in "\t\n\r" or unicodedata.category(c).startswith("Z"):
            clean += " "
        elif c == "\ufffd" or unicodedata.category(c) in ("Cc", "Cf"):
            continue
        elif any(low <= ord(c) <= high for low, high in IDEOGRAPHS):
            clean += f" {c} "
        else:
            clean += c
    lower = "".join(c.lower() for c in clean)
    plain = "".join(c for c in unicodedata.normalize("NFD", lower) if unicodedata.category(c) != "Mn")
    return "".join(f" {c} " if is_punctuation(c) else c for c in plain).split(" ")


def pieces_of(word, places):
    pieces, begin = [], 0
    while begin < len(word):
        prefix = "##" if begin else ""
        fitting = (end for end in range(len(word), begin, -1) if prefix + word[begin:end] in places)
        end = next(fitting, None)
        if end is None or len(word) > 100:
            return [places["[UNK]"]]
        pieces.append(places[prefix + word[begin:end]])
        begin = end
    return pieces


def numbers_of(text, vocabulary, length):
    places = {piece: place for place, piece in enumerate(vocabulary)}
    pieces = [number for word in words_of(text) for number in pieces_of(word, places)]
    return [places["[CLS]"], *pieces[: length - 2], places["[SEP]"]]


def vocabulary_of(texts, draws):
    """Some beginnings and middles of the texts' words."""
    words = sorted({word for text in texts for word in words_of(text) if word})
    pieces = set(words[::3])
    for word in words:
        for prefix, part in (("", word[: draws.randint(1, 4)]), ("##", word[draws.randint(1, 3) :][:3])):
            if part and draws.random() < 0.8:
                pieces.add(prefix + part)
    return SPECIAL + sorted(pieces)


def run(texts, vocabulary, **options):
    g = troupe.Graph()
    x = g.placeholder("string", [None], name="x")
    ids, mask = g.op("WordPiece", [x, g.constant(np.array(vocabulary, dtype=object))], **options)
    with troupe.Session(g, threads=1) as session:
        return session.run({x: np.array(texts, dtype=object)}, [ids, mask])


def check(texts, vocabulary, length, expected=numbers_of):
    ids, mask = run(texts, vocabulary, length=length)
    assert ids.shape == mask.shape == (len(texts), length)
    for text, row, kept in zip(texts, ids, mask):
        numbers = expected(text, vocabulary, length)
        assert row.tolist() == numbers + [vocabulary.index("[PAD]")] * (length - len(numbers)), repr(text)
        assert kept.tolist() == [i < len(numbers) for i in range(length)]


TEXTS = [
    "",
    "Hello, World! unaffable\tUNAFFABLE\n",
    "\u00c0 la carte: CR\u00c8ME br\u00fbl\u00e9e, \u00c5ngstr\u00f6m, \u0130stanbul \u1e9e",
    "\u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2",
    "\u4e2d\u6587\u5b57abc\u5b57 \uf900\U0002f800",
    "\ud55c\uad6d\uc5b4 \uac00\uac01",
    "\u0928\u093f \u0929 \u09cb \u1b06",
    "zero\u200bwidth soft\u00adhyphen \u2028line \u3000 wide \x00null \x07bell \ufffd",
    "\u037e \u1fef \u226e $5+3=8 ^_^ `x` \u2014 \u00bfqu\u00e9? \u00ab\u00bb",
    "a" * 100 + " " + "b" * 101 + " " + "\u00e9" * 100,
    "[CLS] [SEP] ##a",
]


def test_texts_are_cut_as_berts_tokenizer_cuts_them():
    draws = random.Random(1)
    vocabulary = vocabulary_of(TEXTS, draws)
    for length in (2, 3, 8, 64):
        check(TEXTS, vocabulary, length)


def test_each_character_is_folded_alike():
    draws = random.Random(2)
    codes = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) != "Cn"]
    texts = ["".join(chr(c) + "a" for c in codes[at : at + 500]) for at in range(0, len(codes), 500) if at < 50000]
    texts += ["".join(chr(draws.choice(codes)) for _ in range(60)) for _ in range(200)]
    # The marks that are kept and that NFD puts in another order are left where they are.
    moved = [c for c in codes if unicodedata.combining(chr(c)) and unicodedata.category(chr(c)) != "Mn"]
    texts = ["".join(c for c in text if ord(c) not in moved) for text in texts]
    words = sorted({c for text in texts for word in words_of(text) for c in word})
    vocabulary = SPECIAL + words + ["##" + c for c in words]
    check(texts, vocabulary, 2000)


def test_rows_are_as_long_as_the_longest_if_they_are_not_padded():
    vocabulary = [*SPECIAL, "a", "##a"]
    ids, mask = run(["a", "aaa a"], vocabulary, length=16, pad=False)
    assert ids.tolist() == [[2, 5, 3, 0, 0, 0], [2, 5, 6, 6, 5, 3]]
    assert mask.sum(axis=1).tolist() == [3, 6]


def test_bytes_that_are_no_characters_are_left_out():
    draws = random.Random(3)
    vocabulary = [*SPECIAL, "a", "##a", "##b"]
    texts = [b"a\xffb", b"\xe4\xb8", b"a\xed\xa0\x80a", b"a\xf4\x90\x80\x80\xc0\xaf\xe0\x80\xafb", b"\xf0\x9f\x98"]
    ids, _ = run(texts, vocabulary, length=5)
    assert ids.tolist() == [[2, 5, 7, 3, 0], [2, 3, 0, 0, 0], [2, 5, 6, 3, 0], [2, 5, 7, 3, 0], [2, 3, 0, 0, 0]]
    noise = [bytes(draws.randrange(256) for _ in range(draws.randrange(50))) for _ in range(300)]
    ids, _ = run(noise, [*vocabulary, "##\udc80".encode("utf-8", "surrogateescape"), b"\xc3"], length=64)
    assert ids.min() >= 0 and ids.max() < len(vocabulary) + 2


@pytest.mark.parametrize(
    "vocabulary, message", [(SPECIAL[1:], r"no \[PAD\]"), ([*SPECIAL, "a", "a"], "'a' is given twice")])
def test_vocabularies_are_checked(vocabulary, message):
    with pytest.raises(troupe.Error, match=message):
        run(["a"], vocabulary, length=4)
    with pytest.raises((troupe.Error, ValueError), match="length"):
        run(["a"], SPECIAL, length=1)


def test_it_agrees_with_the_tokenizers_package(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = vocabulary_of(TEXTS, random.Random(4))
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    theirs = tokenizers.BertWordPieceTokenizer(str(tmp_path / "vocab.txt"))

    def expected(text, vocabulary, length):
        theirs.enable_truncation(length)
        return theirs.encode(text).ids

    check([t for t in TEXTS if "[" not in t], vocabulary, 64, expected)
