// A body of JSON that is read once, or once more after rewind(), from its beginning to its end.
#pragma once

#include <simdjson.h>

#include <functional>
#include <string>
#include <string_view>

#include "apps/serve/json_values.hpp"

namespace troupe {

class JsonDocument {
 public:
  // Throws invalid_argument unless the text, which must be UTF-8, begins as an object.
  explicit JsonDocument(std::string text);
  ~JsonDocument();
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  simdjson::ondemand::object& object() { return object_; }
  // Once all fields were read: throws invalid_argument if something follows.
  void check_end();
  void rewind();

 private:
  std::string text_;  // with room for what simdjson reads beyond its end
  std::unique_ptr<simdjson::ondemand::parser> parser_;
  simdjson::ondemand::document document_;
  simdjson::ondemand::object object_;
};

// Calls read(key, value) for each field; a value that is not read is skipped. Errors name `place`.
template <class Read>
void for_each_field(simdjson::ondemand::object& object, std::string_view place, const Read& read) {
  for (auto next : object) {
    simdjson::ondemand::field field;
    if (const auto error = std::move(next).get(field)) fail_json(place, error);
    std::string_view key;
    if (const auto error = field.unescaped_key().get(key)) fail_json(place, error);
    read(key, field.value());
  }
}

// Throw invalid_argument, naming the place, for values of other types.
std::string_view string_at(simdjson::ondemand::value& value, std::string_view place);
simdjson::ondemand::object object_at(simdjson::ondemand::value& value, std::string_view place);
simdjson::ondemand::array array_at(simdjson::ondemand::value& value, std::string_view place);

}  // namespace troupe
