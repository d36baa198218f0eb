// troupe-data convert: the elements of one data set, written in another format.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/data/commands.hpp"
#include "tools/data/progress.hpp"
#include "tools/data/writers.hpp"
#include <troupe/actors/http/json_text.hpp>
#include <troupe/messages/bytes_text.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::data_tool {
namespace {

Format format_of_output(const std::string& out, const std::string& to) {
  if (!to.empty()) return parse_format(to);
  if (const auto format = format_of_name(out)) return *format;
  invalid_argument(
      "'{}': its name does not say its format: end it in .tfrecord, .csv, .tsv, .jsonl, .txt, .npy, .npz "
      "or .idx, or pass --to",
      out);
}

// How to read again what the format does not keep: of Examples shapes and narrow types, of tables vectors.
std::string reading_hint(Format format, const BatchSchema& schema) {
  const bool table = format == Format::csv || format == Format::tsv;
  if (format != Format::tfrecord && !table) return "";
  BatchSchema again = schema;
  bool loses = false;
  for (BatchComponent& c : again) {
    const bool bytes = c.dtype == DType::u8 && c.shape.rank() > 0 && !table;
    loses = loses || bytes || c.shape.rank() > (table ? 0 : 1);
    if (table && c.shape.rank() > 1 && c.shape.fully_known()) c.shape = Shape{c.shape.num_elements()};
    if (c.dtype == DType::string || bytes || (table && c.dtype == DType::f64)) continue;
    c.dtype = is_floating(c.dtype) ? DType::f32 : DType::i64;
  }
  return loses ? fmt::format("\nread it with --schema '{}'", schema_text(again)) : "";
}

}  // namespace

int convert(FileSystem& files, const std::string& pattern, const std::string& out, const Options& options) {
  const Format format = format_of_output(out, options.to);
  CountingFiles counted(files);
  const Input input = open_input(counted, pattern, options.input);
  tell_notes(input);
  if (std::ranges::find(input.paths, out) != input.paths.end())
    invalid_argument("'{}' is read and written: pass another OUT", out);
  BatchSchema fixed, written;
  std::unique_ptr<ElementWriter> writer;
  std::uint64_t number = 0, damaged = 0;
  const auto open = [&](const data::Element* first) {
    fixed = fixed_schema(format, input.schema, first, out);
    written = written_schema(format, fixed, options.f32, out);
    writer = open_writer(counted, out, format, written);
  };
  ProgressBar bar("converting", counted, bytes_of(files, input));
  Walk how;
  how.element = [&](data::Element&& element) {
    if (!writer) open(&element);
    writer->write(converted(fixed, written, std::move(element), out, number));
    ++number;
    bar.update();
    return true;
  };
  if (options.input.skip) how.damage = [&](const Error&) { ++damaged; };
  walk(counted, input, how);
  if (!writer) open(nullptr);
  writer->finish();
  bar.clear();
  const std::uint64_t bytes = files.open(out)->size();
  if (options.json)
    fmt::print("{}\n", json_text({{"path", out},
                                  {"format", name(format)},
                                  {"elements", number},
                                  {"bytes", bytes},
                                  {"damaged", damaged},
                                  {"schema", schema_text(fixed)}}));
  else
    fmt::print("{}: {}, {} elements, {}{}{}\n", out, name(format), number, bytes_text(bytes),
               damaged > 0 ? fmt::format("; {} damaged ones left out", damaged) : "", reading_hint(format, fixed));
  return 0;
}

}  // namespace troupe::data_tool
