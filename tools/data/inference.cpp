// Schemas of records that do not say theirs: from the first ones.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "tools/data/input.hpp"
#include <troupe/kernels/readers/example.hpp>
#include <troupe/kernels/readers/json_lines.hpp>
#include <troupe/kernels/readers/tfrecord.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::data_tool {
namespace {

using nlohmann::json;

constexpr int kMostLevels = 64;
constexpr std::uint64_t kMostInferredBytes = 64 << 20;  // of a line: as JSON it takes some times as much

// What the values of a name have been.
struct Guess {
  DType dtype = DType::invalid;  // not known yet
  Shape shape{};
  std::size_t seen = 0;
  std::string conflict{};  // why it cannot be read
};

// A shape that both fit, with an unknown leading dimension if it must; nullopt: there is none.
std::optional<Shape> common_shape(const Shape& a, const Shape& b) {
  if (a == b) return a;
  if (a.rank() != b.rank() || a.rank() == 0 || a.sub(1, a.rank()) != b.sub(1, b.rank())) return std::nullopt;
  Shape out = a;
  out.set_dim(0, kUnknown);
  return out;
}

std::optional<DType> common_dtype(DType a, DType b) {
  if (a == b || b == DType::invalid) return a;
  if (a == DType::invalid) return b;
  const auto is_number = [](DType d) { return d == DType::i64 || d == DType::u64 || d == DType::f32; };
  if (!is_number(a) || !is_number(b)) return std::nullopt;
  return a == DType::f32 || b == DType::f32 ? DType::f32 : DType::u64;
}

void add_value(Guess& guess, DType dtype, const Shape& shape) {
  ++guess.seen;
  if (!guess.conflict.empty()) return;
  const auto type = common_dtype(guess.dtype, dtype);
  const auto common = guess.seen == 1 ? std::optional(shape) : common_shape(guess.shape, shape);
  if (!type || !common) {
    guess.conflict =
        fmt::format("is {}{} and {}{}", name(guess.dtype), guess.shape.to_string(), name(dtype), shape.to_string());
    return;
  }
  guess.dtype = *type;
  guess.shape = *common;
}

json parse_bounded(std::string_view text, const std::string& path, std::uint64_t at) {
  const auto bounded = [&](int depth, json::parse_event_t, json&) {
    if (depth > kMostLevels)
      fail(Code::data_loss, "{}: byte {}: arrays and objects nest deeper than {} levels", path, at, kMostLevels);
    return true;
  };
  try {
    return json::parse(text, bounded);
  } catch (const json::exception& error) {
    fail(Code::data_loss, "{}: byte {}: not JSON: {}", path, at, error.what());
  }
}

DType json_dtype(const json& value) {
  if (value.is_boolean()) return DType::boolean;
  if (value.is_string()) return DType::string;
  if (value.is_number_float()) return DType::f32;
  if (value.is_number_unsigned())
    return value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX) ? DType::u64 : DType::i64;
  return value.is_number() ? DType::i64 : DType::invalid;
}

// Of nested arrays, which must be even; false: they are not, or hold no values of one type.
bool array_type(const json& value, int depth, DType& dtype, std::vector<std::int64_t>& dims) {
  if (!value.is_array()) {
    const DType own = json_dtype(value);
    const auto common = common_dtype(dtype, own);
    if (own == DType::invalid || !common || depth != std::ssize(dims)) return false;
    dtype = *common;
    return true;
  }
  if (depth >= kMaxRank) return false;
  if (depth == std::ssize(dims)) {
    if (dtype != DType::invalid) return false;
    dims.push_back(std::ssize(value));
  }
  if (dims[static_cast<std::size_t>(depth)] != std::ssize(value)) return false;
  return std::ranges::all_of(value, [&](const json& v) { return array_type(v, depth + 1, dtype, dims); });
}

void add_fields(const json& object, const std::string& prefix, std::map<std::string, Guess>& guesses) {
  for (const auto& [key, value] : object.items()) {
    const std::string name = prefix + key;
    if (value.is_null()) continue;
    if (value.is_object() && !value.empty()) {
      add_fields(value, name + ".", guesses);
      continue;
    }
    Guess& guess = guesses[name];
    if (key.empty() || key.find('.') != key.npos) guess.conflict = "has a name that is no path of fields";
    if (!value.is_array()) {
      add_value(guess, json_dtype(value), {});
      if (value.is_object()) guess.conflict = "is an empty object";
      continue;
    }
    DType dtype = DType::invalid;
    std::vector<std::int64_t> dims;
    if (!array_type(value, 0, dtype, dims))
      guess.conflict = "has arrays that are uneven or of several types";
    else if (value.empty())
      add_value(guess, DType::invalid, Shape{kUnknown});
    else
      add_value(guess, dtype, Shape(std::span<const std::int64_t>(dims)));
  }
}

