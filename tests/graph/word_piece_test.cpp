// Pieces of words. tests/python/word_piece_test.py compares all characters with an implementation in Python.
#include "troupe/graph/word_piece.hpp"

#include <gtest/gtest.h>

#include "tests/error_of.hpp"

namespace troupe::testing {
namespace {

using Pieces = std::vector<std::string>;
using Numbers = std::vector<std::int64_t>;

Pieces folded_words(std::string_view text) {
  Pieces out;
  texts::each_folded_word(text, [&](std::string_view word) { out.emplace_back(word); });
  return out;
}

const Pieces& vocabulary() {
  static const Pieces pieces{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "##a", "a", ",", "é"};
  return pieces;
}

TEST(WordPiece, WordsLoseCaseMarksAndControlCharacters) {
  EXPECT_EQ(folded_words("  Crème\tBRÛLÉE,İ\n"), (Pieces{"creme", "brulee", ",", "i"}));
  EXPECT_EQ(folded_words("ab\u200bc\x01 \u3000 x\u2028y"), (Pieces{"abc", "x", "y"}));
  EXPECT_EQ(folded_words("中文a字"), (Pieces{"中", "文", "a", "字"}));
  EXPECT_EQ(folded_words("각"), (Pieces{"\u1100\u1161\u11a8"}));
  EXPECT_EQ(folded_words("a\u037eb—c$"), (Pieces{"a", ";", "b", "—", "c", "$"}));
}

TEST(WordPiece, BytesThatAreNoCharacterAreLeftOut) {
  EXPECT_EQ(folded_words("a\xff"
                         "b \xe4\xb8"),
            (Pieces{"ab"}));
  EXPECT_EQ(folded_words("a\xed\xa0\x80"
                         "b"),
            (Pieces{"ab"}));  // a surrogate
  EXPECT_EQ(folded_words("a\xf4\x90\x80\x80"
                         "b"),
            (Pieces{"ab"}));  // above 0x10ffff
  EXPECT_EQ(folded_words("a\xc0\xaf\xe0\x80\xaf"
                         "b"),
            (Pieces{"ab"}));  // a slash, written too long
}

TEST(WordPiece, TheLongestPiecesComeFirst) {
  const texts::WordPieces pieces(vocabulary());
  EXPECT_EQ(pieces.numbers("Unaffable, a", 64), (Numbers{2, 4, 5, 6, 9, 8, 3}));
  EXPECT_EQ(pieces.numbers("aaa unx", 64), (Numbers{2, 8, 7, 7, 1, 3}));
  EXPECT_EQ(pieces.numbers("", 64), (Numbers{2, 3}));
  EXPECT_EQ(pieces.numbers("a [SEP]", 64), (Numbers{2, 8, 1, 1, 1, 3}));
}

TEST(WordPiece, RowsAreCutBeforeTheirEnd) {
  const texts::WordPieces pieces(vocabulary());
  EXPECT_EQ(pieces.numbers("unaffable a", 4), (Numbers{2, 4, 5, 3}));
  EXPECT_EQ(pieces.numbers("unaffable a", 2), (Numbers{2, 3}));
}

TEST(WordPiece, WordsOfMoreThanAHundredCharactersAreUnknown) {
  const texts::WordPieces pieces(vocabulary());
  EXPECT_EQ(pieces.numbers(std::string(100, 'a'), 256).size(), 102u);
  EXPECT_EQ(pieces.numbers(std::string(101, 'a'), 256), (Numbers{2, 1, 3}));
}

TEST(WordPiece, VocabulariesAreChecked) {
  const auto refused = [](const Pieces& pieces) {
    return error_of([&] { const texts::WordPieces checked(pieces); }).to_string();
  };
  EXPECT_EQ(refused({"[PAD]", "[UNK]", "[CLS]", "a"}), "invalid_argument: the vocabulary of 4 pieces has no [SEP]");
  EXPECT_EQ(refused({"a", "a"}), "invalid_argument: 'a' is given twice");
  EXPECT_EQ(texts::vocabulary_of("[PAD]\r\na\n\nb"), (Pieces{"[PAD]", "a", "", "b"}));
}

}  // namespace
}  // namespace troupe::testing
