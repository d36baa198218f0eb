#include "apps/serve/plain_numbers.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

namespace troupe {
namespace {

static_assert(std::endian::native == std::endian::little, "the first digit is the lowest byte");

// Powers of ten that are exact in f64.
constexpr std::array kExact = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                               1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
constexpr std::array<std::uint64_t, 9> kPowers = {1,       10,        100,        1'000,      10'000,
                                                  100'000, 1'000'000, 10'000'000, 100'000'000};
constexpr int kMostDigits = 18;                               // that 64 bits hold, whatever they are
constexpr std::uint64_t kMostExact = std::uint64_t{1} << 53;  // up to here f64 has all whole numbers

unsigned digit_at(const char* at) { return static_cast<unsigned char>(*at) - unsigned{'0'}; }

struct Digits {
  std::uint64_t value = 0;
  int count = 0;
};

// Up to 8 digits, all at once.
Digits digits_at(const char* at) {
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, at, sizeof bytes);
  bytes ^= 0x3030303030303030;  // digits become their values
  // The lowest byte above 9 gets its highest bit; carries reach higher bytes only.
  const std::uint64_t others = ((bytes + 0x7676767676767676) | bytes) & 0x8080808080808080;
  const int count = others == 0 ? 8 : std::countr_zero(others) / 8;
  if (count == 0) return {};
  bytes <<= 64 - 8 * count;           // zeros in front
  bytes = bytes * 10 + (bytes >> 8);  // pairs, in every second byte
  constexpr std::uint64_t kPairs = 0x000000ff000000ff;
  bytes = ((bytes & kPairs) * (100 + (std::uint64_t{1'000'000} << 32)) +
           ((bytes >> 16) & kPairs) * (1 + (std::uint64_t{10'000} << 32))) >>
          32;
  return {bytes, count};
}

// Appends digits until there is none; false: `count`, that of all so far, is over kMostDigits.
bool more_digits(const char*& at, std::uint64_t& value, int& count) {
  for (;;) {
    const Digits next = digits_at(at);
    at += next.count;
    count = std::min(count + next.count, kMostDigits + 1);
    if (count <= kMostDigits) value = value * kPowers[static_cast<std::size_t>(next.count)] + next.value;
    if (next.count < 8) return count <= kMostDigits;
  }
}

// Reads [+-]digits; false: there is none.
bool read_exponent(const char*& at, int& out) {
  const bool negative = *at == '-';
  if (*at == '-' || *at == '+') ++at;
  if (digit_at(at) > 9) return false;
  int value = 0;
  for (; digit_at(at) <= 9; ++at) value = value < 100'000 ? value * 10 + static_cast<int>(digit_at(at)) : value;
  out = negative ? -value : value;
  return true;
}

double signed_by(bool negative, double positive) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(positive) | static_cast<std::uint64_t>(negative) << 63);
}

struct ReadNumber {
  const char* end;  // null: none
  double value;
};

// Nearly all numbers have few digits before and behind the point. Quotients of whole numbers that f64 has are rounded
// once, as they must be.
inline ReadNumber read_short_number(const char* at) {
  const char* const begin = at;
  const auto any = [begin]() -> ReadNumber {
    ReadNumber out{};
    out.end = read_plain_number(begin, out.value);
    return out;
  };
  const bool negative = *at == '-';
  at += static_cast<int>(negative);  // half of all are: no branch
  std::uint64_t value = digit_at(at);
  if (value > 9) return {};
  ++at;
  if (digit_at(at) <= 9) {
    const Digits whole = digits_at(--at);
    if (value == 0 || whole.count == 8) return any();
    value = whole.value;
    at += whole.count;
  }
  if (*at != '.') return (*at | 0x20) == 'e' ? any() : ReadNumber{at, signed_by(negative, static_cast<double>(value))};
  const Digits fraction = digits_at(at + 1);
  if (fraction.count == 0 || fraction.count == 8) return any();
  at += 1 + fraction.count;
  if ((*at | 0x20) == 'e') return any();
  const auto count = static_cast<std::size_t>(fraction.count);
  const auto number = static_cast<double>(value * kPowers[count] + fraction.value);
  return {at, signed_by(negative, number / kExact[count])};
}

template <class T>
bool fits(double number, T& out) {
  out = static_cast<T>(number);
  return std::isfinite(out);
}

template <class T>
class Reader {
 public:
  Reader(std::size_t most, PlainNumbers<T>& out) : most_(most), out_(out) {}

  // `at` is behind the bracket.
  const char* list(const char* at, std::size_t level) {
    if (level == static_cast<std::size_t>(kMaxRank)) return nullptr;
    if (level == out_.dims.size()) {
      if (!out_.elements.empty()) return nullptr;  // numbers stood here before
      out_.dims.push_back(0);
    }
    at = skip_space(at);
    return *at == '[' ? lists(at, level) : numbers(at, level);
  }

 private:
  const char* lists(const char* at, std::size_t level) {
    for (std::int64_t count = 1;; ++count) {
      if (*at != '[') return nullptr;
      at = list(at + 1, level + 1);
      if (at == nullptr) return nullptr;
      at = skip_space(at);
      if (*at == ']') return close(at, level, count);
      if (*at != ',') return nullptr;
      at = skip_space(at + 1);
    }
  }
  const char* numbers(const char* at, std::size_t level) {
    if (level + 1 != out_.dims.size()) return nullptr;  // lists stood here before
    for (std::int64_t count = 1;; ++count) {
      const ReadNumber number = read_short_number(at);
      T element{};
      at = number.end;
      if (at == nullptr || !fits(number.value, element) || out_.elements.size() == most_) return nullptr;
      out_.elements.push_back(element);
      if (*at == ',') {
        ++at;
        if (*at <= ' ') at = skip_space(at);
        continue;
      }
      at = skip_space(at);
      if (*at == ']') return close(at, level, count);
      if (*at != ',') return nullptr;
      at = skip_space(at + 1);
    }
  }
  // The first list of each level says how many it has.
  const char* close(const char* at, std::size_t level, std::int64_t count) {
    std::int64_t& dim = out_.dims[level];
    if (dim == 0) dim = count;
    return dim == count ? at + 1 : nullptr;
  }

  const std::size_t most_;
  PlainNumbers<T>& out_;
};

}  // namespace

const char* read_plain_number(const char* at, double& out) {
  const char* const begin = at;
  const bool negative = *at == '-';
  at += static_cast<int>(negative);  // half of all numbers are: no branch
  const unsigned first = digit_at(at++);
  if (first > 9) return nullptr;
  std::uint64_t value = first;
  int count = 1;
  bool exact = true;
  if (first == 0) {
    if (digit_at(at) <= 9) return nullptr;
  } else if (digit_at(at) <= 9) {
    exact = more_digits(at, value, count);
  }
  int scale = 0;  // digits behind the point
  if (*at == '.') {
    if (digit_at(++at) > 9) return nullptr;
    const int whole = count;
    exact = more_digits(at, value, count) && exact;
    scale = count - whole;
  }
  if (*at == 'e' || *at == 'E') {
    int exponent = 0;
    if (!read_exponent(++at, exponent)) return nullptr;
    scale -= exponent;
  }
  // Both are exact, so their quotient or product is rounded once, as it must be (Clinger, "How to read floating point
  // numbers accurately", 1990).
  constexpr int kMostScale = static_cast<int>(kExact.size()) - 1;
  if (exact && value <= kMostExact && scale >= -kMostScale && scale <= kMostScale) {
    const auto number = static_cast<double>(value);
    const std::size_t power = static_cast<std::size_t>(scale < 0 ? -scale : scale);
    out = signed_by(negative, scale < 0 ? number * kExact[power] : number / kExact[power]);
    return at;
  }
  const auto [end, error] = std::from_chars(begin, at, out);
  return error == std::errc() && end == at ? at : nullptr;
}

template <class T>
const char* read_plain_numbers(const char* at, std::size_t most, PlainNumbers<T>& out) {
  return *at == '[' ? Reader<T>(most, out).list(at + 1, 0) : nullptr;
}

template const char* read_plain_numbers<float>(const char* at, std::size_t most, PlainNumbers<float>& out);
template const char* read_plain_numbers<double>(const char* at, std::size_t most, PlainNumbers<double>& out);

}  // namespace troupe
