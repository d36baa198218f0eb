// WordPiece: texts as numbers of pieces of words, as BERT's uncased models cut them (Devlin et al. 2019;
// https://github.com/google-research/bert, tokenization.py).
//
// A text becomes words: control characters and what is not UTF-8 are left out; letters become lower case and lose their
// marks (NFD without category Mn); words end at white space, and characters of punctuation and of CJK's ideographs are
// words of their own. A word becomes the longest pieces of the vocabulary from its beginning on, where those that do
// not begin it are written "##piece"; one that cannot be cut so, or is longer than 100 characters, becomes [UNK]. Names
// of special tokens in a text have no meaning.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/graph/words.hpp>
#include <troupe/messages/function_ref.hpp>

namespace troupe::texts {

// The words of a text, in UTF-8. `word`: valid during the call.
void each_folded_word(std::string_view text, FunctionRef<void(std::string_view word)> word);

// A vocabulary of pieces; a piece's number is its place. Immutable.
class WordPieces {
 public:
  // Throws invalid_argument for a vocabulary that lacks [PAD], [UNK], [CLS] or [SEP], or has a piece twice.
  explicit WordPieces(std::span<const std::string> vocabulary);

  // [CLS], the first pieces of the text, and [SEP]: at most `length` numbers, at least two.
  std::vector<std::int64_t> numbers(std::string_view text, std::int64_t length) const;
  std::int64_t padding() const { return padding_; }

 private:
  void cut(std::string_view word, std::vector<std::int64_t>& out) const;

  WordTable table_;
  std::size_t longest_ = 0;  // piece, in bytes
  std::int64_t padding_ = 0, unknown_ = 0, begin_ = 0, end_ = 0;
};

// A file of pieces, one in each line, as a vocabulary. The last line may lack its end.
std::vector<std::string> vocabulary_of(std::string_view file);

}  // namespace troupe::texts
