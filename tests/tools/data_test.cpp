// troupe-data as a process, on files that were written here; its summaries alone. Files of NumPy and TensorFlow:
// tests/python/data_files_test.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/apps/process.hpp"
#include "tests/kernels/readers/compressed.hpp"
#include "tests/kernels/readers/image_files.hpp"
#include "tests/paths.hpp"
#include "tests/temporary_directory.hpp"
#include "tools/data/element_text.hpp"
#include "tools/data/progress.hpp"
#include "tools/data/summary.hpp"
#include <troupe/kernels/readers/example.hpp>
#include <troupe/kernels/readers/npz.hpp>
#include <troupe/kernels/readers/tfrecord.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Process;
using ::testing::StartsWith;

struct DataRan {
  int code = 0;
  std::string out, err;
  std::vector<nlohmann::json> lines() const {
    std::vector<nlohmann::json> found;
    std::istringstream in(out);
    for (std::string line; std::getline(in, line);) found.push_back(nlohmann::json::parse(line));
    return found;
  }
};

class DataTool : public ::testing::Test {
 protected:
  // In the directory.
  DataRan run(std::vector<std::string> arguments) const {
    std::vector<std::string> command = {
        "/bin/sh", "-c", "cd \"$1\" && shift && exec \"$@\"", "sh", directory_.path(), testing::program("troupe-data")};
    command.insert(command.end(), arguments.begin(), arguments.end());
    Process process(std::move(command));
    const int code = process.wait();
    return {code, process.out, process.err};
  }
  std::string run_well(std::vector<std::string> arguments) const {
    const DataRan ran = run(std::move(arguments));
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.out;
  }
  void write(const std::string& name, const std::string& content) const { directory_.write(name, content); }
  std::string content(const std::string& name) const { return testing::content_of(directory_.file(name)); }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path()))
      out.push_back(entry.path().filename());
    std::ranges::sort(out);
    return out;
  }

  testing::TemporaryDirectory directory_;
};

const std::string kPoints = "x_0,x_1,label\n1.5,-2,3\n0.25,1e-3,4\n-0,7,5\n";

TEST_F(DataTool, TeachesWhatItDoes) {
  const DataRan help = run({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("troupe-data convert points.csv points.npz"), HasSubstr("Exit code:")));
  EXPECT_THAT(run({"--version"}).out, StartsWith("troupe-data "));
  for (const auto& wrong : std::vector<std::vector<std::string>>{
           {}, {"info"}, {"convert", "a"}, {"mend", "a"}, {"head", "a", "b"}, {"info", "a", "--record-bytes", "0"}}) {
    SCOPED_TRACE(::testing::PrintToString(wrong));
    const DataRan refused = run(wrong);
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.out, IsEmpty());
    EXPECT_THAT(refused.err, HasSubstr("--help"));
  }
}

TEST_F(DataTool, TellsWhatFilesAre) {
  write("points.csv", kPoints);
  const std::string text = run_well({"info", "points.csv"});
  EXPECT_THAT(text,
              StartsWith("points.csv: csv\n  files     1 file, 42 B\n"
                         "  schema    x_0:f32,x_1:f32,label:i64 (inferred from the first 1000 rows)\n"
                         "  elements  not known before all are read\n  access    forward: stage 'lines behind 1"));
  EXPECT_THAT(text, HasSubstr("reads its files in order; troupe-data index makes it addressable\n  splits    1\n"));
  write("more.csv.gz", testing::gzip(kPoints));
  EXPECT_THAT(run_well({"info", "more.csv.gz"}),
              AllOf(StartsWith("more.csv.gz: csv, compressed: gzip\n"), Not(HasSubstr("troupe-data index"))));
  run_well({"convert", "points.csv", "points.npz"});
  const auto info = nlohmann::json::parse(run_well({"info", "points.npz", "--json"}));
  EXPECT_EQ(info["format"], "npz");
  EXPECT_EQ(info["elements"], 3);
  EXPECT_EQ(info["addressable"], true);
  EXPECT_EQ(info["schema"], "x_0:f32,x_1:f32,label:i64");
}

