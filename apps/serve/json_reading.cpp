// Nested lists of JSON to tensors.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include "apps/serve/json_values.hpp"

namespace troupe {
namespace {

namespace ondemand = simdjson::ondemand;

constexpr std::size_t kMostExcerpt = 40;  // bytes

std::string_view token_of(ondemand::value& value) {
  std::string_view token = value.raw_json_token();
  while (!token.empty() &&
         (token.back() == ' ' || token.back() == '\n' || token.back() == '\r' || token.back() == '\t'))
    token.remove_suffix(1);
  return token;
}

// As TensorFlow Serving accepts them.
std::optional<double> not_finite(std::string_view token) {
  const bool negative = token.starts_with('-');
  if (negative) token.remove_prefix(1);
  if (token == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (token != "Infinity" && token != "Inf") return std::nullopt;
  return negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
}

// Whether a finite number stays finite.
template <class T>
bool convert(double number, T& out) {
  if constexpr (std::is_same_v<T, double>) {
    out = number;
    return true;
  } else {
    if (std::isfinite(number) && std::abs(number) > 3.5e38) return false;
    const auto single = static_cast<float>(number);
    out = T(single);
    return std::isfinite(static_cast<float>(out)) || !std::isfinite(number);
  }
}

template <class T>
constexpr bool kIsFloating = is_floating(dtype_of<T>);

enum class Parsed { yes, wrong_type, out_of_range, broken };

template <class T>
Parsed parse_element(ondemand::value& value, T& out) {
  if constexpr (kIsFloating<T>) {
    double number = 0;
    if (value.get_double().get(number) != simdjson::SUCCESS) [[unlikely]] {
      const std::optional<double> special = not_finite(token_of(value));
      if (!special) return Parsed::wrong_type;
      number = *special;
    }
    return convert(number, out) ? Parsed::yes : Parsed::out_of_range;
  } else if constexpr (std::is_same_v<T, bool>) {
    return value.get_bool().get(out) == simdjson::SUCCESS ? Parsed::yes : Parsed::wrong_type;
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    return value.get_uint64().get(out) == simdjson::SUCCESS ? Parsed::yes : Parsed::wrong_type;
  } else if constexpr (std::is_same_v<T, std::string>) {
    std::string_view text;
    if (value.get_string().get(text) == simdjson::SUCCESS) {
      out = text;
      return Parsed::yes;
    }
    ondemand::object object;
    if (value.get_object().get(object) != simdjson::SUCCESS) return Parsed::wrong_type;
    bool base64 = false;
    if (is_base64(object, base64, text) != simdjson::SUCCESS) return Parsed::broken;
    if (!base64) return Parsed::wrong_type;
    std::optional<std::string> bytes = decode_base64(text);
    if (!bytes) return Parsed::wrong_type;
    out = std::move(*bytes);
    return Parsed::yes;
  } else {
    std::int64_t number = 0;
    if (value.get_int64().get(number) != simdjson::SUCCESS) return Parsed::wrong_type;
    if (number < std::int64_t{std::numeric_limits<T>::min()} || number > std::int64_t{std::numeric_limits<T>::max()})
      return Parsed::out_of_range;
    out = static_cast<T>(number);
    return Parsed::yes;
  }
}

template <class T>
class ElementsReader final : public JsonTensorReader {
  static constexpr DType kDType = dtype_of<T>;
  using Stored = std::conditional_t<std::is_same_v<T, bool>, unsigned char, T>;  // no bits

 public:
  ElementsReader(std::string root, std::size_t& budget) : root_(std::move(root)), budget_(budget) {
    dims_.fill(kUnknown);
  }

  void read(ondemand::value value, std::string_view member) override {
    root_ += member;
    if (type_of(value) == ondemand::json_type::array)
      list(value, 0);
    else
      scalar(value, 0);
  }
  void read_row(ondemand::value value, std::int64_t row, std::string_view member) override {
    begin_row(row, member);
    item(value, 0);
  }
  void read_row_of_base64(std::string_view text, std::int64_t row) override {
    begin_row(row, {});
    end_lists(1);
    base64(text, 1);
  }
  void read_base64(std::string_view text) override {
    end_lists(0);
    base64(text, 0);
  }

  Tensor finish(const Shape& like) override {
    int known = 0;
    while (known < kMaxRank && dims_[index(known)] != kUnknown) ++known;
    std::vector<std::int64_t> dims(dims_.begin(), dims_.begin() + known);
    if (rank_ < 0 && like.has_rank())
      for (int i = known; i < like.rank(); ++i) dims.push_back(like[i] == kUnknown ? 0 : like[i]);
    Tensor out(kDType, Shape(std::span<const std::int64_t>(dims)));
    if constexpr (std::is_same_v<T, std::string>)
      std::move(elements_.begin(), elements_.end(), out.mutable_data<std::string>());
    else if (!elements_.empty())
      std::memcpy(out.mutable_raw(), elements_.data(), elements_.size() * sizeof(Stored));
    return out;
  }

 private:
  static constexpr std::size_t index(int level) { return static_cast<std::size_t>(level); }

  void begin_row(std::int64_t row, std::string_view member) {
    at_[0] = row;
    member_ = member;
    dims_[0] = row + 1;
  }

  // All elements stand within `rank` lists.
  void end_lists(int rank) {
    if (rank_ < 0 && (rank == kMaxRank || dims_[index(rank)] == kUnknown)) rank_ = rank;
    if (rank_ != rank)
      invalid_argument("{}: a value, where a list is expected as at the same place before it", place(rank));
  }

  // An element of a list of this level.
  void item(ondemand::value& value, int level) {
    if (level + 1 == rank_) return element(value, level + 1);
    if (type_of(value) == ondemand::json_type::array)
      list(value, level + 1);
    else
      scalar(value, level + 1);
  }

  void scalar(ondemand::value& value, int rank) {
    end_lists(rank);
    element(value, rank);
  }

  void list(ondemand::value& value, int level) {
    if (level == kMaxRank) invalid_argument("{}: lists are nested deeper than {}", place(level), kMaxRank);
    if (level == rank_) invalid_argument("{}: a list, where {} {} is expected", place(level), article(), name(kDType));
    ondemand::array array;
    if (const auto error = value.get_array().get(array)) fail_json(place(level), error);
    std::int64_t& at = at_[index(level)];
    at = 0;
    for (auto next : array) {
      ondemand::value one;
      if (const auto error = next.get(one)) [[unlikely]]
        fail_json(place(level + 1), error);
      item(one, level);
      ++at;
    }
    std::int64_t& dim = dims_[index(level)];
    if (dim == kUnknown)
      dim = at;
    else if (dim != at)
      invalid_argument("{}: a list of {}, where lists before it have {}", place(level), at, dim);
  }

  void element(ondemand::value& value, int rank) {
    T out{};
    const Parsed parsed = parse_element(value, out);
    if (parsed != Parsed::yes) [[unlikely]]
      refuse(value, rank, parsed);
    add(std::move(out), rank);
  }

  void add(T out, int rank) {
    if (budget_ == 0) [[unlikely]]
      fail(Code::resource_exhausted, "{}: more elements than a request may have", place(rank));
    --budget_;
    elements_.push_back(static_cast<Stored>(std::move(out)));
  }

  void base64(std::string_view text, int rank) {
    if constexpr (std::is_same_v<T, std::string>) {
      std::optional<std::string> bytes = decode_base64(text);
      if (!bytes) invalid_argument("{}.b64: no base64", place(rank));
      add(std::move(*bytes), rank);
    } else {
      invalid_argument("{}: an object, where {} {} is expected", place(rank), article(), name(kDType));
    }
  }

  static ondemand::json_type type_of(ondemand::value& value) {
    ondemand::json_type type{};
    // Tokens of no type are left to element().
    if (value.type().get(type) != simdjson::SUCCESS) return ondemand::json_type::null;
    return type;
  }

  [[noreturn]] void refuse(ondemand::value& value, int rank, Parsed parsed) const {
    if (parsed == Parsed::broken) fail_json(place(rank), simdjson::TAPE_ERROR);
    const std::string text = json_excerpt(value);
    if (parsed == Parsed::out_of_range)
      invalid_argument("{}: {} is out of the range of {}", place(rank), text, name(kDType));
    invalid_argument("{}: {}, where {} {} is expected{}", place(rank), text, article(), name(kDType),
                     kDType == DType::string ? " (of bytes: {\"b64\": \"...\"})" : "");
  }

  static std::string_view article() {
    return kDType == DType::f32 || kDType == DType::f64 || kDType == DType::f16 || kDType == DType::i8 ||
                   kDType == DType::i16 || kDType == DType::i32 || kDType == DType::i64
               ? "an"
               : "a";
  }

  // "instances[3].x[2]": of what stands within `levels` lists.
  std::string place(int levels) const {
    std::string out = root_;
    for (int level = 0; level < levels; ++level) {
      out += fmt::format("[{}]", at_[index(level)]);
      if (level == 0) out += member_;
    }
    return out;
  }

  std::string root_;
  std::size_t& budget_;
  std::string member_;
  std::array<std::int64_t, kMaxRank> dims_{};  // known once the first list of that level has ended
  std::array<std::int64_t, kMaxRank> at_{};    // the place within the list of each level
  int rank_ = -1;                              // known with the first element
  std::vector<Stored> elements_;
};

}  // namespace

std::unique_ptr<JsonTensorReader> JsonTensorReader::make(DType dtype, std::string root, std::size_t& budget) {
  return with_json_element(dtype, root, [&]<class T>(T) -> std::unique_ptr<JsonTensorReader> {
    return std::make_unique<ElementsReader<T>>(std::move(root), budget);
  });
}

void fail_json(std::string_view place, simdjson::error_code error) {
  invalid_argument("{}: broken JSON: {}", place, simdjson::error_message(error));
}

std::string json_excerpt(ondemand::value& value) {
  const std::string_view token = token_of(value);
  if (token.starts_with('{')) return "an object";
  if (token.starts_with('[')) return "a list";
  std::size_t end = std::min(token.size(), kMostExcerpt);
  while (end < token.size() && end > 0 && (token[end] & 0xc0) == 0x80) --end;  // no part of a character
  return std::string(token.substr(0, end)) + (end < token.size() ? "..." : "");
}

simdjson::error_code is_base64(ondemand::object& object, bool& yes, std::string_view& text) {
  yes = false;
  for (auto field : object) {
    ondemand::raw_json_string key;
    if (const auto error = field.key().get(key)) return error;
    yes = key == "b64" && field.value().get_string().get(text) == simdjson::SUCCESS;
    break;
  }
  return object.reset().error();
}

}  // namespace troupe
