// Texts cut into words: what the text ops, layers::text_vectorization() and texts::vectorize() of pipelines share.
// Case, white space and punctuation are those of ASCII; all other bytes are letters.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <troupe/messages/function_ref.hpp>

namespace troupe::texts {

constexpr bool is_ascii_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
constexpr bool is_ascii_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}
constexpr char ascii_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
constexpr char ascii_upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

std::string lower(std::string_view text);
std::string upper(std::string_view text);
// Without white space before and after it.
std::string_view stripped(std::string_view text);
// Between occurrences of `separator`; with "", between runs of white space.
void split_text(std::string_view text, std::string_view separator, FunctionRef<void(std::string_view)> part);
// The characters of UTF-8; a byte that belongs to none is one.
void split_characters(std::string_view text, FunctionRef<void(std::string_view)> character);
// Runs of low to high words, joined by a separator: first all of the shortest. `gram`: valid during the call.
void make_ngrams(std::span<const std::string_view> words, std::int64_t low, std::int64_t high,
                 std::string_view separator, FunctionRef<void(std::string_view gram)> gram);

struct WordOptions {
  bool lower = true;
  bool strip_punctuation = true;  // also the separator if it is one
  std::string separator{};        // between words; "": white space
  bool characters = false;        // characters are words, white space too; there is no separator
  std::int64_t ngrams = 1;        // runs of up to so many words are words, too, joined by a space
};

// What a text becomes: numbers of its words, whether each word of a vocabulary is in it, or how often.
enum class VectorOutput : std::uint8_t { ids, multi_hot, count };

// A text in lower case and without punctuation, as the options say.
std::string standardized(std::string_view text, const WordOptions& options);
// Calls `word` with each word in order; of n-grams, first all words, then all pairs, and so on. Valid during the call.
void each_word(std::string_view text, const WordOptions& options, FunctionRef<void(std::string_view)> word);

// Also looks for text that is no std::string.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
// Words and a number for each.
using WordCounts = std::unordered_map<std::string, std::int64_t, TextHash, std::equal_to<>>;

// Places of words in a vocabulary: a hash table with linear probing, at most half full.
class WordTable {
 public:
  // Throws invalid_argument for a word that is there twice, and for 2^31 words.
  explicit WordTable(std::span<const std::string> words);
  // The place of a word; -1: it is not there.
  std::int64_t find(std::string_view word) const;
  std::int64_t size() const { return std::ssize(ends_) - 1; }

 private:
  struct Slot {
    std::uint32_t hash = 0;  // its upper half
    std::int32_t place = -1;
  };
  // The slot of a word, or the empty one where it belongs.
  std::size_t slot_of(std::string_view word, std::size_t hash) const;

  std::vector<Slot> slots_;  // a power of two of them
  std::string text_{};       // of all words, one after the other
  std::vector<std::size_t> ends_{0};
};

}  // namespace troupe::texts
