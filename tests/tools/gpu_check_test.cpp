// tools/gpu-check.sh, with programs in the place of those that take minutes or a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/apps/process.hpp"
#include "tests/paths.hpp"
#include "tests/temporary_directory.hpp"

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class GpuCheck : public ::testing::Test {
 protected:
  GpuCheck() {
    std::filesystem::create_directories(place_.path() / "build/bin");
    std::filesystem::create_directories(place_.path() / "programs");
    program("programs/nvidia-smi", "case $1 in *name*) echo 'NVIDIA H200' ;; *) echo 580.1 ;; esac");
    program("programs/nvcc", "echo 'Cuda compilation tools, release 13.0, V13.0.88'");
    program("programs/cmake",
            "[[ $1 == --build ]] && exit 0\necho \"$@\"\necho \"libraries: $LD_LIBRARY_PATH\"\necho '-- Troupe: CUDA "
            "toolkit ON, native ON'");
    program("programs/ctest", kTestsPass);
    program("build/bin/troupe-bench", R"(echo 'the table'
while [[ $1 != --results ]]; do shift; done
echo '{"bench":"copy","case":"a","ratio":0.99,"met":true}' >"$2"
echo '{"bench":"copy","case":"b","ratio":0.90,"met":false}' >>"$2"
echo '{"bench":"copy","case":"c","ratio":null,"met":null}' >>"$2")");
  }

  void program(const std::string& name, const std::string& text) {
    place_.write(name, "#!/usr/bin/env bash\n" + text + "\n", 0700);
  }

  struct Outcome {
    int code;
    std::string out, err;
  };
  Outcome run(const std::vector<std::string>& arguments) {
    std::vector<std::string> command = {"/usr/bin/env", "PATH=" + place_.file("programs") + ":" + std::getenv("PATH"),
                                        testing::source_file("tools/gpu-check.sh")};
    command.insert(command.end(), arguments.begin(), arguments.end());
    testing::Process process(command);
    const int code = process.wait();
    return {code, process.out, process.err};
  }
  Outcome check(std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--build", place_.file("build"), "--report", place_.file("report")});
    return run(more);
  }
  std::string report(const std::string& name) const { return testing::content_of(place_.file("report/" + name)); }
  // Of report.jsonl: the steps, with what failed.
  std::vector<std::string> steps() const {
    std::vector<std::string> out;
    std::istringstream lines(report("report.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const nlohmann::json object = nlohmann::json::parse(line);
      if (object.contains("step"))
        out.push_back(object["step"].get<std::string>() + (object.value("ok", true) ? "" : " failed"));
    }
    return out;
  }

  static constexpr const char* kTestsPass = R"(echo '1/2 Test  #1: gpu_kernels .....   Passed    0.01 sec'
echo '2/2 Test  #2: TwoGpus.Talk ....***Skipped   0.01 sec'
echo '100% tests passed, 0 tests failed out of 2')";
  testing::TemporaryDirectory place_;
};

TEST_F(GpuCheck, HelpSaysWhatItDoes) {
  const Outcome help = run({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out,
              AllOf(StartsWith("Usage: tools/gpu-check.sh"), HasSubstr("--prefix DIR"), HasSubstr("Exit code")));
}

TEST_F(GpuCheck, WrongUsageIsExitCode2AndChangesNothing) {
  for (const auto& [wrong, says] : std::initializer_list<std::pair<std::vector<std::string>, std::string>>{
           {{"--nothing"}, "unknown option --nothing"}, {{"--prefix", "/nonexistent"}, "no directory /nonexistent"}}) {
    const Outcome outcome = check(wrong);
    EXPECT_EQ(outcome.code, 2) << says;
    EXPECT_THAT(outcome.err, AllOf(StartsWith("gpu-check: "), HasSubstr(says)));
  }
  EXPECT_THAT(run({"--prefix"}).err, HasSubstr("--prefix needs a value"));
  EXPECT_FALSE(std::filesystem::exists(place_.file("report")));
}

TEST_F(GpuCheck, PassesOnAGpuAndSaysHowManyFiguresMissTheirTargets) {
  const Outcome outcome = check();
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  for (const std::string& text : {outcome.out, report("report.txt")})
    EXPECT_THAT(text, AllOf(HasSubstr("GPU: NVIDIA H200; driver 580.1"), HasSubstr("tests: 2 run, 0 failed, 1 skipped"),
                            HasSubstr("the table"), HasSubstr("All passed on: NVIDIA H200"),
                            HasSubstr("1 of 2 figures are below their targets")));
  EXPECT_THAT(steps(), ElementsAre("machine", "configure", "build", "test", "tests", "bench"));
  EXPECT_THAT(report("report.jsonl"), HasSubstr(R"({"bench":"copy","case":"b","ratio":0.90,"met":false})"));
}

TEST_F(GpuCheck, WithoutAGpuThatIsWhatItSays) {
  program("programs/nvidia-smi", "exit 9");
  program(
      "programs/ctest",
      "echo '1/1 Test  #1: gpu_kernels .....***Skipped   0.01 sec'\necho '100% tests passed, 0 tests failed out of 1'");
  program("build/bin/troupe-bench", "echo 'skipped: copy/a: there is no GPU'");
  const Outcome outcome = check();
  EXPECT_EQ(outcome.code, 3) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("GPU: none"), HasSubstr("skipped: copy/a: there is no GPU"),
                                 HasSubstr("NO GPU"), Not(HasSubstr("below"))));
}

