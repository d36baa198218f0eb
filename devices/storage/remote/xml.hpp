// A reader of the XML that object stores answer with: elements, text and references; no document types, comments or
// CDATA, which they do not send.
#pragma once

#include <string>
#include <string_view>

#include <troupe/messages/function_ref.hpp>

namespace troupe {

// Calls `leaf` for each element without elements in it, in order, with its path ("ListBucketResult/Contents/Key") and
// text. Attributes are passed over. Throws data_loss that names the byte and what was expected there; elements are at
// most 16 deep.
void read_xml(std::string_view xml, FunctionRef<void(std::string_view path, const std::string& text)> leaf);

}  // namespace troupe
