#include "tests/fuzz/csv_fuzz.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "tests/actors/checkpoint/memory_file_system.hpp"
#include <troupe/kernels/readers/csv.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

using testing::MemoryFileSystem;
using Row = std::vector<Tensor>;

constexpr const char* kCsv = "/csv";
constexpr std::uint64_t kMostRowBytes = 4096;
constexpr std::size_t kMostRows = 2000;  // a compressed file may have many
constexpr DType kDtypes[] = {DType::f32, DType::string, DType::i64, DType::f64, DType::u8, DType::boolean, DType::i32};

// By bit of the first byte.
constexpr unsigned kSeparators = 3, kNoQuotes = 4, kHeader = 8, kGivenDtypes = 16, kSkipDamaged = 32;

void promise_of_csv(bool kept, const char* what, const std::string& why) {
  if (kept) return;
  std::fprintf(stderr, "broken promise of a reader of CSV: %s: %s\n", what, why.c_str());
  std::abort();
}

void check_csv_error(const Error& error) {
  promise_of_csv(error.code() == Code::data_loss, "damage is data_loss", error.to_string());
  promise_of_csv(error.message().starts_with(kCsv), "errors name the file", error.to_string());
}

CsvFormat csv_format(unsigned choice) {
  constexpr char kAll[] = {',', '\t', ';', ' '};
  return {.separator = kAll[choice & kSeparators],
          .quote = (choice & kNoQuotes) != 0 ? '\0' : '"',
          .header = (choice & kHeader) != 0};
}

// Names may come twice or be empty, which those of components must not.
std::vector<CsvColumn> columns_of(MemoryFileSystem& files, unsigned choice) {
  const CsvFormat format = csv_format(choice);
  std::vector<CsvColumn> columns = infer_csv(files, kCsv, format, 20);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    columns[i].name = std::to_string(i);
    if ((choice & kGivenDtypes) != 0) columns[i] = {.name = columns[i].name, .dtype = kDtypes[i % std::size(kDtypes)]};
  }
  return columns;
}

// Rows that can be parsed.
std::vector<Row> read_rows(MemoryFileSystem& files, const CsvParser& parser, const LineOptions& options) {
  std::vector<Row> out;
  LineStream lines(files, kCsv, options);
  std::vector<std::uint64_t> positions;
  std::string_view row;
  for (std::uint64_t at = lines.position(); out.size() < kMostRows; at = lines.position()) {
    try {
      if (!lines.next(row)) break;
    } catch (const Error& error) {
      check_csv_error(error);
      break;
    }
    promise_of_csv(row.size() <= kMostRowBytes, "rows are bounded", std::to_string(row.size()));
    try {
      out.push_back(parser.parse(row, {kCsv, at}));
      positions.push_back(at);
    } catch (const Error& error) {
      check_csv_error(error);
    }
  }
  if (out.empty()) return out;
  lines.seek(positions[out.size() / 2]);
  promise_of_csv(lines.next(row), "a stream goes on where it was", "it has ended");
  const Row again = parser.parse(row, {kCsv, 0});
  for (std::size_t i = 0; i < again.size(); ++i)
    if (!is_floating(again[i].dtype()))
      promise_of_csv(bitwise_equal(again[i], out[out.size() / 2][i]), "a stream goes on where it was",
                     std::string(row));
  return out;
}

bool same_value(const Tensor& a, const Tensor& b) {
  if (a.dtype() == DType::f32 && std::isnan(a.item<float>())) return std::isnan(b.item<float>());
  if (a.dtype() == DType::f64 && std::isnan(a.item<double>())) return std::isnan(b.item<double>());
  return bitwise_equal(a, b);
}

// Text that needs quotes where there are none is refused.
bool write_rows(MemoryFileSystem& files, const BatchSchema& schema, const CsvFormat& format,
                const std::vector<Row>& rows) {
  const auto file = files.create(kCsv);
  try {
    CsvWriter writer(*file, schema, format);
    for (const Row& row : rows) {
      Row batch;
      for (const Tensor& field : row) batch.push_back(field.reshaped(Shape{1}));
      writer.write(batch);
    }
  } catch (const Error& error) {
    promise_of_csv(error.code() == Code::invalid_argument && format.quote == '\0', "rows that are read can be written",
                   error.to_string());
    return false;
  }
  return true;
}

}  // namespace

std::size_t read_csv_of_stranger(std::string_view input) {
  if (input.empty()) return 0;
  const auto choice = static_cast<unsigned char>(input[0]);
  const CsvFormat format = csv_format(choice);
  LineOptions options = csv_lines(format, {.skip_damaged = (choice & kSkipDamaged) != 0, .most_bytes = kMostRowBytes});
  MemoryFileSystem files;
  files.create(kCsv);
  files.content(kCsv) = input.substr(1);
  std::vector<Row> rows;
  std::optional<CsvParser> parser;
  try {
    parser.emplace(CsvOptions{.format = format, .columns = columns_of(files, choice)});
    rows = read_rows(files, *parser, options);
  } catch (const Error& error) {
    check_csv_error(error);
    return 0;
  }
  if (!write_rows(files, parser->schema(), format, rows)) return rows.size();
  options.records.most_bytes = 1 << 20;  // quotes and longer numbers
  LineStream lines(files, kCsv, options);
  std::string_view line;
  try {
    for (const Row& row : rows) {
      promise_of_csv(lines.next(line), "what is written is read", "rows are missing");
      const Row again = parser->parse(line, {kCsv, 0});
      for (std::size_t i = 0; i < row.size(); ++i)
        promise_of_csv(same_value(row[i], again[i]), "what is written is read", std::string(line));
    }
    promise_of_csv(!lines.next(line), "what is written is read", "there are more rows");
  } catch (const Error& error) {
    promise_of_csv(false, "rows that are written can be read", error.to_string());
  }
  return rows.size();
}

std::vector<std::string> csv_seeds() {
  const auto seed = [](unsigned choice, const char* text) { return std::string(1, static_cast<char>(choice)) + text; };
  return {seed(kHeader, "id,x,\"na\"\"me\"\n1,0.5,\"a,\nb\"\n-2,nan,\"\"\"\"\n3,1e30,c\"d\n"),
          seed(kGivenDtypes, "1.5,text,-7,2e-300,255,true,9\r\n+inf,\"\", 8 ,-0,0,0,-1\r\n1e-60,,1,1,1,FALSE,1"),
          seed(1 | kNoQuotes, "\"a\t1\t\n\n\"\t2\t3\n'\t4\t\n"),
          seed(2 | kHeader | kSkipDamaged,
               "\xef\xbb\xbf"
               "a;b\n1;\"2\"\n3;\"\n\"\n"),
          seed(3 | kHeader | kGivenDtypes, "a b c\n1 x 2\n3 \"y z\" 4\n")};
}

}  // namespace troupe