TEST_F(DataTool, FormatsAreRecognisedByTheirFirstBytes) {
  write("points.csv", kPoints);
  for (const std::string out : {"a.tfrecord", "a.npz", "a.jsonl", "a.tsv"}) {
    run_well({"convert", "points.csv", out});
    std::filesystem::rename(directory_.file(out), directory_.file("unnamed"));
    EXPECT_THAT(run_well({"info", "unnamed"}), StartsWith("unnamed: " + out.substr(2) + "\n"));
    write("unnamed", testing::zstd(content("unnamed")));
    if (out != "a.npz") EXPECT_THAT(run_well({"info", "unnamed"}), HasSubstr(out.substr(2) + ", compressed: zstd\n"));
  }
  write("unnamed", "one\ntwo\n");
  EXPECT_THAT(run_well({"head", "unnamed"}), StartsWith("     0  text string[] = \"one\"\n"));
  write("unnamed", std::string("\1\2\3\4\5\6\7\0", 8));
  EXPECT_THAT(run({"info", "unnamed"}).err, HasSubstr("pass --format, or --record-bytes N"));
  EXPECT_THAT(run_well({"head", "unnamed", "--record-bytes", "4"}),
              "     0  record u8[4] = 1 2 3 4\n     1  record u8[4] = 5 6 7 0\n");
  EXPECT_THAT(run_well({"info", "unnamed", "--record-bytes", "3", "--header-bytes", "2"}),
              HasSubstr("  elements  2\n"));
  write("unnamed", std::string("\0\0\x08\1\0\0\0\2\7\x09", 10));
  EXPECT_THAT(run_well({"info", "unnamed"}), StartsWith("unnamed: idx\n"));
  EXPECT_THAT(run({"info", "gone"}).err, HasSubstr("gone"));
  EXPECT_THAT(run({"info", "points.csv", "--format", "parquet"}).err,
              HasSubstr("unknown format 'parquet': pass tfrecord, "));
  EXPECT_THAT(run({"info", "points.csv", "--format", "fixed"}).err, HasSubstr("pass --record-bytes N"));
  EXPECT_THAT(run({"info", "unnamed", "--schema", "x:u8"}).err, HasSubstr("idx has its own"));
}

TEST_F(DataTool, ShowsTheFirstElements) {
  write("a.jsonl", "{\"name\":\"é \\\"q\\\"\\n\",\"at\":{\"x\":[1.5,2]}}\n{\"name\":\"\",\"at\":{\"x\":[0.1,-1]}}\n");
  EXPECT_EQ(run_well({"head", "a.jsonl", "--count", "1"}),
            "     0  at.x f32[2] = 1.5 2\n        name string[] = \"é \\\"q\\\"\\n\"\n");
  EXPECT_EQ(run_well({"head", "a.jsonl", "--json"}),
            "{\"at\":{\"x\":[1.5,2.0]},\"name\":\"é \\\"q\\\"\\n\"}\n{\"at\":{\"x\":[0.1,-1.0]},\"name\":\"\"}\n");
  EXPECT_EQ(run_well({"head", "a.jsonl", "--components", "name", "--count", "1"}),
            "     0  name string[] = \"é \\\"q\\\"\\n\"\n");
  EXPECT_EQ(run_well({"head", "a.jsonl", "--count", "0"}), "");
  EXPECT_THAT(run({"head", "a.jsonl", "--components", "y"}).err,
              HasSubstr("has no component 'y': it has at.x f32[2], name string[]"));
}

