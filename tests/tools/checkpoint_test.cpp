// troupe-checkpoint as a process, on checkpoints that were saved here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/actors/checkpoint/example.hpp"
#include "tests/actors/checkpoint/forwarding_file_system.hpp"
#include "tests/apps/process.hpp"
#include "tests/paths.hpp"
#include "tools/checkpoint/commands.hpp"
#include <troupe/actors/model/saved_model.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using testing::Example;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Process;
using ::testing::StartsWith;

struct Ran {
  int code = 0;
  std::string out, err;
  std::vector<nlohmann::json> lines() const {
    std::vector<nlohmann::json> found;
    std::istringstream in(out);
    for (std::string line; std::getline(in, line);) found.push_back(nlohmann::json::parse(line));
    return found;
  }
};

Ran run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), testing::program("troupe-checkpoint"));
  Process process(std::move(arguments));
  const int code = process.wait();
  return {code, process.out, process.err};
}

class CheckpointTool : public ::testing::Test {
 protected:
  std::string path(const std::string& name = "saves") const { return directory_.path() / name; }
  std::string folder(std::uint64_t version) const { return checkpoint_folder(path(), version); }
  void save(std::uint64_t version, std::uint64_t seed, std::uint32_t shards = 2) {
    Example(seed).save(posix_file_system(), path(), {version, 1}, shards);
  }
  // Flips a bit of the first variable of a shard.
  void damage(std::uint64_t version) {
    std::fstream file(folder(version) + "/shard-00000-of-00002-0000000000000001",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(1);
    file.put('\x55');
  }

  testing::TemporaryDirectory directory_;
};

TEST_F(CheckpointTool, TeachesWhatItDoes) {
  const Ran help = run({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("troupe-checkpoint verify DIR"), HasSubstr("Exit code:"), HasSubstr("--json")));
  EXPECT_EQ(run({"diff", "--help"}).code, 0);
  EXPECT_THAT(run({"--version"}).out, StartsWith("troupe-checkpoint "));
  for (const auto& wrong :
       std::vector<std::vector<std::string>>{{}, {"ls"}, {"diff", "a"}, {"mend", "a"}, {"ls", "a", "--fast"}}) {
    SCOPED_TRACE(::testing::PrintToString(wrong));
    const Ran refused = run(wrong);
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.out, IsEmpty());
    EXPECT_THAT(refused.err, HasSubstr("--help"));
  }
}

TEST_F(CheckpointTool, ListsCheckpoints) {
  save(10, 1);
  save(20, 2, 3);
  write_shard(posix_file_system(), path(), {30, 1}, Example(3).contents(0, 2));
  const Ran listed = run({"ls", path()});
  EXPECT_EQ(listed.code, 0) << listed.err;
  EXPECT_THAT(listed.out, AllOf(HasSubstr("          10  2 shards, 12 tensors, "),
                                HasSubstr("          20  3 shards, 15 tensors, "),
                                HasSubstr("; mode sync, epoch 2 of 5, 8 of its tokens done"),
                                ContainsRegex("tensors, [0-9]+ B; "), HasSubstr("          30  incomplete: ")));
  const auto lines = run({"ls", path(), "--json"}).lines();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["state"], "committed");
  EXPECT_EQ(lines[1]["version"], 20);
  EXPECT_EQ(lines[1]["shards"], 3);
  EXPECT_EQ(lines[2]["state"], "incomplete");
}

