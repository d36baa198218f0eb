#include "apps/serve/json_document.hpp"

namespace troupe {
namespace {

namespace ondemand = simdjson::ondemand;

constexpr std::size_t kKept = 1 << 20;  // bytes of a text whose parser is kept

// A parser has memory for the structure of its text: that of a small one is kept for the thread's next.
thread_local std::unique_ptr<ondemand::parser> kept_parser;

}  // namespace

JsonDocument::JsonDocument(std::string text)
    : text_(std::move(text)),
      parser_(kept_parser && text_.size() <= kKept ? std::move(kept_parser) : std::make_unique<ondemand::parser>()) {
  text_.reserve(text_.size() + simdjson::SIMDJSON_PADDING);
  if (text_.empty()) invalid_argument("the body is empty, where an object of JSON is expected");
  if (const auto error =
          parser_->iterate(simdjson::padded_string_view(text_.data(), text_.size(), text_.capacity())).get(document_))
    fail_json("the body", error);
  const auto error = document_.get_object().get(object_);
  if (error == simdjson::INCORRECT_TYPE) invalid_argument("the body is not an object of JSON: {{...}}");
  if (error) fail_json("the body", error);
}

JsonDocument::~JsonDocument() {
  if (text_.size() <= kKept) kept_parser = std::move(parser_);
}

void JsonDocument::check_end() {
  if (document_.current_location().error() == simdjson::SUCCESS)
    invalid_argument("something follows the object that is the body");
}

void JsonDocument::rewind() {
  document_.rewind();
  if (const auto error = document_.get_object().get(object_)) fail_json("the body", error);
}

std::string_view string_at(ondemand::value& value, std::string_view place) {
  std::string_view out;
  if (value.get_string().get(out) != simdjson::SUCCESS)
    invalid_argument("{}: {}, where a string is expected", place, json_excerpt(value));
  return out;
}

ondemand::object object_at(ondemand::value& value, std::string_view place) {
  ondemand::object out;
  if (value.get_object().get(out) != simdjson::SUCCESS)
    invalid_argument("{}: {}, where an object is expected", place, json_excerpt(value));
  return out;
}

ondemand::array array_at(ondemand::value& value, std::string_view place) {
  ondemand::array out;
  if (value.get_array().get(out) != simdjson::SUCCESS)
    invalid_argument("{}: {}, where a list is expected", place, json_excerpt(value));
  return out;
}

}  // namespace troupe