TEST_F(GpuCheck, AGpuThatNothingRunsOnIsNoPass) {
  program("build/bin/troupe-bench", "echo 'skipped: copy/a: the driver is too old'");
  EXPECT_EQ(check().code, 1);
  const Outcome tests_only = check({"--no-bench"});
  EXPECT_EQ(tests_only.code, 0) << tests_only.out;
  program(
      "programs/ctest",
      "echo '1/1 Test  #1: gpu_kernels .....***Skipped   0.01 sec'\necho '100% tests passed, 0 tests failed out of 1'");
  const Outcome outcome = check({"--no-bench"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("nothing ran on it"), HasSubstr("FAILED: use of the GPU")));
}

TEST_F(GpuCheck, WhatFailsIsShownAndTheFiguresAreMeasuredAllTheSame) {
  program("programs/ctest", "echo 'Expected equality'\necho '50% tests passed, 1 tests failed out of 2'\nexit 8");
  const Outcome outcome = check();
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("Expected equality"), HasSubstr("tests: 2 run, 1 failed"),
                                 HasSubstr("FAILED: test"), Not(HasSubstr("All passed"))));
  EXPECT_THAT(steps(), ElementsAre("machine", "configure", "build", "test failed", "tests", "bench"));
  program("programs/ctest", kTestsPass);
  program("build/bin/troupe-bench", "echo 'copy/a failed: too little memory' >&2\nexit 1");
  const Outcome bench = check({"--no-test"});
  EXPECT_EQ(bench.code, 1);
  EXPECT_THAT(bench.out, AllOf(HasSubstr("too little memory"), HasSubstr("FAILED: bench\n")));
  program(
      "programs/cmake",
      "[[ $1 == --build ]] || { echo '-- Troupe: CUDA toolkit ON'; exit 0; }\necho 'ninja: subcommand failed'\nexit 1");
  EXPECT_THAT(check().out,
              AllOf(HasSubstr("ninja: subcommand failed"), HasSubstr("FAILED: build"), Not(HasSubstr("tests:"))));
  program("programs/cmake", "echo '-- Troupe: CUDA toolkit OFF'");
  const Outcome none = check();
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.out, HasSubstr("the CUDA toolkit or cuDNN was not found"));
}

TEST_F(GpuCheck, TakesDependenciesFromAPrefix) {
  std::filesystem::create_directories(place_.path() / "packages/usr/lib");
  const Outcome outcome = check({"--prefix", place_.file("packages")});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(report("configure.log"),
              AllOf(HasSubstr("-DCMAKE_PREFIX_PATH=" + place_.file("packages") + ";" + place_.file("packages/usr")),
                    HasSubstr("libraries: " + place_.file("packages/usr/lib"))));
  place_.write("packages/usr/lib/libc.so.6", "");
  const Outcome refused = check({"--prefix", place_.file("packages")});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("contains a C library"));
}

TEST_F(GpuCheck, UnpacksPackagesAndTheirLinksStayAmongThem) {
  std::filesystem::create_directories(place_.path() / "packages");
  place_.write("packages/zlib.deb", "");
  program("programs/dpkg",
          "[[ $1 == -x && $2 == */zlib.deb ]] || exit 2\nmkdir -p \"$3/usr/lib\" \"$3/lib\"\ntouch "
          "\"$3/lib/libz.so.1\"\nln -s /lib/libz.so.1 \"$3/usr/lib/libz.so\"");
  for (int again = 0; again < 2; ++again) {
    SCOPED_TRACE(::testing::Message() << "run " << again);
    const Outcome outcome = check({"--prefix", place_.file("packages")});
    EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
    const std::filesystem::path to = std::filesystem::canonical(place_.path() / "build-packages/0");
    EXPECT_THAT(report("configure.log"), HasSubstr("-DCMAKE_PREFIX_PATH=" + to.string() + ";"));
    EXPECT_EQ(std::filesystem::read_symlink(to / "usr/lib/libz.so"), to / "lib/libz.so.1");
  }
  program("programs/dpkg", "echo 'not a package'\nexit 2");
  const Outcome outcome = check({"--prefix", place_.file("packages")});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("not a package"), HasSubstr("FAILED: unpack")));
}

}  // namespace
}  // namespace troupe
