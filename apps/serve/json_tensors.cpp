#include "apps/serve/json_tensors.hpp"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "apps/serve/json_document.hpp"
#include "apps/serve/plain_numbers.hpp"

namespace troupe {
namespace {

namespace ondemand = simdjson::ondemand;

using Inputs = std::map<std::string, ModelSignature::TensorSpec>;

std::string names_of(const Inputs& inputs) {
  std::string out;
  for (const auto& [name, input] : inputs) out.append(out.empty() ? "" : ", ").append(name);
  return out;
}

// Lists the members of the body, and holds the name of its signature.
struct PredictKeys {
  bool instances = false, inputs = false;
  std::string signature;
};

PredictKeys keys_of(ondemand::object& body) {
  PredictKeys out;
  for_each_field(body, "the body", [&](std::string_view key, ondemand::value& value) {
    if (key == "instances") {
      if (std::exchange(out.instances, true)) invalid_argument("the body has 'instances' twice");
    } else if (key == "inputs") {
      if (std::exchange(out.inputs, true)) invalid_argument("the body has 'inputs' twice");
    } else if (key == "signature_name") {
      out.signature = string_at(value, "signature_name");
    }
  });
  if (out.instances && out.inputs)
    invalid_argument("the body has both 'instances' (rows) and 'inputs' (columns): send one of them");
  if (!out.instances && !out.inputs) invalid_argument("the body has neither 'instances' (rows) nor 'inputs' (columns)");
  return out;
}

// The inputs of a signature, as they are read.
class InputReaders {
 public:
  InputReaders(const Inputs& inputs, const std::string& root, const JsonLimits& limits)
      : inputs_(inputs), budget_(limits.most_elements) {
    for (const auto& [name, input] : inputs)
      readers_.push_back({name, &input, JsonTensorReader::make(input.dtype, root, budget_)});
  }
  JsonTensorReader& only() { return *readers_.front().reader; }
  // Calls read(reader, name) with each field of the object, which must be the inputs. `place` names the object.
  template <class Place, class Read>
  void fields(ondemand::object& object, const Place& place, const Read& read) {
    ++round_;
    std::size_t found = 0;
    for_each_field(object, "the body", [&](std::string_view key, ondemand::value& value) {
      for (Reader& one : readers_) {
        if (one.name != key) continue;
        if (std::exchange(one.round, round_) == round_) invalid_argument("{} has '{}' twice", place(), key);
        ++found;
        return read(*one.reader, one.name, value);
      }
      invalid_argument("{} has '{}', which is no input of the signature; those are: {}", place(), key,
                       names_of(inputs_));
    });
    if (found == readers_.size()) return;
    for (const Reader& one : readers_)
      if (one.round != round_) invalid_argument("{} lacks the input '{}'", place(), one.name);
  }
  std::map<std::string, Tensor> finish() {
    std::map<std::string, Tensor> out;
    for (Reader& one : readers_) out.emplace(one.name, one.reader->finish(one.input->shape));
    return out;
  }

