// troupe-data info, head, index.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "tools/data/commands.hpp"
#include "tools/data/element_text.hpp"
#include "tools/data/progress.hpp"
#include <troupe/actors/http/json_text.hpp>
#include <troupe/kernels/readers/record_index.hpp>
#include <troupe/messages/bytes_text.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::data_tool {
namespace {

using nlohmann::ordered_json;

std::string files_text(const Input& input) {
  if (input.images) return fmt::format("{} images in {} folders", input.images->size(), input.images->classes().size());
  return input.paths.size() == 1 ? "1 file" : fmt::format("{} files", input.paths.size());
}

// Elements that are known without reading any.
std::optional<std::uint64_t> known_elements(FileSystem& files, const Input& input, const InputOptions& options) {
  if (input.pipeline->size()) return input.pipeline->size();
  if (input.format != Format::fixed || input.compressions != std::vector<std::string>{"none"}) return std::nullopt;
  std::uint64_t all = 0;
  for (const std::string& path : input.paths) {
    const std::uint64_t bytes = files.open(path)->size(), around = options.header_bytes + options.footer_bytes;
    all += bytes < around ? 0 : (bytes - around) / options.record_bytes;
  }
  return all;
}

std::string access_text(const Input& input) {
  if (input.pipeline->addressable()) return "addressable: any element by its number";
  const bool plain = input.compressions == std::vector<std::string>{"none"};
  return "forward: " + input.pipeline->forward_because() +
         (input.is_records() && plain ? "; troupe-data index makes it addressable" : "");
}

// 0: it is read by number.
std::uint64_t splits_of(const Input& input) {
  const auto* splits = std::get_if<data::SplitsStage>(&input.source().kind);
  return splits ? splits->source->splits() : 0;
}

// What was done about the index of a file, and how many records it has.
std::pair<std::string_view, std::size_t> make_index(FileSystem& files, const std::string& path,
                                                    const RecordFormat& format) {
  bool there = true;
  try {
    return {"current", read_index(files, path, format).offsets.size()};
  } catch (const Error& error) {
    there = error.code() != Code::not_found;
    if (there && error.code() != Code::data_loss && error.code() != Code::failed_precondition) throw;
  }
  const RecordIndex made = build_index(files, path, format);
  write_index(files, path, format, made);
  return {there ? "replaced" : "made", made.offsets.size()};
}

}  // namespace

std::uint64_t bytes_of(FileSystem& files, const Input& input) {
  std::uint64_t all = 0;
  if (input.images) {
    for (std::uint64_t i = 0; i < input.images->size(); ++i) all += files.open(input.images->path(i))->size();
    return all;
  }
  for (const std::string& path : input.paths) all += files.open(path)->size();
  return all;
}

void tell_notes(const Input& input) {
  for (const std::string& note : input.notes) fmt::print(stderr, "troupe-data: {}: {}\n", input.pattern, note);
}

int info(FileSystem& files, const std::string& pattern, const Options& options) {
  InputOptions by_number = options.input;
  by_number.use_index = true;
  const Input input = open_input(files, pattern, by_number);
  const auto elements = known_elements(files, input, options.input);
  const std::uint64_t bytes = bytes_of(files, input);
  if (options.json) {
    ordered_json line = {{"path", pattern},
                         {"format", name(input.format)},
                         {"compression", input.compressions},
                         {"files", input.images ? input.images->size() : input.paths.size()},
                         {"bytes", bytes},
                         {"schema", schema_text(input.schema)},
                         {"schema_from", input.schema_from},
                         {"elements", elements ? ordered_json(*elements) : ordered_json(nullptr)},
                         {"addressable", input.pipeline->addressable()},
                         {"forward_because", input.pipeline->forward_because()},
                         {"splits", splits_of(input)},
                         {"notes", input.notes}};
    if (input.images) line["classes"] = input.images->classes();
    fmt::print("{}\n", line.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
    return 0;
  }
  const bool plain = input.compressions == std::vector<std::string>{"none"} || input.images;
  fmt::print("{}: {}{}\n", pattern, name(input.format),
             plain ? "" : fmt::format(", compressed: {}", fmt::join(input.compressions, ", ")));
  fmt::print("  files     {}, {}\n", files_text(input), bytes_text(bytes));
  fmt::print("  schema    {} ({})\n", schema_text(input.schema), input.schema_from);
  if (input.images) {
    constexpr std::size_t kShown = 20;
    const auto& classes = input.images->classes();
    fmt::print("  classes   {}{}\n", fmt::join(std::span(classes).first(std::min(classes.size(), kShown)), ", "),
               classes.size() > kShown ? ", ..." : "");
  }
  fmt::print("  elements  {}\n", elements ? std::to_string(*elements) : "not known before all are read");
  fmt::print("  access    {}\n", access_text(input));
  if (const auto splits = splits_of(input)) fmt::print("  splits    {}\n", splits);
  std::string lines = input.pipeline->describe();
  for (std::size_t at = 0; at < lines.size(); at = lines.find('\n', at) + 1)
    fmt::print("  {}  {}\n", at == 0 ? "pipeline" : "        ", lines.substr(at, lines.find('\n', at) - at));
  for (const std::string& note : input.notes) fmt::print("  note      {}\n", note);
  return 0;
}

int head(FileSystem& files, const std::string& pattern, const Options& options) {
  const Input input = open_input(files, pattern, options.input);
  tell_notes(input);
  if (options.count == 0) return 0;
  std::uint64_t number = 0;
  const auto print = [&](data::Element&& element) {
    if (options.json) {
      fmt::print(
          "{}\n",
          element_json(input.schema, element, false).dump(-1, ' ', false, ordered_json::error_handler_t::replace));
    } else {
      for (std::size_t i = 0; i < element.size(); ++i)
        fmt::print("{:>6}  {} {}\n", i == 0 ? std::to_string(number) : "", input.schema[i].name, shown(element[i]));
    }
    return ++number < options.count;
  };
  walk(files, input, {.element = print});
  return 0;
}

int index(FileSystem& files, const std::string& pattern, const Options& options) {
  CountingFiles counted(files);
  const Input input = open_input(counted, pattern, options.input);
  if (!input.is_records()) {
    const bool addressable = input.pipeline->addressable();
    if (options.json)
      fmt::print("{}\n", json_text({{"path", pattern}, {"did", addressable ? "not needed" : "not possible"}}));
    else
      fmt::print("{}: {} {}\n", pattern, name(input.format),
                 addressable ? "needs no index: any element is read by its number"
                             : "has none: " + input.pipeline->forward_because());
    return addressable ? 0 : 1;
  }
  ProgressBar bar("indexing", counted, bytes_of(files, input));
  counted.on_read = [&] { bar.update(); };
  int code = 0;
  for (const std::string& path : input.paths) try {
      const auto [did, records] = make_index(counted, path, *input.records);
      bar.clear();
      if (options.json)
        fmt::print("{}\n",
                   json_text({{"path", path}, {"index", index_path(path)}, {"did", did}, {"records", records}}));
      else if (did == "current")
        fmt::print("{} is current: {} records\n", index_path(path), records);
      else
        fmt::print("{} {}: {} records\n", did, index_path(path), records);
    } catch (const Error& error) {
      bar.clear();
      fmt::print(stderr, "troupe-data: {}\n", error.message());
      code = 1;
    }
  counted.on_read = nullptr;
  return code;
}

}  // namespace troupe::data_tool