TEST_F(DataTool, ElementsGoThroughAllFormatsUnchanged) {
  write("points.csv", kPoints);
  const std::string head = run_well({"head", "points.csv", "--json"});
  std::string from = "points.csv";
  for (const std::string to : {"a.tfrecord", "b.jsonl", "c.npz", "d.tsv", "e.tfrecord.gz", "f.jsonl.gz", "g.csv.gz"}) {
    EXPECT_THAT(run_well({"convert", from, to}), HasSubstr(", 3 elements, "));
    EXPECT_EQ(run_well({"head", to, "--json", "--components", "x_0,x_1,label"}), head) << to;
    EXPECT_THAT(run_well({"verify", to}), HasSubstr("whole"));
    from = to;
  }
  EXPECT_EQ(content("d.tsv").substr(0, 14), "label\tx_0\tx_1\n") << "Examples have their features by name";
  run_well({"convert", "c.npz", "h.npy", "--components", "label"});
  EXPECT_THAT(run({"convert", "h.npy", "h.idx"}).err, HasSubstr("IDX has no i64 ('array')"));
  run_well({"convert", "c.npz", "h.idx", "--components", "x_1"});
  EXPECT_EQ(run_well({"head", "h.idx", "--count", "2"}), "     0  array f32[] = -2\n     1  array f32[] = 0.001\n");
  for (const std::string& name : names()) EXPECT_THAT(name, Not(HasSubstr("tmp-"))) << "nothing is left over";
}

TEST_F(DataTool, ImagesAreBytesOfExamples) {
  write("images", std::string("\0\0\x08\3\0\0\0\2\0\0\0\2\0\0\0\2", 16) + "abcdefgh");
  write("labels.gz", testing::gzip(std::string("\0\0\x08\1\0\0\0\2\7\x09", 10)));
  const std::string mnist = "image=images,label=labels.gz";
  EXPECT_THAT(run_well({"info", mnist}),
              AllOf(HasSubstr("schema    image:u8[2,2],label:u8 (of the files)\n  elements  2\n"),
                    HasSubstr("'labels.gz' is compressed (gzip)\n  splits    1\n")));
  EXPECT_THAT(run_well({"convert", mnist, "mnist.tfrecord"}),
              HasSubstr("\nread it with --schema 'image:u8[2,2],label:i64'\n"));
  EXPECT_EQ(run_well({"head", "mnist.tfrecord", "--count", "1"}),
            "     0  image string[] = \"abcd\"\n        label i64[] = 7\n");
  EXPECT_EQ(run_well({"head", "mnist.tfrecord", "--schema", "image:u8[2,2],label:i64"}),
            "     0  image u8[2,2] = 97 98 99 100\n        label i64[] = 7\n     1  image u8[2,2] = 101 102 103 104\n"
            "        label i64[] = 9\n");
  EXPECT_THAT(run_well({"convert", mnist, "mnist.csv"}), HasSubstr("--schema 'image:i64[4],label:i64'"));
  EXPECT_EQ(run_well({"head", "mnist.csv", "--schema", "image:u8[4],label:i64", "--count", "1"}),
            "     0  image u8[4] = 97 98 99 100\n        label i64[] = 7\n");
  run_well({"convert", mnist, "again.idx", "--components", "image"});
  EXPECT_EQ(content("again.idx"), content("images"));
}

