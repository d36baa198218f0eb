// Opens files as a data set: finds them, their format, their schema.
#include "tools/data/input.hpp"

#include <fmt/format.h>

#include <algorithm>

#include <troupe/devices/storage/file_pattern.hpp>
#include <troupe/kernels/readers/array_files.hpp>
#include <troupe/kernels/readers/record_formats.hpp>
#include <troupe/kernels/readers/record_index.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::data_tool {
namespace {

std::vector<std::string> split_at_commas(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (!word.empty()) out.emplace_back(word);
  }
  return out;
}

bool is_directory(FileSystem& files, const std::string& path) {
  try {
    static_cast<void>(files.list(path));
    return true;
  } catch (const Error&) {
    return false;
  }
}

// "image=a,label=b" as names and paths; empty: it is none of these.
std::vector<std::pair<std::string, std::string>> named_paths(FileSystem& files, const std::string& pattern) {
  std::vector<std::pair<std::string, std::string>> out;
  if (files.exists(pattern)) return out;
  for (const std::string& part : split_at_commas(pattern)) {
    const std::size_t at = part.find('=');
    if (at == part.npos || at == 0 || part.find('/') < at) return {};
    out.emplace_back(part.substr(0, at), part.substr(at + 1));
  }
  return out;
}

CsvFormat csv_format(Format format, const InputOptions& options) {
  return {.separator = format == Format::tsv ? '\t' : ',',
          .quote = format == Format::tsv ? '\0' : '"',
          .header = !options.no_header};
}

void find_compressions(FileSystem& files, Input& input) {
  const auto add = [&](std::string text) {
    if (std::ranges::find(input.compressions, text) == input.compressions.end())
      input.compressions.push_back(std::move(text));
  };
  for (const std::string& path : input.paths)
    if (input.format != Format::images) add(std::string(name(ByteStream(files, path).compression())));
  if (input.format == Format::npz && input.pipeline && !input.pipeline->addressable()) input.compressions = {"deflate"};
}

// Whether each file has an index, through which records are read by number.
bool all_indexed(FileSystem& files, const Input& input) {
  return std::ranges::all_of(input.paths, [&](const std::string& path) { return files.exists(index_path(path)); });
}

void open_records(FileSystem& files, Input& input, const InputOptions& options) {
  const CsvFormat csv = csv_format(input.format, options);
  const RecordOptions records{.skip_damaged = options.skip || options.on_damage, .on_damage = options.on_damage};
  const std::string& first = input.paths.at(0);
  const bool given = !options.schema.empty(), past_damage = options.skip || options.on_damage;
  input.schema_from = given ? "given" : fmt::format("inferred from the first {} records", kInferredFrom);
  switch (input.format) {
    case Format::tfrecord:
      input.records = tfrecord_format(records);
      if (!given) input.parser = infer_examples(files, first, input.notes);
      if (!given && !input.parser) input.schema_from = "records as they are";
      break;
    case Format::jsonl:
      input.records = lines_format({.records = records, .skip_empty = true});
      if (!given) input.parser = infer_json_lines(files, first, input.notes, past_damage);
      break;
    case Format::csv:
    case Format::tsv: {
      constexpr std::size_t kRows = 1000;
      input.records = lines_format(csv_lines(csv, records));
      if (given) break;
      input.parser = std::make_shared<const CsvParser>(
          CsvOptions{.format = csv, .columns = infer_csv(files, first, csv, kRows, past_damage)});
      input.schema_from = fmt::format("inferred from the first {} rows", kRows);
      break;
    }
    case Format::text:
      input.records = lines_format({.records = records});
      if (!given) input.parser = text_parser();
      input.schema_from = "lines of text";
      break;
    default:
      input.records = fixed_format({.records = records,
                                    .record_bytes = options.record_bytes,
                                    .header_bytes = options.header_bytes,
                                    .footer_bytes = options.footer_bytes});
      if (!given) input.parser = bytes_parser(options.record_bytes);
      input.schema_from = "records of a fixed size";
      break;
  }
  if (given) input.parser = parser_of_schema(input.format, parse_schema(options.schema), csv, files, first);
  input.pipeline = data::records(input.pattern, *input.records, input.parser,
                                 {.files = &files, .addressable = options.use_index && all_indexed(files, input)});
}

