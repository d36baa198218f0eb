#!/usr/bin/env python3
"""Writes graph/unicode_tables.cpp, the properties of characters that WordPiece needs, from Python's unicodedata:

tools/unicode_tables.py | clang-format --assume-filename=a.cpp > graph/unicode_tables.cpp
"""

import unicodedata

HANGUL = range(0xAC00, 0xD7A4)  # decomposed by rule (The Unicode Standard, section 3.12)
CHARACTERS = [c for c in range(0x110000) if c not in range(0xD800, 0xE000)]


def folded(code):
    """Lower case, then NFD without marks."""
    parts = unicodedata.normalize("NFD", chr(code).lower())
    return "".join(c for c in parts if unicodedata.category(c) != "Mn")


def ranges(name, categories):
    found = []
    for code in CHARACTERS:
        if not unicodedata.category(chr(code)).startswith(categories):
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    rows = ",".join(f"{{0x{a:x},0x{b:x}}}" for a, b in found)
    return f"constexpr CharacterRange {name}[]={{{rows}}};\n"


def literal(text):
    """Adjacent literals of at most 104 bytes, which is how clang-format 14 measures lines with characters that it does
    not know; what cannot be read from left to right is escaped."""
    lines, line = [], ""
    for c in text:
        plain = c == " " or (c.isprintable() and unicodedata.bidirectional(c) in ("L", "ON") and c not in '"\\')
        piece = c if plain else f"\\U{ord(c):08x}"
        if len((line + piece).encode()) > 104:
            lines.append(line)
            line = ""
        line += piece
    return "".join(f'U"{part}"\n' for part in [*lines, line])


def main():
    folds = {c: folded(c) for c in CHARACTERS if c not in HANGUL}
    folds = {c: text for c, text in folds.items() if text and text != chr(c)}
    single = [c for c, text in folds.items() if len(text) == 1]
    blocks = []  # [first, text], a space for a character that stays
    for code in single:
        if not blocks or code - blocks[-1][0] - len(blocks[-1][1]) > 8:
            blocks.append([code, ""])
        first, text = blocks[-1]
        blocks[-1][1] = text + " " * (code - first - len(text)) + folds[code]
    print(f"// Of Unicode {unicodedata.unidata_version}: written by tools/unicode_tables.py.")
    print('#include "troupe/graph/unicode_tables.hpp"\n\nnamespace troupe::texts {\nnamespace {\n')
    print(ranges("kMarks", ("Mn",)))
    print(ranges("kPunctuation", ("P",)))
    print(ranges("kControls", ("Cc", "Cf")))
    print(ranges("kSpaces", ("Z",)))
    rows = ",".join(f"{{0x{first:x},{literal(text)}}}" for first, text in blocks)
    print(f"constexpr FoldBlock kFoldBlocks[]={{{rows}}};\n")
    several = {c: text for c, text in folds.items() if len(text) > 1}
    rows = ",".join(f"{{0x{c:x},{{{','.join(hex(ord(t)) for t in text)}}}}}" for c, text in several.items())
    print(f"constexpr LongFold kLongFolds[]={{{rows}}};\n\n}}  // namespace\n")
    for function, table, row in [
        ("marks", "kMarks", "CharacterRange"),
        ("punctuation", "kPunctuation", "CharacterRange"),
        ("controls", "kControls", "CharacterRange"),
        ("spaces", "kSpaces", "CharacterRange"),
        ("fold_blocks", "kFoldBlocks", "FoldBlock"),
        ("long_folds", "kLongFolds", "LongFold"),
    ]:
        print(f"std::span<const {row}> {function}() {{ return {table}; }}")
    print("\n}  // namespace troupe::texts")


if __name__ == "__main__":
    main()
