// Elements for people, and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include <troupe/graph/data/pipeline.hpp>

namespace troupe::data_tool {

// "f32[2] = 1 2"; strings in quotes, with escapes, cut: "\xff\xd8..." (5120 bytes).
std::string shown(const Tensor& tensor);
std::string shown_string(std::string_view text, std::size_t most = 60);

// Nested arrays by shape. A name with dots becomes a field of an object, as JsonLinesParser reads it. `strict`: throws
// invalid_argument for numbers that JSON does not have, and strings that are no UTF-8; else null, and text with
// replacements.
nlohmann::ordered_json element_json(const BatchSchema& schema, const data::Element& element, bool strict);

}  // namespace troupe::data_tool