TEST_F(CheckpointTool, ListsTheTensorsOfOne) {
  save(10, 1);
  const Ran listed = run({"ls", folder(10)});
  EXPECT_EQ(listed.code, 0) << listed.err;
  EXPECT_THAT(listed.out, HasSubstr("variable dense/kernel  f32[5,3], rows [5, 10) of 10, shard 1, 60 B, crc32c "));
  EXPECT_THAT(listed.out, HasSubstr("slot     dense/kernel/m  f32[5,3], rows [0, 5) of 10, shard 0, 60 B"));
  EXPECT_THAT(listed.out,
              AllOf(StartsWith("mode sync, 4 slots of 32, seed 1\n"), HasSubstr("step 10: epoch 2 of 5, "),
                    HasSubstr("4 of its tokens done;"), HasSubstr("shard 1: shard-00001-of-00002-0000000000000001, ")));
  const auto lines = run({"--json", "ls", folder(10)}).lines();
  ASSERT_EQ(lines.size(), 13u);
  EXPECT_EQ(lines[0]["event"], "job");
  for (const auto& [field, value] :
       {std::pair{"seed", 1}, std::pair{"slots", 4}, std::pair{"epoch", 2}, std::pair{"cursor", 4}})
    EXPECT_EQ(lines[0][field], value) << field;
  EXPECT_EQ(lines[0]["dedupe"].size(), 2u);
  EXPECT_EQ(lines[1]["event"], "tensor");
}

TEST_F(CheckpointTool, VerifiesAndNamesWhatIsDamaged) {
  save(10, 1);
  save(20, 2);
  write_shard(posix_file_system(), path(), {30, 1}, Example(3).contents(0, 2));
  EXPECT_EQ(run({"verify", path()}).code, 0);
  damage(20);
  const Ran verified = run({"verify", path()});
  EXPECT_EQ(verified.code, 1);
  EXPECT_THAT(verified.out, AllOf(HasSubstr(folder(10) + ": whole: "), HasSubstr(folder(30) + ": incomplete: "),
                                  HasSubstr(folder(20) + ": damaged: '" + folder(20) +
                                            "/shard-00000-of-00002-0000000000000001' is "
                                            "damaged: crc32c mismatch in variable 'counts'")));
  const auto lines = run({"verify", folder(20), "--json"}).lines();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["state"], "damaged");
  EXPECT_EQ(run({"verify", folder(10)}).code, 0);
  std::ofstream(folder(10) + "/MANIFEST") << "no manifest";
  EXPECT_THAT(run({"verify", folder(10)}).out, HasSubstr("/MANIFEST' is damaged: not a manifest: wrong magic bytes"));
}

// What Model::save and troupe-mnist --save write.
TEST_F(CheckpointTool, ShowsASavedModel) {
  SavedModel model;
  model.values = {{"dense/bias", Tensor::vector<float>({1, 2, 3})},
                  {"dense/kernel", Tensor::zeros(DType::f16, {500, 3})}};
  model.optimizer = {{"dense/bias/m", Tensor::vector<float>({0, 0, 0})}};
  model.signatures["predict"] = {.inputs = {{"image", {"x", DType::u8, Shape{kUnknown, 28}, "pixels, 0 to 255"}}},
                                 .outputs = {{"class", {"y", DType::f32, Shape{kUnknown, 3}}}},
                                 .description = "Which digit it is."};
  model.compiled = {{"optimizer", "sgd(learning_rate=0.1)"}};
  model.assets = {{"words.txt", "red\nblue\n"}};
  const std::string folder = directory_.path() / "model";
  save_model(posix_file_system(), folder, model);
  const Ran listed = run({"ls", folder});
  EXPECT_EQ(listed.code, 0) << listed.err;
  EXPECT_THAT(listed.out, StartsWith("model " + folder + ": 2 tensors, 1503 elements, 2.9 KiB\nparameters " +
                                     params_sha256(model.values) + "\nsaved 20"));
  EXPECT_THAT(listed.out, HasSubstr("\nsignature predict: image u8[?,28] -> class f32[?,3]: Which digit it is.\n"
                                    "  input image: pixels, 0 to 255\n"
                                    "optimizer sgd(learning_rate=0.1)\nasset words.txt, 9 B\n"
                                    "variable dense/bias  f32[3], 12 B\nvariable dense/kernel  f16[500,3], 2.9 KiB\n"
                                    "slot dense/bias/m  f32[3], 12 B\n"));
  const auto lines = run({"ls", folder, "--json"}).lines();
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_EQ(lines[0]["params_sha256"], params_sha256(model.values));
  EXPECT_EQ(lines[1]["inputs"]["image"]["shape"], "[?,28]");
  EXPECT_EQ(lines[1]["description"], "Which digit it is.");
  EXPECT_EQ(lines[1]["inputs"]["image"]["description"], "pixels, 0 to 255");
  EXPECT_EQ(lines[4]["name"], "dense/bias");
  EXPECT_EQ(lines[5]["shape"], (std::vector<int>{500, 3}));
  EXPECT_THAT(run({"verify", folder}).out, StartsWith(folder + ": whole: "));
  const std::string values = folder + "/values.safetensors";
  std::fstream(values, std::ios::in | std::ios::out | std::ios::binary).seekp(30).put('\x55');
  const Ran verified = run({"verify", folder});
  EXPECT_EQ(verified.code, 1);
  EXPECT_THAT(verified.out, StartsWith(folder + ": damaged: '" + values + "' is damaged: its SHA-256 is "));
  EXPECT_EQ(run({"ls", folder}).code, 1);
}

