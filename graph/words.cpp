#include "troupe/graph/words.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include <troupe/messages/error.hpp>

namespace troupe::texts {
namespace {

// The bytes of the character that `text` begins with; RFC 3629, without looking for characters written too long.
std::size_t character_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t bytes = first < 0xc2 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 1;
  if (bytes > text.size()) return 1;
  const auto goes_on = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
  return std::ranges::all_of(text.substr(1, bytes - 1), goes_on) ? bytes : 1;
}

// What becomes of each byte of a text.
struct ByteTable {
  std::array<char, 256> becomes{};
  std::array<std::uint8_t, 256> stays{};  // 1, or 0: it is left out
};

constexpr ByteTable byte_table(bool lower, bool strip_punctuation) {
  ByteTable table;
  for (std::size_t i = 0; i < 256; ++i) {
    const char c = static_cast<char>(i);
    table.becomes[i] = lower ? ascii_lower(c) : c;
    table.stays[i] = strip_punctuation && is_ascii_punctuation(c) ? 0 : 1;
  }
  return table;
}

constexpr ByteTable kByteTables[] = {byte_table(false, false), byte_table(true, false), byte_table(false, true),
                                     byte_table(true, true)};

void split_words(std::string_view text, const WordOptions& options, FunctionRef<void(std::string_view)> word) {
  options.characters ? split_characters(text, word) : split_text(text, options.separator, word);
}

}  // namespace

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = ascii_lower(c);
  return out;
}

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = ascii_upper(c);
  return out;
}

std::string_view stripped(std::string_view text) {
  while (!text.empty() && is_ascii_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_ascii_space(text.back())) text.remove_suffix(1);
  return text;
}

void split_text(std::string_view text, std::string_view separator, FunctionRef<void(std::string_view)> part) {
  if (!separator.empty()) {
    for (std::size_t end = text.find(separator); end != std::string_view::npos; end = text.find(separator)) {
      part(text.substr(0, end));
      text.remove_prefix(end + separator.size());
    }
    part(text);
    return;
  }
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    while (at < text.size() && !is_ascii_space(text[at])) ++at;
    if (at > begin) part(text.substr(begin, at - begin));
    ++at;
  }
}

void split_characters(std::string_view text, FunctionRef<void(std::string_view)> character) {
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    character(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
}

void make_ngrams(std::span<const std::string_view> words, std::int64_t low, std::int64_t high,
                 std::string_view separator, FunctionRef<void(std::string_view gram)> gram) {
  std::string joined;
  for (std::int64_t n = low; n <= std::min(high, std::ssize(words)); ++n)
    for (std::int64_t at = 0; at + n <= std::ssize(words); ++at) {
      joined = words[static_cast<std::size_t>(at)];
      for (std::int64_t k = 1; k < n; ++k) joined.append(separator).append(words[static_cast<std::size_t>(at + k)]);
      gram(joined);
    }
}

std::string standardized(std::string_view text, const WordOptions& options) {
  const ByteTable& table = kByteTables[(options.lower ? 1 : 0) + (options.strip_punctuation ? 2 : 0)];
  std::string out(text.size(), '\0');
  char* to = out.data();
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    *to = table.becomes[byte];
    to += table.stays[byte];
  }
  out.resize(static_cast<std::size_t>(to - out.data()));
  return out;
}

void each_word(std::string_view text, const WordOptions& options, FunctionRef<void(std::string_view)> word) {
  const std::string clean = standardized(text, options);
  if (options.ngrams == 1) return split_words(clean, options, word);
  std::vector<std::string_view> words;
  split_words(clean, options, [&](std::string_view one) { words.push_back(one); });
  make_ngrams(words, 1, options.ngrams, " ", word);
}

WordTable::WordTable(std::span<const std::string> words) {
  if (words.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    invalid_argument("a vocabulary of {} words", words.size());
  slots_.resize(std::bit_ceil(2 * words.size() + 1));
  for (const std::string& word : words) {
    const std::size_t hash = TextHash()(word);
    Slot& slot = slots_[slot_of(word, hash)];
    if (slot.place >= 0) invalid_argument("'{}' is given twice", word);
    slot = {static_cast<std::uint32_t>(hash >> 32), static_cast<std::int32_t>(size())};
    text_ += word;
    ends_.push_back(text_.size());
  }
}

std::size_t WordTable::slot_of(std::string_view word, std::size_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  const auto upper = static_cast<std::uint32_t>(hash >> 32);
  for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.place < 0) return i;
    if (slot.hash != upper) continue;
    const auto place = static_cast<std::size_t>(slot.place);
    if (word == std::string_view(text_).substr(ends_[place], ends_[place + 1] - ends_[place])) return i;
  }
}

std::int64_t WordTable::find(std::string_view word) const { return slots_[slot_of(word, TextHash()(word))].place; }

}  // namespace troupe::texts
