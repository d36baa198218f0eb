// AsString and StringToNumber.
#include <algorithm>
#include <charconv>
#include <cmath>

#include <troupe/kernels/common/convert.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kStringGrain = 256;

// ---- to strings

// The text "d.ddde[+-]XX" laid out as in Python: as a plain number from 1e-4 up to 1e16.
std::string laid_out(std::string_view scientific) {
  const bool negative = scientific.starts_with('-');
  if (negative) scientific.remove_prefix(1);
  const auto e = scientific.find('e');
  int exponent = 0;
  const char* const from = scientific.data() + e + (scientific[e + 1] == '+' ? 2 : 1);
  std::from_chars(from, scientific.data() + scientific.size(), exponent);
  std::string digits(1, scientific[0]);
  if (e > 2) digits += scientific.substr(2, e - 2);
  std::string out = negative ? "-" : "";
  if (exponent < -4 || exponent >= 16) return out.append(scientific);
  if (exponent < 0) return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() < whole) digits.append(whole - digits.size(), '0');
  const std::string fraction = digits.substr(whole);
  return out + digits.substr(0, whole) + "." + (fraction.empty() ? "0" : fraction);
}

template <class T>
std::string text_of(T x) {
  if constexpr (std::is_same_v<T, bool>) {
    return x ? "true" : "false";
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(x);
  } else {
    const auto value = static_cast<Compute<T>>(x);
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "INF" : "-INF";
    char room[64];
    const auto write = [&](auto... precision) {
      const auto end = std::to_chars(room, room + sizeof room, value, std::chars_format::scientific, precision...).ptr;
      return std::string_view(room, end);
    };
    if constexpr (!std::is_same_v<T, Compute<T>>) {  // 16 bits: 5 digits tell any two apart
      for (int precision = 0; precision < 5; ++precision) {
        const std::string_view text = write(precision);
        float back = 0;
        std::from_chars(text.data(), text.data() + text.size(), back);
        if (T(back) == x) return laid_out(text);
      }
    }
    return laid_out(write());
  }
}

template <class T>
void as_string(KernelContext& context) {
  const Tensor& x = context.input(0);
  Tensor out(DType::string, x.shape());
  const T* from = x.data<T>();
  std::string* to = out.mutable_data<std::string>();
  context.parallelism().parallel_for(out.num_elements(), kStringGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = text_of(from[i]);
  });
  context.set_output(0, std::move(out));
}

// ---- from strings

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const auto begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

// The number, or none if there is text beside it. from_chars takes no '+', and "inf" and "nan" in any case.
template <class C>
bool parse(std::string_view text, C& value) {
  if (text.starts_with('+') && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  const char* const last = text.data() + text.size();
  const auto [end, code] = std::from_chars(text.data(), last, value);
  if (code == std::errc::result_out_of_range && end == last) {
    if constexpr (std::is_floating_point_v<C>) {  // too large, or too small
      value = static_cast<C>(std::strtold(std::string(text).c_str(), nullptr));
      return true;
    }
  }
  return code == std::errc{} && end == last;
}

template <class T>
bool number_of(std::string_view text, T& out) {
  if constexpr (std::is_same_v<T, bool>) {
    std::string lower(text);
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    double value = 0;
    if (lower != "true" && lower != "false" && !parse(text, value)) return false;
    out = lower == "true" || (lower != "false" && value != 0);
    return true;
  } else if constexpr (std::is_integral_v<T>) {
    if (parse(text, out)) return true;
    double value = 0;
    if (!parse(text, value)) return false;
    out = convert<T>(value);
    return true;
  } else {
    Compute<T> value = 0;
    if (!parse(text, value)) return false;
    out = static_cast<T>(value);
    return true;
  }
}

template <class T>
void string_to_number(KernelContext& context) {
  const Tensor& x = context.input(0);
  Tensor out = context.allocate(dtype_of<T>, x.shape());
  const std::string* from = x.data<std::string>();
  T* to = out.mutable_data<T>();
  context.parallelism().parallel_for(out.num_elements(), kStringGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      if (!number_of(trimmed(from[i]), to[i]))
        invalid_argument("StringToNumber: element {} is '{}', not a number of dtype {}", i, from[i].substr(0, 40),
                         name(dtype_of<T>));
  });
  context.set_output(0, std::move(out));
}

}  // namespace

void register_string_number_kernels(KernelRegistry& registry) {
  add_kernels(registry, "AsString", DataTypes{}, []<class T>(KernelContext& context) { as_string<T>(context); });
  add_kernels(registry, "StringToNumber", DataTypes{},
              []<class T>(KernelContext& context) { string_to_number<T>(context); });
}

}  // namespace troupe
