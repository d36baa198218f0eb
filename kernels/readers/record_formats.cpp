#include "troupe/kernels/readers/record_formats.hpp"

#include <fmt/ranges.h>

#include <memory>
#include <utility>

#include <troupe/devices/storage/file_systems.hpp>
#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/kernels/readers/tfrecord.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {

RecordFormat tfrecord_format(RecordOptions options) {
  return {"tfrecord",
          [options](FileSystem& files, const std::string& path) {
            return std::make_unique<TfRecordStream>(files, path, options);
          },
          options};
}

// Names say all that decides where records are: an index of other records does not fit.
RecordFormat lines_format(const LineOptions& options) {
  std::string name = "lines";
  if (options.header_lines > 0) name += fmt::format(" behind {}", options.header_lines);
  if (options.skip_empty) name += ", without empty ones";
  if (options.quoted != '\0') name += fmt::format(", quotes {} between {}", options.quoted, options.separator);
  return {std::move(name),
          [options](FileSystem& files, const std::string& path) {
            return std::make_unique<LineStream>(files, path, options);
          },
          options.records};
}

RecordFormat fixed_format(const FixedOptions& options) {
  return {fmt::format("{} bytes between {} and {}", options.record_bytes, options.header_bytes, options.footer_bytes),
          [options](FileSystem& files, const std::string& path) {
            return std::make_unique<FixedStream>(files, path, options);
          },
          options.records};
}

namespace data {
namespace {

// Takes the columns from the first file if none are given, and compares all headers with them.
void complete_columns(FileSystem& from, const std::vector<std::string>& paths, CsvOptions& options) {
  if (options.columns.empty())
    options.columns = infer_csv(from, paths[0], options.format, 1000, options.records.skip_damaged);
  if (options.format.header) {
    std::vector<std::string> wanted;
    for (const CsvColumn& column : options.columns) wanted.push_back(column.name);
    for (const std::string& path : paths)
      if (const CsvHeader header = read_csv_header(from, path, options.format); header.names != wanted)
        fail(Code::data_loss, "{}: has the columns {}, expected {}", shown_path(path), fmt::join(header.names, ", "),
             fmt::join(wanted, ", "));
  }
}

// `named`: a pattern or paths.
template <class Named>
Pipeline rows_of(const Named& named, CsvOptions options, const FilesOptions& files) {
  const RecordFormat lines = lines_format(csv_lines(options.format, options.records));
  return records(named, lines, std::make_shared<CsvParser>(std::move(options)), files);
}

}  // namespace

Pipeline csv(const std::string& pattern, CsvOptions options, const FilesOptions& files) {
  FileSystem& from = files.files ? *files.files : file_system_of(pattern);
  complete_columns(from, data_files_matching(from, pattern), options);
  return rows_of(pattern, std::move(options), files);
}

Pipeline csv(const std::vector<std::string>& paths, CsvOptions options, const FilesOptions& files) {
  if (paths.empty()) invalid_argument("no files are named");
  complete_columns(files.files ? *files.files : all_file_systems(), paths, options);
  return rows_of(paths, std::move(options), files);
}

}  // namespace data

}  // namespace troupe
