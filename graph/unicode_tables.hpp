// Properties of Unicode's characters, as sorted tables; written by tools/unicode_tables.py. Internal to graph.
#pragma once

#include <span>
#include <string_view>

namespace troupe::texts {

struct CharacterRange {
  char32_t first, last;
};
std::span<const CharacterRange> marks();        // category Mn
std::span<const CharacterRange> punctuation();  // P*
std::span<const CharacterRange> controls();     // Cc and Cf
std::span<const CharacterRange> spaces();       // Z*

// What characters become in lower case, decomposed (NFD) and without marks: from `first` on one for each, a space for
// one that stays.
struct FoldBlock {
  char32_t first;
  std::u32string_view becomes;
};
std::span<const FoldBlock> fold_blocks();
// Those that become two or three; 0: no character.
struct LongFold {
  char32_t from;
  char32_t to[3];
};
std::span<const LongFold> long_folds();

}  // namespace troupe::texts
