#include "troupe/graph/word_piece.hpp"

#include <algorithm>

#include <troupe/graph/unicode_tables.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::texts {
namespace {

constexpr std::size_t kLongestWord = 100;  // characters
constexpr char32_t kReplacement = 0xfffd;

bool is_in(std::span<const CharacterRange> ranges, char32_t c) {
  const auto after = std::ranges::upper_bound(ranges, c, {}, &CharacterRange::first);
  return after != ranges.begin() && c <= std::prev(after)->last;
}

bool is_space(char32_t c) { return c < 0x80 ? c == ' ' || c == '\t' || c == '\n' || c == '\r' : is_in(spaces(), c); }
bool is_left_out(char32_t c) { return c < 0x80 ? c < ' ' || c == 0x7f : c == kReplacement || is_in(controls(), c); }
bool is_punctuation(char32_t c) {
  return c < 0x80 ? is_ascii_punctuation(static_cast<char>(c)) : is_in(punctuation(), c);
}
bool is_ideograph(char32_t c) {
  constexpr CharacterRange kBlocks[] = {{0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},   {0x20000, 0x2a6df},
                                        {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b820, 0x2ceaf}, {0x2f800, 0x2fa1f}};
  return c >= kBlocks[0].first && is_in(kBlocks, c);
}

// The character of some bytes that split_characters() found; kReplacement for bytes that are none: surrogates, numbers
// above 0x10ffff, and characters that are written too long.
char32_t code_of(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  if (bytes.size() == 1) return first < 0x80 ? first : kReplacement;
  char32_t code = first & (0x7fu >> bytes.size());
  for (const char c : bytes.substr(1)) code = (code << 6) | (static_cast<unsigned char>(c) & 0x3fu);
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool valid = code >= kLeast[bytes.size()] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
  return valid ? code : kReplacement;
}

void append(std::string& text, char32_t c) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xc0 | (c >> 6));
  } else {
    if (c < 0x10000) {
      put(0xe0 | (c >> 12));
    } else {
      put(0xf0 | (c >> 18));
      put(0x80 | ((c >> 12) & 0x3f));
    }
    put(0x80 | ((c >> 6) & 0x3f));
  }
  put(0x80 | (c & 0x3f));
}

// Hangul's syllables by rule: The Unicode Standard, section 3.12.
template <class Fn>
void decompose_hangul(char32_t syllable, const Fn& put) {
  constexpr char32_t kVowels = 21, kFinals = 28;
  put(0x1100 + syllable / (kVowels * kFinals));
  put(0x1161 + syllable / kFinals % kVowels);
  if (syllable % kFinals != 0) put(0x11a7 + syllable % kFinals);
}

// Calls `put` with what a character becomes: in lower case, decomposed, without marks. Marks that are not of category
// Mn and change places in NFD, a dozen of old scripts and of music, stay where they are.
template <class Fn>
void fold(char32_t c, const Fn& put) {
  if (c < 0x80) return put(static_cast<unsigned char>(ascii_lower(static_cast<char>(c))));
  if (c >= 0xac00 && c <= 0xd7a3) return decompose_hangul(c - 0xac00, put);
  if (is_in(marks(), c)) return;
  const auto after = std::ranges::upper_bound(fold_blocks(), c, {}, &FoldBlock::first);
  const FoldBlock& block = *std::prev(after);  // the first one begins with A
  if (const std::size_t at = c - block.first; at < block.becomes.size() && block.becomes[at] != U' ')
    return put(block.becomes[at]);
  const auto several = std::ranges::lower_bound(long_folds(), c, {}, &LongFold::from);
  if (several == long_folds().end() || several->from != c) return put(c);
  for (const char32_t part : several->to)
    if (part != 0) put(part);
}

}  // namespace

void each_folded_word(std::string_view text, FunctionRef<void(std::string_view word)> word) {
  std::string open;
  const auto close = [&] {
    if (!open.empty()) word(open);
    open.clear();
  };
  split_characters(text, [&](std::string_view bytes) {
    const char32_t c = code_of(bytes);
    if (is_space(c)) return close();
    if (is_left_out(c)) return;
    const bool ideograph = is_ideograph(c);
    if (ideograph) close();
    fold(c, [&](char32_t part) {
      const bool apart = is_punctuation(part);
      if (apart) close();
      append(open, part);
      if (apart) close();
    });
    if (ideograph) close();
  });
  close();
}

WordPieces::WordPieces(std::span<const std::string> vocabulary) : table_(vocabulary) {
  for (const std::string& piece : vocabulary) longest_ = std::max(longest_, piece.size());
  const auto special = [&](std::string_view piece) {
    const std::int64_t place = table_.find(piece);
    if (place < 0) invalid_argument("the vocabulary of {} pieces has no {}", table_.size(), piece);
    return place;
  };
  padding_ = special("[PAD]");
  unknown_ = special("[UNK]");
  begin_ = special("[CLS]");
  end_ = special("[SEP]");
}

std::vector<std::int64_t> WordPieces::numbers(std::string_view text, std::int64_t length) const {
  std::vector<std::int64_t> out{begin_};
  const auto most = static_cast<std::size_t>(std::max<std::int64_t>(length, 2)) - 1;
  each_folded_word(text, [&](std::string_view word) {
    if (out.size() < most) cut(word, out);
  });
  out.resize(std::min(out.size(), most));
  out.push_back(end_);
  return out;
}

void WordPieces::cut(std::string_view word, std::vector<std::int64_t>& out) const {
  const auto goes_on = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
  const std::size_t before = out.size();
  const auto unknown = [&] {
    out.resize(before);
    out.push_back(unknown_);
  };
  if (word.size() - static_cast<std::size_t>(std::ranges::count_if(word, goes_on)) > kLongestWord) return unknown();
  std::string piece;
  while (!word.empty()) {
    piece.assign(out.size() == before ? "" : "##");
    const std::size_t mark = piece.size();
    piece += word.substr(0, longest_);
    std::int64_t place = table_.find(piece);
    while (place < 0 && piece.size() > mark) {
      do piece.pop_back();
      while (piece.size() > mark && goes_on(word[piece.size() - mark]));
      place = piece.size() > mark ? table_.find(piece) : -1;
    }
    if (place < 0) return unknown();
    out.push_back(place);
    word.remove_prefix(piece.size() - mark);
  }
}

std::vector<std::string> vocabulary_of(std::string_view file) {
  std::vector<std::string> out;
  while (!file.empty()) {
    const std::size_t end = std::min(file.find('\n'), file.size());
    std::string_view line = file.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    out.emplace_back(line);
    file.remove_prefix(std::min(end + 1, file.size()));
  }
  return out;
}

}  // namespace troupe::texts
