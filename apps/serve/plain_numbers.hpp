// Reads lists of plain numbers, which most requests are, several times as fast as JSON in general:
//
//   [[0.25, -1, 2e-3], [4, 5, 6]]
//
// Leaves anything else to the general reader, which says what is wrong with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <troupe/messages/tensor.hpp>

namespace troupe {

// Bytes that must be readable behind the text; the one at its end must belong to no number.
inline constexpr std::size_t kPlainPadding = 8;

// The number that begins here, with the bits of std::from_chars(), and the end of its text. Null: none that JSON
// allows and that is in the range of f64.
const char* read_plain_number(const char* at, double& out);

// A list of numbers, or of lists of the same shape that are such, up to kMaxRank deep.
template <class T>
struct PlainNumbers {
  std::vector<std::int64_t> dims{};
  std::vector<T> elements{};
};

// Reads the list that begins at `at`, and returns the end of its text. Null: it is not one, it has no elements or more
// than `most`, or a number is not in the range of T.
template <class T>
const char* read_plain_numbers(const char* at, std::size_t most, PlainNumbers<T>& out);

extern template const char* read_plain_numbers<float>(const char* at, std::size_t most, PlainNumbers<float>& out);
extern template const char* read_plain_numbers<double>(const char* at, std::size_t most, PlainNumbers<double>& out);

// Skips what JSON calls white space.
inline const char* skip_space(const char* at) {
  while (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t') ++at;
  return at;
}

}  // namespace troupe
