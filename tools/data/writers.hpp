// Writes elements to files of records or arrays.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tools/data/input.hpp"

namespace troupe::data_tool {

// Not thread-safe.
class ElementWriter {
 public:
  virtual ~ElementWriter() = default;
  // Throws invalid_argument, naming the component, for what the format cannot hold.
  virtual void write(const data::Element& element) = 0;
  // Replaces the file. Without it nothing has changed.
  virtual void finish() = 0;
};

// The schema with the shapes that elements have in a file of the format: where it keeps none that vary, unknown
// dimensions are those of `first` (null: there is no element). Throws invalid_argument, naming the component.
BatchSchema fixed_schema(Format format, const BatchSchema& schema, const data::Element* first, const std::string& path);
// What of it is written: u8[28,28] is a string in a tf.train.Example. Throws invalid_argument, naming the component and
// what to do, for what the format cannot hold.
BatchSchema written_schema(Format format, const BatchSchema& fixed, bool f32, const std::string& path);
// An element of the fixed schema as it is written. Throws invalid_argument for one of another shape, with its number.
data::Element converted(const BatchSchema& fixed, const BatchSchema& to, data::Element&& element,
                        const std::string& path, std::uint64_t number);
std::unique_ptr<ElementWriter> open_writer(FileSystem& files, const std::string& path, Format format,
                                           const BatchSchema& schema);
}  // namespace troupe::data_tool
