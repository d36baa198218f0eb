// Words of texts.
#include "troupe/graph/words.hpp"

#include <gtest/gtest.h>

#include "tests/error_of.hpp"

namespace troupe::testing {
namespace {

using Words = std::vector<std::string>;

Words words_in(std::string_view text, const texts::WordOptions& options = {}) {
  Words out;
  texts::each_word(text, options, [&](std::string_view word) { out.emplace_back(word); });
  return out;
}

TEST(Words, AreLowerCaseWithoutPunctuation) {
  EXPECT_EQ(words_in(" The cat's\tGRÜN, \n hat! -- "), (Words{"the", "cats", "grÜn", "hat"}));
  EXPECT_EQ(words_in("The, Cat", {.lower = false}), (Words{"The", "Cat"}));
  EXPECT_EQ(words_in("The, Cat", {.strip_punctuation = false}), (Words{"the,", "cat"}));
  EXPECT_EQ(words_in(" \t"), Words{});
  EXPECT_EQ(words_in(""), Words{});
}

TEST(Words, AllOfAsciiIsALetterSpaceOrPunctuation) {
  for (int i = 0; i < 256; ++i) {
    const char c = static_cast<char>(i);
    const auto byte = static_cast<unsigned char>(c);
    EXPECT_EQ(texts::is_ascii_space(c), byte < 128 && std::isspace(byte) != 0) << i;
    EXPECT_EQ(texts::is_ascii_punctuation(c), byte < 128 && std::ispunct(byte) != 0) << i;
    EXPECT_EQ(texts::ascii_lower(c), byte < 128 ? static_cast<char>(std::tolower(byte)) : c) << i;
    EXPECT_EQ(texts::ascii_upper(c), byte < 128 ? static_cast<char>(std::toupper(byte)) : c) << i;
  }
}

TEST(Words, SeparatorsKeepEmptyWords) {
  EXPECT_EQ(words_in("b|A||", {.separator = "|"}), (Words{"ba"}));  // punctuation goes first
  EXPECT_EQ(words_in("b|A||", {.strip_punctuation = false, .separator = "|"}), (Words{"b", "a", "", ""}));
  EXPECT_EQ(words_in("one<>two", {.strip_punctuation = false, .separator = "<>"}), (Words{"one", "two"}));
}

TEST(Words, CharactersAreThoseOfUtf8) {
  EXPECT_EQ(words_in("Aé €", {.characters = true}), (Words{"a", "é", " ", "€"}));
  EXPECT_EQ(words_in("\U0001F600", {.characters = true}), (Words{"\U0001F600"}));
  // Bytes of no character.
  EXPECT_EQ(words_in("\xc3", {.characters = true}), (Words{"\xc3"}));
  EXPECT_EQ(words_in("\xe2\x82x", {.characters = true}), (Words{"\xe2", "\x82", "x"}));
  EXPECT_EQ(words_in("\xff\x80\xc0", {.characters = true}), (Words{"\xff", "\x80", "\xc0"}));
}

TEST(Words, NGramsComeAfterShorterOnes) {
  EXPECT_EQ(words_in("a b c", {.ngrams = 2}), (Words{"a", "b", "c", "a b", "b c"}));
  EXPECT_EQ(words_in("a b c", {.ngrams = 5}), (Words{"a", "b", "c", "a b", "b c", "a b c"}));
  EXPECT_EQ(words_in("ab", {.characters = true, .ngrams = 2}), (Words{"a", "b", "a b"}));
  EXPECT_EQ(words_in("", {.ngrams = 2}), Words{});
}

TEST(Words, TablesFindPlaces) {
  const texts::WordTable table(Words{"b", "a", ""});
  EXPECT_EQ(table.size(), 3);
  EXPECT_EQ(table.find(std::string_view("ab").substr(0, 1)), 1);
  EXPECT_EQ(table.find(""), 2);
  EXPECT_EQ(table.find("c"), -1);
  EXPECT_EQ(texts::WordTable({}).find("a"), -1);
  EXPECT_EQ(error_of([] {
              texts::WordTable(Words{"b", "a", "b"});
            }).to_string(),
            "invalid_argument: 'b' is given twice");
}

TEST(Words, LargeTablesFindAllPlacesAndNoOthers) {
  Words words;
  for (int i = 0; i < 30'000; ++i) words.push_back("w" + std::to_string(i * 7919));
  const texts::WordTable table(words);
  for (std::size_t i = 0; i < words.size(); ++i) {
    ASSERT_EQ(table.find(words[i]), static_cast<std::int64_t>(i));
    ASSERT_EQ(table.find(words[i] + "x"), -1);
  }
}

}  // namespace
}  // namespace troupe::testing