class WellFormed final : public RecordParser {
 public:
  explicit WellFormed(Format format) : format_(format) {}
  const BatchSchema& schema() const override { return schema_; }
  void parse(std::string_view record, const RecordPlace& place, std::int64_t row,
             std::span<Tensor> out) const override {
    data::copy_to_row(parse(record, place), row, out);
  }
  std::vector<Tensor> parse(std::string_view record, const RecordPlace& place) const override {
    if (format_ == Format::tfrecord)
      static_cast<void>(infer_example(record, place));
    else if (!parse_bounded(record, std::string(place.file), place.offset).is_object())
      fail(Code::data_loss, "{}: byte {}: the line is no object of JSON", place.file, place.offset);
    return {Tensor::scalar(static_cast<std::int64_t>(record.size()))};
  }

 private:
  const Format format_;
  const BatchSchema schema_{{"bytes", DType::i64, {}}};
};

// Calls `take` for the first records. Returns how many there were.
template <class Take>
std::size_t each_of_first(RecordStream& stream, Take&& take) {
  std::size_t count = 0;
  std::string_view record;
  for (std::uint64_t at = stream.position(); count < kInferredFrom && stream.next(record); at = stream.position()) {
    ++count;
    take(record, at);
  }
  return count;
}

}  // namespace

std::shared_ptr<const RecordParser> well_formed(Format format) { return std::make_shared<const WellFormed>(format); }

std::shared_ptr<const RecordParser> infer_examples(FileSystem& files, const std::string& path,
                                                   std::vector<std::string>& notes) {
  std::map<std::string, Guess> guesses;
  TfRecordStream stream(files, path, {.skip_damaged = true});
  std::string other;
  const std::size_t count = each_of_first(stream, [&](std::string_view record, std::uint64_t at) {
    try {
      for (const ExampleFeature& feature : infer_example(record, {path, at}))
        add_value(guesses[feature.name], feature.dtype, feature.shape.is_scalar() ? Shape{1} : feature.shape);
    } catch (const Error& error) {
      if (error.code() != Code::data_loss) throw;
      other = error.message();
    }
  });
  if (guesses.empty() || !other.empty()) {
    if (count > 0) notes.push_back("records are no tf.train.Examples, and are shown as their bytes");
    return nullptr;
  }
  std::vector<ExampleFeature> features;
  for (auto& [name, guess] : guesses) {
    if (!guess.conflict.empty()) {
      notes.push_back(fmt::format("feature '{}' is left out: it {}", name, guess.conflict));
      continue;
    }
    ExampleFeature feature{.name = name, .dtype = guess.dtype, .shape = guess.shape};
    if (guess.seen < count) {  // as many as there are, also none
      feature.shape = Shape{kUnknown};
      feature.otherwise = Tensor(guess.dtype, Shape{0});
    } else if (guess.shape == Shape{1}) {
      feature.shape = Shape{};
    }
    features.push_back(std::move(feature));
  }
  if (features.empty()) return nullptr;
  return std::make_shared<const ExampleParser>(std::move(features));
}

std::shared_ptr<const RecordParser> infer_json_lines(FileSystem& files, const std::string& path,
                                                     std::vector<std::string>& notes, bool past_damage) {
  std::map<std::string, Guess> guesses;
  std::size_t unparsed = 0;
  Error first;
  const auto damaged = [&](const Error& error) { first = first ? first : error; };
  const RecordOptions records{.skip_damaged = past_damage, .most_bytes = kMostInferredBytes, .on_damage = damaged};
  LineStream stream(files, path, {.records = records, .skip_empty = true});
  const std::size_t all = each_of_first(stream, [&](std::string_view record, std::uint64_t at) {
    try {
      const json object = parse_bounded(record, path, at);
      if (!object.is_object()) fail(Code::data_loss, "{}: byte {}: the line is no object of JSON", path, at);
      add_fields(object, "", guesses);
    } catch (const Error& error) {
      if (!past_damage || error.code() != Code::data_loss) throw;
      damaged(error);
      ++unparsed;
    }
  });
  if (first && unparsed == all) throw first;
  const std::size_t count = all - unparsed;
  std::vector<JsonField> fields;
  for (const auto& [name, guess] : guesses) {
    JsonField field{.name = name, .dtype = guess.dtype, .shape = guess.shape};
    std::string why = guess.conflict;
    if (why.empty() && guess.dtype == DType::invalid) why = "has empty arrays only";
    if (why.empty() && guess.seen < count) {
      if (guess.shape.rank() > 0) {  // as many as there are, also none
        field.shape.set_dim(0, kUnknown);
        field.fallback = "[]";
      } else if (guess.dtype == DType::string) {
        field.fallback = "\"\"";
      } else {
        why = fmt::format("is missing in {} of {} records, and a number in its place must be given", count - guess.seen,
                          count);
      }
    }
    if (why.empty())
      fields.push_back(std::move(field));
    else
      notes.push_back(fmt::format("field '{}' is left out: it {}: pass --schema to read it", name, why));
  }
  if (fields.empty())
    fail(Code::data_loss, "{}: its first {} lines have no fields that could be read: pass --schema", path, count);
  return std::make_shared<const JsonLinesParser>(std::move(fields));
}

}  // namespace troupe::data_tool
