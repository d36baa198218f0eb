// A data set as the commands of troupe-data see it: files whose format and schema are known, and its elements.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/devices/storage/file_system.hpp>
#include <troupe/graph/data/pipeline.hpp>
#include <troupe/kernels/readers/byte_stream.hpp>
#include <troupe/kernels/readers/csv.hpp>
#include <troupe/kernels/readers/image_folder.hpp>
#include <troupe/kernels/readers/record_files.hpp>

namespace troupe::data_tool {

enum class Format : std::uint8_t { tfrecord, csv, tsv, jsonl, text, fixed, npy, npz, idx, images };

std::string_view name(Format format);  // "tfrecord", ...
// Throws invalid_argument naming those that exist.
Format parse_format(std::string_view text);
// By the name of a file, without its ending of compression; nullopt: it does not say.
std::optional<Format> format_of_name(std::string_view path);
// By the first bytes. Throws invalid_argument, saying what to pass, if they do not say.
Format format_of_content(FileSystem& files, const std::string& path);
// "a.csv" for "a.csv.gz".
std::string without_compression(std::string_view path);

struct InputOptions {
  std::string format{};            // "": by name and first bytes
  std::string schema{};            // "x:f32[2],label:i64=0"; "": of the files, or inferred
  std::string components{};        // "x,label": only these, in this order
  std::uint64_t record_bytes = 0;  // 0: not of fixed size
  std::uint64_t header_bytes = 0, footer_bytes = 0;
  bool no_header = false;  // csv, tsv
  bool encoded = false;    // images as the bytes of their files
  bool skip = false;       // damaged records and images are left out and counted
  // Given: as `skip`, and gets the error of each damaged record.
  std::function<void(const Error&)> on_damage{};
  bool use_index = false;  // records are addressable where each file has an index
};

struct Input {
  std::string pattern{};
  Format format = Format::tfrecord;
  std::vector<std::string> paths{};         // files; of images their directory
  std::vector<std::string> compressions{};  // "none", "gzip", "zstd", "deflate", each once
  BatchSchema schema{};                     // of the components that are wanted
  std::string schema_from{};                // "inferred from the first 100 records"
  std::vector<std::string> notes{};         // what was left out, and why
  std::optional<RecordFormat> records{};    // of files of records
  std::shared_ptr<const RecordParser> parser{};
  std::shared_ptr<const ImageFolder> images{};
  std::vector<std::size_t> wanted{};  // components, of those that are read
  std::optional<data::Pipeline> pipeline{};

  bool is_records() const { return records.has_value(); }
  // The pipeline's first stage.
  const data::Stage& source() const;
};

// The format of what `pattern` stands for.
Format recognise(FileSystem& files, const std::string& pattern, const InputOptions& options);
// `pattern`: a file, a pattern of files, a folder of folders of images, or NAME=PATH,NAME=PATH of IDX files.
Input open_input(FileSystem& files, const std::string& pattern, const InputOptions& options);

struct Walk {
  // Takes an element; false: no more are wanted.
  std::function<bool(data::Element&&)> element{};
  // Takes what is damaged, after which reading goes on if it can. None: it is thrown.
  std::function<void(const Error&)> damage{};
};
struct Walked {
  std::uint64_t elements = 0, damaged = 0;
};
// Goes over all elements, file by file. Errors that are no damage are thrown: a file that is gone.
Walked walk(FileSystem& files, const Input& input, const Walk& walk);

// A component of a schema as text: "x:f32[2,3]=0".
struct NamedField {
  std::string name{};
  DType dtype = DType::f32;
  Shape shape{};
  std::optional<std::string> fallback{};
};
// Throws invalid_argument, saying what is expected.
std::vector<NamedField> parse_schema(std::string_view text);
std::string schema_text(const BatchSchema& schema);

// A parser of what the first records hold. Adds to `notes` what it leaves out.
inline constexpr std::size_t kInferredFrom = 100;  // records
std::shared_ptr<const RecordParser> infer_examples(FileSystem& files, const std::string& path,
                                                   std::vector<std::string>& notes);
// `past_damage`: damaged lines do not count; else they are errors.
std::shared_ptr<const RecordParser> infer_json_lines(FileSystem& files, const std::string& path,
                                                     std::vector<std::string>& notes, bool past_damage);
std::shared_ptr<const RecordParser> parser_of_schema(Format format, const std::vector<NamedField>& fields,
                                                     const CsvFormat& csv, FileSystem& files, const std::string& path);
// Takes any record that is a tf.train.Example, or an object of JSON: for those that are only checked.
std::shared_ptr<const RecordParser> well_formed(Format format);
// Lines of text as strings "text"; records of fixed size as u8 "record".
std::shared_ptr<const RecordParser> text_parser();
std::shared_ptr<const RecordParser> bytes_parser(std::uint64_t record_bytes);

}  // namespace troupe::data_tool