TEST_F(CheckpointTool, ComparesSavedModels) {
  const std::string first = directory_.path() / "first", second = directory_.path() / "second";
  const Tensor one = Tensor::scalar(1.0f);
  save_model(posix_file_system(), first, {.values = {{"bias", Tensor::vector<float>({1, 2})}, {"gone", one}}});
  save_model(posix_file_system(), second,
             {.values = {{"bias", Tensor::vector<float>({1, 5})}, {"new", one}}, .optimizer = {{"bias/m", one}}});
  EXPECT_EQ(run({"diff", first, first}).out, "equal: 2 tensors\n");
  const Ran other = run({"diff", first, second});
  EXPECT_EQ(other.code, 1);
  EXPECT_EQ(other.out,
            "variable bias: 1 of 2 elements, by at most 3\nvariable gone: only in the first\n"
            "variable new: only in the second\nslot bias/m: only in the second\ndifferences: 4\n");
  save(10, 1);
  EXPECT_THAT(run({"diff", path(), first}).err,
              HasSubstr("'" + first + "' is a saved model but '" + path() + "' is not"));
}

TEST_F(CheckpointTool, AJobThatIsDoneIsInNoEpochAfterItsLast) {
  ShardContents contents;
  contents.tensors = {{"w", TensorKind::variable, "", -1, 0, Tensor::vector<float>({1})}};
  const ShardManifest shard = write_shard(posix_file_system(), path(), {10, 1}, contents);
  CheckpointManifest manifest{{10, 1}, "", 0, {}, {shard}};
  manifest.job.epoch = manifest.job.epochs = 5;
  manifest.job.steps_per_epoch = 2;
  commit_checkpoint(posix_file_system(), path(), manifest);
  EXPECT_THAT(run({"ls", path()}).out, HasSubstr("all 5 epochs done"));
  EXPECT_THAT(run({"ls", folder(10)}).out, HasSubstr("step 10: all 5 epochs done; "));
}

TEST_F(CheckpointTool, TellsHowTwoDiffer) {
  save(10, 1, 2);
  save(20, 1, 1);
  save(30, 3, 2);
  Ran same = run({"diff", folder(10), folder(10)});
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_EQ(same.out, "equal: 10 tensors\n");
  // Another number of shards: the same variables; of the states one is missing.
  const Ran cut = run({"diff", folder(10), folder(20)});
  EXPECT_EQ(cut.code, 1);
  EXPECT_EQ(cut.out, "state seen of shard 1: only in the first\ndifferences: 1\n");
  const Ran other = run({"diff", folder(10), path()});  // the newest
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.out, AllOf(HasSubstr("variable counts: 2 of 4 elements, by at most 2\n"),
                               HasSubstr("slot dense/kernel/m: 30 of 30 elements, by at most 2\n"),
                               HasSubstr("variable labels: 1 of 3 elements\n")));
  const auto lines = run({"diff", folder(10), folder(30), "--json"}).lines();
  EXPECT_EQ(lines.back()["event"], "summary");
  EXPECT_EQ(lines.back()["differences"], static_cast<int>(lines.size()) - 1);
  EXPECT_EQ(lines.front()["differ"], 2);
  EXPECT_EQ(lines.front()["greatest"], 2.0);
}

