#include "apps/language/text_data.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <troupe/kernels/readers/text_table.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

std::string descriptions(const std::string& file) {
  std::string text;
  for (const TableRow& row : read_table(file, 3)) text += row[1] + "\n";
  return text;
}

// Of tokens from `first` on: i64 [n, window].
Tensor windows(const std::vector<std::int64_t>& tokens, std::int64_t first, std::int64_t window) {
  const std::int64_t rows = (std::ssize(tokens) - 1) / window;
  if (rows < 1) invalid_argument("a text of {} characters has no windows of {} and one more", tokens.size(), window);
  Tensor out(DType::i64, Shape{rows, window});
  std::copy_n(tokens.begin() + first, rows * window, out.mutable_data<std::int64_t>());
  return out;
}

}  // namespace

Alphabet::Alphabet(const std::string& text) {
  const std::set<char> bytes(text.begin(), text.end());
  bytes_.assign(bytes.begin(), bytes.end());
}

std::vector<std::int64_t> Alphabet::encode(const std::string& text) const {
  std::vector<std::int64_t> out;
  for (const char c : text) {
    const std::size_t found = bytes_.find(c);
    out.push_back(found == std::string::npos ? 0 : static_cast<std::int64_t>(found) + 1);
  }
  return out;
}

std::string Alphabet::decode(const std::vector<std::int64_t>& tokens) const {
  std::string out;
  for (const std::int64_t token : tokens) out += token == 0 ? '?' : bytes_.at(static_cast<std::size_t>(token) - 1);
  return out;
}

CharacterData load_characters(const std::string& train, const std::string& test, std::int64_t window) {
  const std::string text = descriptions(train);
  CharacterData out{.alphabet = Alphabet(text)};
  const std::vector<std::int64_t> train_tokens = out.alphabet.encode(text);
  const std::vector<std::int64_t> test_tokens = out.alphabet.encode(descriptions(test));
  out.train_text = windows(train_tokens, 0, window);
  out.train_next = windows(train_tokens, 1, window);
  out.test_text = windows(test_tokens, 0, window);
  out.test_next = windows(test_tokens, 1, window);
  out.bigram_entropy = bigram_entropy(test_tokens, out.alphabet.tokens());
  return out;
}

double bigram_entropy(const std::vector<std::int64_t>& text, std::int64_t tokens) {
  std::vector<double> pairs(static_cast<std::size_t>(tokens * tokens)), firsts(static_cast<std::size_t>(tokens));
  for (std::size_t i = 1; i < text.size(); ++i) {
    ++pairs[static_cast<std::size_t>(text[i - 1] * tokens + text[i])];
    ++firsts[static_cast<std::size_t>(text[i - 1])];
  }
  double bits = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i)
    if (pairs[i] > 0) bits -= pairs[i] * std::log2(pairs[i] / firsts[i / static_cast<std::size_t>(tokens)]);
  return text.size() < 2 ? 0 : bits / static_cast<double>(text.size() - 1);
}

}  // namespace troupe
