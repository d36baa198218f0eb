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

// The schema that elements of `schema` have in a file of the format: u8[28,28] is a string in a tf.train.Example.
// Throws invalid_argument, naming the component and what to do, for what the format cannot hold. Of elements of unknown
// shapes where it has none, `first` decides.
BatchSchema written_schema(Format format, const BatchSchema& schema, const data::Element* first, bool f32,
                           const std::string& path);
std::unique_ptr<ElementWriter> open_writer(FileSystem& files, const std::string& path, Format format,
                                           const BatchSchema& schema);
// An element as written_schema() says.
data::Element converted(const BatchSchema& to, data::Element&& element, const std::string& path, std::uint64_t number);

}  // namespace troupe::data_tool