void open_arrays(FileSystem& files, Input& input, const std::vector<std::pair<std::string, std::string>>& named,
                 const std::vector<std::string>& wanted) {
  input.schema_from = "of the files";
  if (input.format == Format::npy) {
    input.pipeline = data::npy(input.pattern, {.files = &files});
  } else if (input.format == Format::npz) {
    input.pipeline = data::npz(input.pattern, {.files = &files, .arrays = wanted});
  } else if (!named.empty()) {
    input.pipeline = data::idx(named, {.files = &files});
  } else {
    if (input.paths.size() != 1)
      invalid_argument(
          "'{}': matches {} IDX files: pass one, or several as NAME=PATH,NAME=PATH whose rows belong "
          "together",
          input.pattern, input.paths.size());
    input.pipeline = data::idx({{"array", input.paths[0]}}, {.files = &files});
  }
}

void open_images(FileSystem& files, Input& input, bool encoded) {
  input.images =
      std::make_shared<const ImageFolder>(input.pattern, ImageFolderOptions{.files = &files, .decode = !encoded});
  input.schema_from = fmt::format("{} classes by folder", input.images->classes().size());
  input.pipeline = data::image_folder(input.images);
}

// The components that --components names, in its order.
void select(Input& input, const std::vector<std::string>& names) {
  const BatchSchema& all = input.pipeline->schema();
  if (names.empty()) {
    for (std::size_t i = 0; i < all.size(); ++i) input.wanted.push_back(i);
    input.schema = all;
    return;
  }
  for (const std::string& wanted : names) {
    const auto found = std::ranges::find(all, wanted, &BatchComponent::name);
    if (found == all.end())
      invalid_argument("'{}' has no component '{}': it has {}", input.pattern, wanted, to_string(all));
    input.wanted.push_back(static_cast<std::size_t>(found - all.begin()));
    input.schema.push_back(*found);
  }
  check_schema(input.schema);
  if (input.schema == all) return;
  input.pipeline = input.pipeline->map("components", input.schema,
                                       [wanted = input.wanted](const data::Element& e, const data::ElementContext&) {
                                         data::Element out;
                                         for (const std::size_t i : wanted) out.push_back(e[i]);
                                         return out;
                                       });
}

}  // namespace

const data::Stage& Input::source() const {
  const data::Stage* stage = pipeline->stage().get();
  while (!stage->inputs.empty()) stage = stage->inputs[0].get();
  return *stage;
}

Format recognise(FileSystem& files, const std::string& pattern, const InputOptions& options) {
  if (is_directory(files, pattern)) return Format::images;
  if (!named_paths(files, pattern).empty()) return Format::idx;
  if (options.record_bytes > 0) return Format::fixed;
  if (!options.format.empty()) return parse_format(options.format);
  const std::string path = data_files_matching(files, pattern).at(0);
  if (const auto format = format_of_name(path)) return *format;
  return format_of_content(files, path);
}

Input open_input(FileSystem& files, const std::string& pattern, const InputOptions& options) {
  Input input{.pattern = pattern};
  const std::vector<std::string> wanted = split_at_commas(options.components);
  const auto named = named_paths(files, pattern);
  input.format = recognise(files, pattern, options);
  if (input.format == Format::images)
    input.paths = {pattern};
  else if (named.empty())
    input.paths = data_files_matching(files, pattern);
  for (const auto& [name, path] : named) input.paths.push_back(path);
  if (input.format == Format::fixed && options.record_bytes == 0)
    invalid_argument("'{}': pass --record-bytes N for records of a fixed size", pattern);
  const bool takes_schema = input.format <= Format::jsonl;
  if (!options.schema.empty() && !takes_schema)
    invalid_argument("'{}': --schema is for tfrecord, csv, tsv and jsonl: {} has its own", pattern, name(input.format));
  if (input.format <= Format::fixed)
    open_records(files, input, options);
  else if (input.format == Format::images)
    open_images(files, input, options.encoded);
  else
    open_arrays(files, input, named, wanted);
  select(input, wanted);
  find_compressions(files, input);
  return input;
}

}  // namespace troupe::data_tool