TEST_F(DataTool, WhatRecordsLackIsNotedOrHasAFallback) {
  write("a.jsonl", R"({"n":1,"s":"a","l":[1],"m":{"x":1.5},"e":[],"k":[[1],[2,3]],"v":1})"
                   "\n\n"
                   R"({"m":{"x":2},"e":[],"k":[[1],[2]],"v":"one"})"
                   "\n");
  const DataRan head = run({"head", "a.jsonl", "--json"});
  EXPECT_EQ(head.out, "{\"l\":[1],\"m\":{\"x\":1.5},\"s\":\"a\"}\n{\"l\":[],\"m\":{\"x\":2.0},\"s\":\"\"}\n");
  EXPECT_THAT(head.err, AllOf(HasSubstr("field 'n' is left out: it is missing in 1 of 2 records"),
                              HasSubstr("field 'e' is left out: it has empty arrays only"),
                              HasSubstr("field 'k' is left out: it has arrays that are uneven or of several types"),
                              HasSubstr("field 'v' is left out: it is i64[] and string[]: pass --schema to read it")));
  write("deep.jsonl", "{\"x\":" + std::string(100'000, '[') + "\n");
  EXPECT_THAT(run({"head", "deep.jsonl"}).err, HasSubstr("deep.jsonl: byte 0: arrays and objects nest deeper than 64"));
  std::string bytes;
  for (const char* name : {"x", "y"})
    bytes += record_of(example_of(
        std::vector<NamedTensor>{{"n", Tensor::scalar<std::int64_t>(1)}, {name, Tensor::scalar<std::int64_t>(7)}}));
  write("a.tfrecord", bytes);
  EXPECT_EQ(run_well({"head", "a.tfrecord", "--json"}), "{\"n\":1,\"x\":[7],\"y\":[]}\n{\"n\":1,\"x\":[],\"y\":[7]}\n");
}

TEST_F(DataTool, NoElementsAreConvertedToo) {
  write("a.csv", "x,y\n");
  EXPECT_THAT(run_well({"convert", "a.csv", "a.npz", "--schema", "x:f32"}), HasSubstr("npz, 0 elements"));
  EXPECT_THAT(run_well({"info", "a.npz"}), HasSubstr("  elements  0\n"));
  EXPECT_THAT(run_well({"convert", "a.csv", "a.tfrecord"}), HasSubstr("0 elements, 0 B"));
  write("lines.csv", "t\n\"two\nlines\"\n");
  EXPECT_THAT(run({"convert", "lines.csv", "lines.txt"}).err, HasSubstr("element 0 has several lines"));
}

TEST_F(DataTool, SchemasThatCannotBeAreRefused) {
  write("points.csv", kPoints);
  for (const auto& [schema, why] :
       std::vector<std::pair<std::string, std::string>>{{"x_0", "'x_0' is no NAME:DTYPE[DIMENSIONS]"},
                                                        {"x_0:f31", "'f31' of 'x_0' is no dtype"},
                                                        {"x:f32[2", "have no ']'"},
                                                        {"x:f32[2.5]", "'2.5' of 'x' is no dimension"},
                                                        {"x:f32[-1]", "'-1' of 'x' is no dimension"},
                                                        {"x:f32[1,2]", "columns of a table make scalars or vectors"},
                                                        {"x:f32[?]", "columns of a table make scalars or vectors"},
                                                        {"y:f32", "'y'"},
                                                        {"x_0:f32,x_0:f32", "x_0"}}) {
    SCOPED_TRACE(schema);
    const DataRan refused = run({"head", "points.csv", "--schema", schema});
    EXPECT_EQ(refused.code, 1);
    EXPECT_THAT(refused.err, HasSubstr(why));
  }
}

TEST_F(DataTool, FoldersOfImagesAreReadAndConverted) {
  const auto image = [](unsigned height, unsigned shade) {
    return testing::png_file(std::vector<unsigned>(static_cast<std::size_t>(height) * 2 * 3, shade), height, 2,
                             {.type = PNG_COLOR_TYPE_RGB, .depth = 8});
  };
  for (const char* folder : {"set", "set/cat", "set/dog"}) std::filesystem::create_directory(directory_.file(folder));
  write("set/cat/1.png", image(3, 7));
  write("set/dog/1.png", image(3, 9));
  EXPECT_THAT(run_well({"info", "set"}), AllOf(StartsWith("set: images\n  files     2 images in 2 folders, "),
                                               HasSubstr("  schema    image:u8[?,?,3],label:i64 (2 classes by folder)\n"
                                                         "  classes   cat, dog\n  elements  2\n")));
  EXPECT_THAT(run_well({"head", "set", "--count", "1"}), StartsWith("     0  image u8[3,2,3] = 7 7 7 7 7 7 7 7 ...\n"));
  EXPECT_THAT(run_well({"convert", "set", "set.tfrecord"}), HasSubstr("--schema 'image:u8[3,2,3],label:i64'\n"));
  EXPECT_THAT(run_well({"stats", "set.tfrecord", "--schema", "image:u8[3,2,3]"}),
              HasSubstr("36 values: 7 to 9, mean 8, deviation 1;"));
  run_well({"convert", "set", "files.tfrecord", "--encoded"});
  EXPECT_THAT(run_well({"head", "files.tfrecord"}), HasSubstr("image string[] = \"\\x89PNG"));
  write("set/dog/2.png", image(4, 9));
  EXPECT_THAT(run({"convert", "set", "set.npz"}).err,
              HasSubstr("'image' of element 2 is u8[4,2,3], but those before are [3,2,3]"));
  write("set/dog/3.png", image(4, 9).substr(0, 50));
  const DataRan verified = run({"verify", "set"});
  EXPECT_EQ(verified.code, 1);
  EXPECT_THAT(verified.out, AllOf(HasSubstr("damaged: set/dog/3.png: "), HasSubstr("set: 3 elements, 1 damaged\n")));
}

TEST_F(DataTool, WhatAFormatCannotHoldIsRefusedAndTheOldFileStays) {
  write("a.jsonl", "{\"s\":\"text\",\"r\":[1]}\n{\"s\":\"b\",\"r\":[1,2]}\n");
  for (const std::string out : {"o.npz", "o.csv", "o.idx", "o.txt"}) write(out, "old");
  EXPECT_THAT(run({"convert", "a.jsonl", "o.npz"}).err,
              HasSubstr("component 's' is string[], but npz has numbers only; --components leaves components out"));
  EXPECT_THAT(run({"convert", "a.jsonl", "o.csv"}).err, HasSubstr("'r' of element 1 is i64[2], but those before are"));
  EXPECT_THAT(run({"convert", "a.jsonl", "o.idx"}).err, HasSubstr("idx holds one component, not 2: r:i64[?],s:string"));
  EXPECT_THAT(run({"convert", "a.jsonl", "o.txt", "--components", "r"}).err, HasSubstr("text has lines"));
  for (const std::string out : {"o.npz", "o.csv", "o.idx", "o.txt"}) EXPECT_EQ(content(out), "old") << out;
  EXPECT_THAT(names(), ElementsAre("a.jsonl", "o.csv", "o.idx", "o.npz", "o.txt"));
  EXPECT_THAT(run({"convert", "a.jsonl", "a.jsonl"}).err, HasSubstr("is read and written"));
  EXPECT_THAT(run({"convert", "a.jsonl", "o.dat"}).err, HasSubstr("its name does not say its format"));
  EXPECT_THAT(run({"convert", "a.jsonl", "o.csv.zst", "--components", "s"}).err, HasSubstr("plain or as .gz"));
  run_well({"convert", "a.jsonl", "o.txt", "--components", "s"});
  EXPECT_EQ(content("o.txt"), "text\nb\n");
  run_well({"convert", "a.jsonl", "o.tfrecord"});
  EXPECT_EQ(run_well({"head", "o.tfrecord", "--json"}), "{\"r\":[1],\"s\":\"text\"}\n{\"r\":[1,2],\"s\":\"b\"}\n");
  write_npz(posix_file_system(), directory_.file("wide.npz"),
            std::vector<NamedTensor>{{"x", Tensor::vector<double>({0.1, NAN})}});
  EXPECT_THAT(run({"convert", "wide.npz", "o.tfrecord"}).err, HasSubstr("keeps f32 only: pass --f32"));
  run_well({"convert", "wide.npz", "o.tfrecord", "--f32"});
  EXPECT_THAT(run({"convert", "wide.npz", "o.jsonl"}).err, HasSubstr("'o.jsonl': element 1: 'x' has a value nan"));
}

TEST_F(DataTool, DamageIsNamedWithFileAndOffset) {
  std::string bytes;
  for (int i = 0; i < 20; ++i)
    bytes += record_of(example_of(std::vector<NamedTensor>{{"x", Tensor::scalar(static_cast<float>(i))}}));
  const std::size_t each = bytes.size() / 20;
  write("a.tfrecord", bytes);
  EXPECT_EQ(run_well({"verify", "a.tfrecord"}), "a.tfrecord: 20 elements, whole\n");
  bytes[5 * each + 20] ^= 1;
  write("b.tfrecord", bytes);
  const DataRan found = run({"verify", "*.tfrecord"});
  EXPECT_EQ(found.code, 1);
  EXPECT_THAT(found.out, AllOf(StartsWith("damaged: b.tfrecord: "), HasSubstr(fmt::format("byte {}", 5 * each)),
                               HasSubstr("*.tfrecord: 39 elements, 1 damaged\n")));
  const DataRan skipped = run({"verify", "b.tfrecord", "--skip", "--json"});
  EXPECT_EQ(skipped.code, 1);
  EXPECT_EQ(skipped.lines().back()["elements"], 19);
  EXPECT_EQ(skipped.lines().back()["damaged"], 1);
  EXPECT_THAT(run_well({"convert", "b.tfrecord", "b.npy", "--skip"}), HasSubstr("19 elements, "));
  EXPECT_EQ(run({"convert", "b.tfrecord", "b2.npy"}).code, 1);
  EXPECT_THAT(run_well({"stats", "b.tfrecord", "--skip"}), StartsWith("b.tfrecord: 19 elements, 1 damaged ones left"));

  write("c.csv", kPoints + "1,2\n3,4,5\n1,x,2\n");
  EXPECT_EQ(run({"verify", "c.csv", "--schema", "x_1:f32"}).out,
            "damaged: c.csv: byte 42: the row has 2 columns, but must have 3\n"
            "damaged: c.csv: byte 52: column 2 of 3 ('x_1'): 'x' is no f32\n"
            "c.csv: 4 elements, 2 damaged\n");
  // What is damaged has no part in the schema.
  write("e.csv", kPoints + "1,2\n");
  EXPECT_EQ(run({"verify", "e.csv"}).out,
            "damaged: e.csv: byte 42: the row has 2 columns, but must have 3\ne.csv: 3 elements, 1 damaged\n");
  EXPECT_THAT(run_well({"stats", "e.csv", "--skip"}), StartsWith("e.csv: 3 elements, 1 damaged ones left"));
  EXPECT_EQ(run({"stats", "e.csv"}).code, 1);
  write("f.jsonl", "{\"x\": 1}\n{\"x\": 2\n{\"x\": 3}\n");
  EXPECT_THAT(run({"verify", "f.jsonl"}).out,
              AllOf(StartsWith("damaged: f.jsonl: byte 9: not JSON"), HasSubstr("f.jsonl: 2 elements, 1 damaged\n")));
  EXPECT_THAT(run_well({"stats", "f.jsonl", "--skip"}), HasSubstr("2 values: 1 to 3"));
  EXPECT_THAT(run({"head", "f.jsonl"}).err, HasSubstr("f.jsonl: byte 9: not JSON"));
  write("g.jsonl", "{\n");
  EXPECT_THAT(run({"stats", "g.jsonl", "--skip"}).err, HasSubstr("g.jsonl: byte 0: not JSON"));
  write("h.jsonl", std::string((64 << 20) + 1, 'x'));
  EXPECT_THAT(run({"stats", "h.jsonl", "--skip"}).err, HasSubstr("h.jsonl: byte 0: the line has more than 67108864"));
  write_npz(posix_file_system(), directory_.file("d.npz"),
            std::vector<NamedTensor>{{"x", Tensor::zeros(DType::f32, {1000})}});
  std::string npz = content("d.npz");
  npz[npz.size() / 2] ^= 1;
  write("d.npz", npz);
  EXPECT_THAT(run({"verify", "d.npz"}).out, AllOf(HasSubstr("damaged: 'd.npz': zip archive: 'x.npy' has checksum"),
                                                  HasSubstr("d.npz: 1 file, 1 damaged\n")));
  EXPECT_EQ(run({"verify", "d.npz"}).code, 1);
}

TEST_F(DataTool, RecordsThatLackAFeatureAreWhole) {
  std::string bytes;
  for (int i = 0; i < 150; ++i)
    bytes +=
        record_of(example_of(std::vector<NamedTensor>{{i < 120 ? "x" : "y", Tensor::scalar(static_cast<float>(i))}}));
  write("a.tfrecord", bytes);
  EXPECT_EQ(run_well({"verify", "a.tfrecord"}), "a.tfrecord: 150 elements, whole\n");
  EXPECT_THAT(run({"verify", "a.tfrecord", "--schema", "x:f32"}).out,
              AllOf(HasSubstr("'x'"), HasSubstr("120 elements, 30 damaged")));
  EXPECT_THAT(run_well({"stats", "a.tfrecord", "--schema", "x:f32=-1"}), HasSubstr("150 values: -1 to 119"));
  write("raw.tfrecord", record_of("no Example"));
  const DataRan raw = run({"head", "raw.tfrecord"});
  EXPECT_EQ(raw.out, "     0  record string[] = \"no Example\"\n");
  EXPECT_THAT(raw.err, HasSubstr("records are no tf.train.Examples"));
}

TEST_F(DataTool, IndicesAreMadeOnceAndReplacedWhenTheyAreStale) {
  write("a.csv", kPoints);
  write("b.csv", kPoints);
  EXPECT_EQ(run_well({"index", "?.csv"}), "made a.csv.index: 3 records\nmade b.csv.index: 3 records\n");
  EXPECT_THAT(run_well({"info", "?.csv"}), HasSubstr("  elements  6\n  access    addressable"));
  write("b.csv", kPoints + "1,2,3\n");
  EXPECT_THAT(run({"info", "?.csv"}).err, HasSubstr("b.csv.index: is not of the file as it is now"));
  EXPECT_EQ(run_well({"index", "?.csv"}), "a.csv.index is current: 3 records\nreplaced b.csv.index: 4 records\n");
  EXPECT_EQ(run({"index", "b.csv", "--json"}).lines()[0]["did"], "current");
  write("c.csv.gz", testing::gzip(kPoints));
  const DataRan packed = run({"index", "c.csv.gz"});
  EXPECT_EQ(packed.code, 1);
  EXPECT_THAT(packed.err, HasSubstr("c.csv.gz: is compressed (gzip)"));
  run_well({"convert", "a.csv", "a.npz"});
  EXPECT_THAT(run_well({"index", "a.npz"}), HasSubstr("needs no index"));
}

TEST_F(DataTool, SummarisesValues) {
  write("a.csv", "x,n,s\n1,0,red\nnan,-5,red\ninf,7,\"blue, dark\"\n3,0,\n");
  EXPECT_EQ(run_well({"stats", "a.csv"}),
            "a.csv: 4 elements\nx f32[]\n"
            "  4 values: 1 to inf, mean 2, deviation 1; 0 zeros, 1 NaN, 1 infinite\nn i64[]\n"
            "  4 values: -5 to 7, mean 0.5, deviation 4.272; 2 zeros\ns string[]\n"
            "  4 values of 0 to 10 bytes, mean 4.0; 3 distinct, 1 empty\n"
            "             2 \"red\"\n             1 \"\"\n             1 \"blue, dark\"\n");
  const auto lines = run({"stats", "a.csv", "--json"}).lines();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["max"], nullptr) << "JSON has no infinity";
  EXPECT_EQ(lines[1]["min"], -5);
  EXPECT_EQ(lines[2]["most_frequent"][0]["count"], 2);
}

TEST_F(DataTool, OutputThatIsLostIsAFailure) {
  write("a.csv", kPoints);
  Process process(
      {"/bin/sh", "-c", testing::program("troupe-data") + " head " + directory_.file("a.csv") + " >/dev/full"});
  EXPECT_EQ(process.wait(), 1);
  EXPECT_THAT(process.err, HasSubstr("cannot write all results to stdout"));
}

TEST(DataSummary, NumbersAreExactAtTheEndsOfTheirTypes) {
  data_tool::NumberSummary whole, large;
  whole.add(Tensor::vector<std::int64_t>({std::numeric_limits<std::int64_t>::min(), -1, 0}));
  EXPECT_EQ(whole.least, static_cast<long double>(std::numeric_limits<std::int64_t>::min()));
  large.add(Tensor::vector<std::uint64_t>({std::numeric_limits<std::uint64_t>::max(), 1}));
  EXPECT_EQ(static_cast<std::uint64_t>(large.greatest), std::numeric_limits<std::uint64_t>::max());
  data_tool::NumberSummary far;  // a naive sum of squares has nothing left of these
  far.add(Tensor::vector<double>({1e9 + 1, 1e9 + 2, 1e9 + 3}));
  EXPECT_NEAR(far.deviation(), std::sqrt(2.0 / 3), 1e-9);
  data_tool::NumberSummary one;  // whose mean is rounded
  one.add(Tensor::vector<std::uint64_t>({std::numeric_limits<std::uint64_t>::max()}));
  EXPECT_EQ(one.deviation(), 0);
}

TEST(DataSummary, ManyDifferentStringsTakeBoundedMemory) {
  data_tool::StringSummary summary;
  constexpr int kDifferent = 150'000;
  for (int i = 0; i < kDifferent; ++i) {
    summary.add(fmt::format("text {}", i));
    if (i % 3 == 0) summary.add("often");
  }
  EXPECT_FALSE(summary.exact());
  EXPECT_NEAR(static_cast<double>(summary.distinct()), kDifferent + 1, 0.04 * kDifferent);
  const auto frequent = summary.most_frequent(3);
  ASSERT_FALSE(frequent.empty());
  EXPECT_EQ(frequent[0].first, "often");
  EXPECT_LE(frequent[0].second, 50'000u);
  EXPECT_GT(frequent[0].second, 40'000u);
  data_tool::StringSummary few;
  for (int i = 0; i < 1000; ++i) few.add(std::to_string(i % 10));
  EXPECT_TRUE(few.exact());
  EXPECT_EQ(few.distinct(), 10u);
}

TEST(DataText, BytesThatAreNoTextAreEscapedAndCut) {
  using data_tool::shown_string;
  EXPECT_EQ(shown_string("a\tb\\"), "\"a\\x09b\\\\\"");
  EXPECT_EQ(shown_string("\xff\xd8\xff\xe0 and more bytes behind"),
            "\"\\xff\\xd8\\xff\\xe0 and more by\"... (26 bytes)");
  EXPECT_EQ(shown_string("ééé", 3), "\"é\"... (6 bytes)") << "not within a character";
}

TEST(DataText, TheBarTellsTheTimeLeft) {
  using data_tool::bar_text;
  EXPECT_EQ(bar_text("reading", 0.5, 10, 60), "reading [================>                ] 50 %  10 s left");
  EXPECT_EQ(bar_text("reading", 0, 0, 30), "reading [>              ] 0 %");
  EXPECT_EQ(bar_text("reading", 0.25, 600, 24), "reading 25 %  30 min le");
  EXPECT_LT(bar_text("reading", 1.5, 3, 30).size(), 30u);
}

}  // namespace
}  // namespace troupe