TEST_F(CheckpointTool, DifferencesOfAnySizeAreTold) {
  const auto save_values = [&](std::uint64_t version, float real, std::int64_t whole, DType dtype) {
    ShardContents contents;
    contents.tensors = {{"real", TensorKind::variable, "", -1, 0, Tensor::vector<float>({real, 1, -0.0f})},
                        {"type", TensorKind::variable, "", -1, 0, Tensor::zeros(dtype, {2})},
                        {"whole", TensorKind::variable, "", -1, 0, Tensor::scalar(whole)}};
    const ShardManifest shard = write_shard(posix_file_system(), path(), {version, 1}, contents);
    commit_checkpoint(posix_file_system(), path(), {{version, 1}, "", 0, {}, {shard}});
  };
  save_values(1, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<std::int64_t>::min(), DType::f16);
  save_values(2, 1, std::numeric_limits<std::int64_t>::max(), DType::bf16);
  EXPECT_EQ(run({"diff", folder(1), folder(2)}).out,
            "variable real: 1 of 3 elements, by at most nan\n"
            "variable type: f16[2] and bf16[2]\n"
            "variable whole: 1 of 1 elements, by at most 1.8446744073709552e+19\ndifferences: 3\n");
  EXPECT_EQ(run({"diff", folder(1), folder(1)}).code, 0) << "NaN has the bits of NaN";
  EXPECT_TRUE(run({"diff", folder(1), folder(2), "--json"}).lines().front()["greatest"].is_null());
}

TEST_F(CheckpointTool, WhatIsNotThereIsNamed) {
  const Ran none = run({"ls", path("none")});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.out, IsEmpty());
  EXPECT_EQ(none.err, "troupe-checkpoint: no checkpoint or saved model at '" + path("none") + "'\n");
  save(10, 1);
  damage(10);
  EXPECT_THAT(run({"diff", folder(10), folder(10)}).err, HasSubstr("crc32c mismatch in variable 'counts'"));
}

TEST_F(CheckpointTool, WhatAJobRemovesMeanwhileIsNotDamaged) {
  // The job removes the older one when the tool has opened its manifest.
  class Busy final : public testing::ForwardingFileSystem {
   public:
    Busy(FileSystem& files, std::string directory) : ForwardingFileSystem(files), directory_(std::move(directory)) {}
    std::unique_ptr<ReadableFile> open(const std::string& path) override {
      if (path.ends_with("-00001-of-00002-0000000000000001")) remove_old_checkpoints(files_, directory_, 1);
      return files_.open(path);
    }

   private:
    std::string directory_;
  };
  for (const auto command : {checkpoints::list, checkpoints::verify}) {
    SCOPED_TRACE(command == checkpoints::list ? "list" : "verify");
    save(10, 1);
    save(20, 1);
    Busy files(posix_file_system(), path());
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(command(files, path(), true), 0);
    const Ran told{0, ::testing::internal::GetCapturedStdout(), ""};
    ASSERT_EQ(told.lines().size(), 1u) << told.out;
    EXPECT_EQ(told.lines()[0]["folder"], folder(20));
  }
}

TEST_F(CheckpointTool, OutputThatIsLostIsAFailure) {
  save(10, 1);
  const Ran full = [&] {
    Process process(
        {"/bin/sh", "-c", std::string(testing::program("troupe-checkpoint")) + " ls " + path() + " >/dev/full"});
    const int code = process.wait();
    return Ran{code, process.out, process.err};
  }();
  EXPECT_EQ(full.code, 1);
  EXPECT_THAT(full.err, HasSubstr("cannot write all results to stdout"));
}

}  // namespace
}  // namespace troupe
