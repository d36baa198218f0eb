#include "tests/fuzz/json_lines_fuzz.hpp"

#include <cstdio>
#include <cstdlib>

#include "tests/actors/checkpoint/memory_file_system.hpp"
#include <troupe/kernels/readers/json_lines.hpp>
#include <troupe/kernels/readers/line_stream.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

using testing::MemoryFileSystem;

constexpr const char* kJson = "/json";
constexpr std::size_t kMostJsonLines = 2000;

void promise_of_json_lines(bool kept, const char* what, const std::string& why) {
  if (kept) return;
  std::fprintf(stderr, "broken promise of a reader of JSON lines: %s: %s\n", what, why.c_str());
  std::abort();
}

void check_json_error(const Error& error) {
  promise_of_json_lines(error.code() == Code::data_loss, "damage is data_loss", error.to_string());
  promise_of_json_lines(error.message().starts_with(kJson) && error.message().find("byte ") != std::string::npos,
                        "errors name the file and the offset", error.to_string());
}

const JsonLinesParser& fixed_fields() {
  static const JsonLinesParser parser({{.name = "x", .fallback = "0.5"},
                                       {.name = "d", .dtype = DType::f64, .shape = {2}, .fallback = "[1,2]"},
                                       {.name = "i", .dtype = DType::i8, .fallback = "0"},
                                       {.name = "m", .dtype = DType::u64, .shape = {2, 2}, .fallback = "[[1,2],[3,4]]"},
                                       {.name = "b.c", .dtype = DType::boolean, .fallback = "true"},
                                       {.name = "s", .dtype = DType::string, .fallback = "\"\""}});
  return parser;
}

const JsonLinesParser& fields_of_any_length() {
  static const JsonLinesParser parser({{.name = "ids", .dtype = DType::i64, .shape = {kUnknown}, .fallback = "[]"},
                                       {.name = "words", .dtype = DType::string, .shape = {kUnknown, 2}}});
  return parser;
}

bool parse_line_of_stranger(std::string_view line, const RecordPlace& place) {
  bool whole = true;
  try {
    static_cast<void>(fields_of_any_length().parse(line, place));
  } catch (const Error& error) {
    check_json_error(error);
    whole = false;
  }
  std::vector<Tensor> alone, row;
  for (const BatchComponent& c : fixed_fields().schema()) row.push_back(Tensor::zeros(c.dtype, c.batch_shape(2)));
  try {
    alone = fixed_fields().parse(line, place);
  } catch (const Error& error) {
    check_json_error(error);
    return false;
  }
  try {
    fixed_fields().parse(line, place, 1, row);
  } catch (const Error& error) {
    promise_of_json_lines(false, "rows are parsed as lines alone", error.to_string());
  }
  for (std::size_t i = 0; i < row.size(); ++i)
    promise_of_json_lines(bitwise_equal(row[i].rows(1, 2).reshaped(alone[i].shape()), alone[i]),
                          "rows are parsed as lines alone", alone[i].to_string());
  return whole;
}

}  // namespace

std::size_t read_json_lines_of_stranger(std::string_view input) {
  if (input.empty()) return 0;
  MemoryFileSystem files;
  files.create(kJson);
  files.content(kJson) = input.substr(1);
  std::size_t whole = 0;
  try {
    LineStream lines(files, kJson, {.records = {.most_bytes = 1 << 16}, .skip_empty = true});
    std::string_view line;
    std::size_t left = kMostJsonLines;
    for (std::uint64_t at = lines.position(); left > 0 && lines.next(line); at = lines.position(), --left)
      whole += parse_line_of_stranger(line, {kJson, at}) ? 1 : 0;
  } catch (const Error& error) {
    check_json_error(error);
  }
  return whole;
}

std::vector<std::string> json_lines_seeds() {
  const std::string first(1, '\x80');
  return {first + R"({"x":-1.5e3,"d":[0,1],"i":-128,"m":[[1,2],[3,18446744073709551615]],"b":{"c":false},"s":"a\n",)"
                  R"("ids":[1,-2],"words":[["a","b"]]})"
                  "\n\r\n"
                  R"({"words":[],"x":null,"s":"\ud83d\ude00"})",
          first + R"({"words":[["","é"],["[{","}\""]],"more":{"deep":[[[{}]]]},"x":1,"x":2})"};
}

}  // namespace troupe
