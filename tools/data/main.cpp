// troupe-data: looks at data sets, checks and converts them.
#include <fmt/core.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "tools/data/commands.hpp"
#include <troupe/devices/storage/file_systems.hpp>
#include <troupe/messages/command_line.hpp>

namespace {

using namespace troupe;

constexpr const char* kDescription =
    R"(Looks at data sets, checks them and converts them: TFRecord files with tf.train.Examples, CSV and tab-separated
values, JSON lines, lines of text, NumPy's .npy and .npz, IDX (MNIST's format), folders of JPEG and PNG images, and
records of a fixed size; plain, or compressed by gzip or zstd. The format follows from the name or from the first bytes.

  troupe-data info 'train-*.tfrecord.gz'       format, schema, number of elements, how it can be read
  troupe-data head points.csv --count 3        the first elements
  troupe-data stats points.npz                 minimum, maximum, mean, deviation; of strings the most frequent ones
  troupe-data verify 'train-*.tfrecord'        reads every byte; names what is damaged, with file and offset
  troupe-data index train.tfrecord             makes train.tfrecord.index: records can be read by their numbers
  troupe-data convert points.csv points.npz    the same elements in another format

IN is a file, a pattern (quote it: * and ? stand for parts of names), a folder with a folder of images for each class,
or IDX files whose rows belong together:

  troupe-data convert image=train-images-idx3-ubyte.gz,label=train-labels-idx1-ubyte.gz mnist.npz

Names and types of CSV are inferred from the first 1,000 rows; those of Examples and of JSON from the first 100 records.
What does not follow from them is given, as are parts of what is there:

  troupe-data head train.tfrecord --schema 'image:u8[28,28],label:i64'
  troupe-data stats users.jsonl --schema 'age:i64=0,name:string'       =0: in place of what is missing
  troupe-data convert digits.npz labels.idx --components label
  troupe-data convert flowers flowers.tfrecord --encoded               the files of a folder of images, and their labels

Paths may be https:// and s3:// (AWS_... in the environment); there is no OUT there:

  troupe-data convert 's3://bucket/train-*.csv' train.tfrecord

OUT ends in .tfrecord, .csv, .tsv, .jsonl, .txt (each also with .gz), .npy, .npz or .idx. It is replaced when all is
written; memory is bounded, whatever the number of elements. u8 arrays become one byte string of an Example.

Exit code: 0 success (verify: all is whole), 1 damage or a failure, 2 wrong usage.)";

// Returns `code`, or 1 if stdout could not be written.
int end_output(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  fmt::print(stderr, "troupe-data: cannot write all results to stdout: {}\n", std::strerror(errno));
  return 1;
}

struct Command {
  const char* name;
  std::size_t paths;
  int (*run)(FileSystem&, const std::vector<std::string>&, const data_tool::Options&);
};

template <int (*Run)(FileSystem&, const std::string&, const data_tool::Options&)>
int with_one(FileSystem& files, const std::vector<std::string>& paths, const data_tool::Options& options) {
  return Run(files, paths[0], options);
}

constexpr Command kCommands[] = {
    {"info", 1, &with_one<data_tool::info>},
    {"head", 1, &with_one<data_tool::head>},
    {"stats", 1, &with_one<data_tool::stats>},
    {"verify", 1, &with_one<data_tool::verify>},
    {"index", 1, &with_one<data_tool::index>},
    {"convert", 2, [](FileSystem& files, const std::vector<std::string>& paths, const data_tool::Options& options) {
       return data_tool::convert(files, paths[0], paths[1], options);
     }}};

}  // namespace

int main(int argc, char** argv) {
  std::string command;
  std::vector<std::string> paths;
  data_tool::Options options;
  data_tool::InputOptions& input = options.input;
  CommandLine line("troupe-data", "info|head|stats|verify|index IN [OPTIONS] | convert IN OUT [OPTIONS]", kDescription);
  line.add_argument(text_option("COMMAND", "", command, "info, head, stats, verify, index or convert"));
  line.add_arguments({"PATH", "", "", "IN, and for convert OUT", {}}, paths);
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;
  line.add("Input",
           {text_option("--format", "NAME", input.format,
                        "Format of IN: tfrecord, csv, tsv, jsonl, text, npy, npz or idx, if its name is misleading"),
            text_option("--schema", "TEXT", input.schema,
                        "Components of tfrecord, csv, tsv and jsonl: NAME:DTYPE[DIMENSIONS]=FALLBACK,..."),
            text_option("--components", "NAMES", input.components, "Only these components, separated by commas"),
            flag("--no-header", input.no_header, "The first row of csv or tsv has no names: they are c0, c1, ..."),
            whole_option("--record-bytes", "N", input.record_bytes, 1, kMostBytes, "Records of a fixed size"),
            whole_option("--header-bytes", "N", input.header_bytes, 0, kMostBytes, "Passed over before these"),
            whole_option("--footer-bytes", "N", input.footer_bytes, 0, kMostBytes, "Passed over behind them"),
            flag("--encoded", input.encoded, "Images as the bytes of their files, not as pixels"),
            flag("--skip", input.skip, "Leave out damaged records, and count them")});
  line.add("Output", {flag("--json", options.json, "Print one JSON object per line"),
                      unsigned_option("--count", "N", options.count, "Elements that head shows"),
                      text_option("--to", "NAME", options.to, "Format of OUT, if its name does not say"),
                      flag("--f32", options.f32, "Write f64, f16 and bf16 as f32")});
  if (const auto exit = line.parse({argv + 1, argv + argc})) return end_output(finish(*exit));
  const Command* found = nullptr;
  for (const Command& known : kCommands)
    if (command == known.name) found = &known;
  if (found == nullptr)
    return finish(line.wrong(
        command.empty()
            ? "no command: pass info, head, stats, verify, index or convert"
            : fmt::format("unknown command '{}': pass info, head, stats, verify, index or convert", command)));
  if (paths.size() != found->paths)
    return finish(line.wrong(fmt::format(
        "{} takes {}", command,
        found->paths == 2 ? "two paths: IN and OUT" : "one path: put a pattern of several files in quotes")));
  try {
    return end_output(found->run(all_file_systems(), paths, options));
  } catch (...) {
    const Error error = current_error();
    std::fflush(stdout);
    fmt::print(stderr, "troupe-data: {}\n", error.message());
    return 1;
  }
}
