// Text as characters, for a model that says the next one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <troupe/messages/tensor.hpp>
#include <troupe/scheduler/data/tensor_dataset.hpp>

namespace troupe {

// The distinct bytes of a text, in ascending order: token 0 is any other byte, token i + 1 the i-th of them.
class Alphabet {
 public:
  explicit Alphabet(const std::string& text = "");
  std::int64_t tokens() const { return static_cast<std::int64_t>(bytes_.size()) + 1; }
  std::vector<std::int64_t> encode(const std::string& text) const;
  std::string decode(const std::vector<std::int64_t>& tokens) const;  // "?" for token 0
 private:
  std::string bytes_;
};

struct CharacterData {
  Alphabet alphabet;  // of the training text
  // i64 [n, window]: windows that follow each other, and for each character the one behind it.
  Tensor train_text{}, train_next{}, test_text{}, test_next{};
  double bigram_entropy = 0;  // of the test text

  TensorDataset train() const { return TensorDataset({{"text", train_text}, {"next", train_next}}); }
  TensorDataset test() const { return TensorDataset({{"text", test_text}, {"next", test_next}}); }
};

// The second columns, a line for each row, of files with `package <TAB> description <TAB> tags`, plain or .gz. Throws
// what read_table() throws, and invalid_argument for a text that is shorter than a window.
CharacterData load_characters(const std::string& train, const std::string& test, std::int64_t window);

// Bits per character of the next character given one, by the text's own counts: no model that sees one character can
// say this text in fewer.
double bigram_entropy(const std::vector<std::int64_t>& text, std::int64_t tokens);

}  // namespace troupe