 private:
  struct Reader {
    std::string name;
    const ModelSignature::TensorSpec* input;
    std::unique_ptr<JsonTensorReader> reader;
    std::uint64_t round = 0;  // of the last object that had it
  };
  const Inputs& inputs_;
  std::size_t budget_;
  std::vector<Reader> readers_;
  std::uint64_t round_ = 0;
};

// {"b64": ...} is a value, unless the input's name is that.
bool may_be_base64(const Inputs& inputs) { return inputs.size() == 1 && inputs.begin()->first != "b64"; }

bool is_object(ondemand::value& value) {
  ondemand::json_type type{};
  return value.type().get(type) == simdjson::SUCCESS && type == ondemand::json_type::object;
}

void read_rows(ondemand::value& value, const Inputs& inputs, InputReaders& readers) {
  ondemand::array rows;
  if (value.get_array().get(rows) != simdjson::SUCCESS)
    invalid_argument("instances: {}, where a list of rows is expected", json_excerpt(value));
  std::int64_t row = 0;
  std::optional<bool> objects;
  for (auto next : rows) {
    ondemand::value one;
    const auto place = [&] { return fmt::format("instances[{}]", row); };
    if (const auto error = next.get(one)) fail_json(place(), error);
    ondemand::object object;
    std::string_view base64;
    bool by_name = is_object(one);
    if (by_name) {
      if (const auto error = one.get_object().get(object)) fail_json(place(), error);
      bool is_text = false;
      if (may_be_base64(inputs))
        if (const auto error = is_base64(object, is_text, base64)) fail_json(place(), error);
      by_name = !is_text;
      if (!by_name) readers.only().read_row_of_base64(base64, row);
    }
    if (by_name != objects.value_or(by_name)) invalid_argument("{}: rows are values or objects, but not both", place());
    objects = by_name;
    if (by_name)
      readers.fields(object, place, [&](JsonTensorReader& reader, const std::string& name, ondemand::value& field) {
        reader.read_row(field, row, "." + name);
      });
    else if (inputs.size() != 1)
      invalid_argument("{}: a value, where an object with the inputs is expected: {}", place(), names_of(inputs));
    else if (base64.data() == nullptr)
      readers.only().read_row(one, row, {});
    ++row;
  }
  if (row == 0) invalid_argument("instances: no rows");
}

void read_columns(ondemand::value& value, const Inputs& inputs, InputReaders& readers) {
  if (!is_object(value)) {
    if (inputs.size() != 1)
      invalid_argument("inputs: {}, where an object with the inputs is expected: {}", json_excerpt(value),
                       names_of(inputs));
    return readers.only().read(value, {});
  }
  ondemand::object object;
  if (const auto error = value.get_object().get(object)) fail_json("inputs", error);
  std::string_view base64;
  bool is_text = false;
  if (may_be_base64(inputs))
    if (const auto error = is_base64(object, is_text, base64)) fail_json("inputs", error);
  if (is_text) return readers.only().read_base64(base64);
  readers.fields(
      object, [] { return "inputs"; },
      [](JsonTensorReader& reader, const std::string& name, ondemand::value& field) {
        reader.read(field, "." + name);
      });
}

// A string without escapes that begins here, and the end of its text; null: none.
const char* plain_string(const char* at, const char* end, std::string_view& out) {
  if (*at != '"') return nullptr;
  const char* const begin = ++at;
  while (at < end && *at != '"' && *at != '\\' && static_cast<signed char>(*at) >= ' ') ++at;
  if (at == end || *at != '"') return nullptr;
  out = std::string_view(begin, static_cast<std::size_t>(at - begin));
  return at + 1;
}

template <class T>
const char* plain_tensor(const char* at, const JsonLimits& limits, Tensor& out) {
  PlainNumbers<T> numbers;
  at = read_plain_numbers(at, limits.most_elements, numbers);
  if (at == nullptr) return nullptr;
  out = Tensor(dtype_of<T>, Shape(std::span<const std::int64_t>(numbers.dims)));
  std::copy(numbers.elements.begin(), numbers.elements.end(), out.mutable_data<T>());
  return at;
}

using SignatureOf = std::function<const ModelSignature&(const std::string&)>;

// The body of most requests: an object with the name of a signature, or none, and then numbers of its only input. None:
// it is something else, which the general reader reads or refuses. `body` has the padding of simdjson.
std::optional<PredictBody> parse_plain(const std::string& body, const SignatureOf& signature_of,
                                       const JsonLimits& limits) {
  static_assert(simdjson::SIMDJSON_PADDING >= kPlainPadding);
  const char* const end = body.data() + body.size();
  PredictBody out;
  bool named = false;
  const char* at = skip_space(body.data());
  if (*at != '{') return std::nullopt;
  do {
    std::string_view key;
    at = plain_string(skip_space(at + 1), end, key);
    if (at == nullptr || *(at = skip_space(at)) != ':') return std::nullopt;
    at = skip_space(at + 1);
    if (key == "signature_name" && !std::exchange(named, true) && out.inputs.empty()) {
      std::string_view name;
      at = plain_string(at, end, name);
      out.signature = name;
    } else if ((key == "instances" || key == "inputs") && out.inputs.empty()) {
      const Inputs& inputs = signature_of(out.signature).inputs;
      if (inputs.size() != 1) return std::nullopt;
      const auto& [name, spec] = *inputs.begin();
      Tensor& tensor = out.inputs[name];
      if (spec.dtype == DType::f32)
        at = plain_tensor<float>(at, limits, tensor);
      else if (spec.dtype == DType::f64)
        at = plain_tensor<double>(at, limits, tensor);
      else
        return std::nullopt;
      out.format = key == "instances" ? PredictBody::Format::rows : PredictBody::Format::columns;
    } else {
      return std::nullopt;
    }
    if (at == nullptr) return std::nullopt;
    at = skip_space(at);
  } while (*at == ',');
  if (*at != '}' || skip_space(at + 1) != end || out.inputs.empty()) return std::nullopt;
  return out;
}

JsonStrings strings_of(std::string_view output) {
  return output.ends_with("_bytes") ? JsonStrings::always_base64 : JsonStrings::base64_if_needed;
}

}  // namespace

PredictBody parse_predict(std::string body,
                          const std::function<const ModelSignature&(const std::string&)>& signature_of,
                          const JsonLimits& limits) {
  body.reserve(body.size() + simdjson::SIMDJSON_PADDING);
  if (std::optional<PredictBody> plain = parse_plain(body, signature_of, limits)) return *std::move(plain);
  JsonDocument document(std::move(body));
  ondemand::object& object = document.object();
  PredictKeys keys = keys_of(object);
  document.check_end();
  PredictBody out{.format = keys.instances ? PredictBody::Format::rows : PredictBody::Format::columns,
                  .signature = std::move(keys.signature)};
  const Inputs& inputs = signature_of(out.signature).inputs;
  const char* const key = keys.instances ? "instances" : "inputs";
  InputReaders readers(inputs, key, limits);
  document.rewind();
  ondemand::value value;
  if (const auto error = object.find_field(key).get(value)) fail_json(key, error);
  if (keys.instances)
    read_rows(value, inputs, readers);
  else
    read_columns(value, inputs, readers);
  out.inputs = readers.finish();
  return out;
}

std::string print_predictions(const std::map<std::string, Tensor>& outputs, PredictBody::Format format) {
  const bool alone = outputs.size() == 1;
  std::string out;
  if (format == PredictBody::Format::columns) {
    out = alone ? "{\"outputs\":" : "{\"outputs\":{";
    for (const auto& [name, tensor] : outputs) {
      if (out.back() != ':' && out.back() != '{') out += ',';
      if (!alone) append_json_string(out, name), out += ':';
      append_json_tensor(out, tensor, strings_of(name));
    }
    return out += alone ? "}" : "}}";
  }
  if (outputs.empty()) invalid_argument("the signature has no outputs: its rows cannot be written");
  const Tensor& first = outputs.begin()->second;
  for (const auto& [name, tensor] : outputs)
    if (tensor.shape().is_scalar() || first.shape().is_scalar() || tensor.shape()[0] != first.shape()[0])
      invalid_argument(
          "outputs of shapes {} ('{}') and {} ('{}') have no rows in common: send 'inputs' in place of 'instances'",
          first.shape().to_string(), outputs.begin()->first, tensor.shape().to_string(), name);
  out = "{\"predictions\":[";
  for (std::int64_t row = 0; row < first.shape()[0]; ++row) {
    if (row > 0) out += ',';
    if (!alone) out += '{';
    bool begun = false;
    for (const auto& [name, tensor] : outputs) {
      if (std::exchange(begun, true)) out += ',';
      if (!alone) append_json_string(out, name), out += ':';
      append_json_row(out, tensor, row, strings_of(name));
    }
    if (!alone) out += '}';
  }
  return out += "]}";
}

}  // namespace troupe
