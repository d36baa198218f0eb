// What tools/build_report.py says of a build, and tools/test_summary.py of its tests.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/process.hpp"
#include "tests/paths.hpp"
#include "tests/temporary_directory.hpp"

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Said {
  int code;
  std::string out;
};
Said run(const std::string& script, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"/usr/bin/python3", testing::source_file(script)});
  testing::Process process(arguments);
  const int code = process.wait();
  return {code, process.out + process.err};
}

// A build whose reference took two seconds, and a source of `graph` so many.
class BuildReport : public ::testing::Test {
 protected:
  Said report(double reference, double graph, const std::string& cost, std::vector<std::string> options = {}) {
    const std::string object = "graph/CMakeFiles/troupe_graph_objects.dir/ops/all.cpp.o";
    const std::string other = "tools/CMakeFiles/build_reference.dir/build_reference.cpp.o";
    build.write("build.ninja", fmt::format("build {}: CXX all.cpp\nbuild {}: CXX reference.cpp\n", object, other));
    build.write(".ninja_log", fmt::format("# ninja log v5\n0\t{:.0f}\t1\t{}\tab\n5\t{:.0f}\t1\t{}\tab\n"
                                          "0\t9000\t1\tgraph/CMakeFiles/gone.dir/gone.cpp.o\tab\n",
                                          reference * 1000, other, 5 + graph * 1000, object));
    options.insert(options.begin(), {build.path().string(), "--costs", build.write("costs", cost)});
    return run("tools/build_report.py", options);
  }
  testing::TemporaryDirectory build;
};

TEST_F(BuildReport, TellsTheSecondsOfAFolderAndItsSlowestSource) {
  const Said said = report(2, 11.5, "{}");
  EXPECT_EQ(said.code, 0);
  EXPECT_THAT(said.out, AllOf(HasSubstr("graph                              1     11.5   100%"),
                              HasSubstr("ops/all.cpp 11.5"), Not(HasSubstr("WARNING")), Not(HasSubstr("gone"))));
}

TEST_F(BuildReport, WarnsOfAFolderThatCostsAQuarterMoreThanItDid) {
  EXPECT_THAT(report(2, 11.5, "{\"graph\": 1000}", {"--strict"}), ::testing::Field(&Said::code, 0));
  const Said said = report(2, 11.5, "{\"graph\": 0.001}", {"--strict"});
  EXPECT_EQ(said.code, 1);
  EXPECT_THAT(said.out, HasSubstr("WARNING: graph takes "));
  EXPECT_EQ(report(2, 11.5, "{\"graph\": 0.001}").code, 0) << "only a warning";
}

TEST_F(BuildReport, ComparesNothingIfTheReferenceCameFromACache) {
  EXPECT_THAT(report(0.01, 11.5, "{\"graph\": 0.001}").out,
              AllOf(HasSubstr("Not compared"), Not(HasSubstr("WARNING"))));
}

TEST_F(BuildReport, WarnsOfASourceThatTakesTooLong) {
  EXPECT_THAT(report(2, 12.5, "{}").out, HasSubstr("ops/all.cpp.o takes 12.5 s, more than 12"));
}

TEST_F(BuildReport, WritesWhatItThenComparesWith) {
  EXPECT_EQ(report(2, 11.5, "{}", {"--write"}).code, 0);
  std::ifstream file(build.file("costs"));
  const std::string costs(std::istreambuf_iterator<char>(file), {});
  EXPECT_EQ(report(4, 2 * 11.5, costs, {"--strict"}).out.find("longer to compile per line"), std::string::npos)
      << "a slower machine";
  EXPECT_THAT(report(2, 11.5 * 1.3, costs).out, HasSubstr("WARNING: graph takes 30% longer"));
}

TEST_F(BuildReport, SaysWhatIsMissing) {
  const Said said = run("tools/build_report.py", {build.path().string()});
  EXPECT_EQ(said.code, 1);
  EXPECT_THAT(said.out, HasSubstr("build with ninja first"));
}

Said summary(const std::string& entries, std::vector<std::string> options = {}) {
  const testing::TemporaryDirectory directory;
  options.insert(options.begin(), "release=" + directory.write("test.xml", "<testsuite>" + entries + "</testsuite>"));
  return run("tools/test_summary.py", options);
}

TEST(TestSummary, CountsTheTestsOfEachProcess) {
  const Said said = summary(R"(<testcase name="Suite" status="run" time="1"><system-out>
[ RUN      ] Suite.Passes
[       OK ] Suite.Passes (12 ms)
[ RUN      ] Suite.IsSkipped
[  SKIPPED ] Suite.IsSkipped (0 ms)
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Suite.IsSkipped
</system-out></testcase><testcase name="Chaos.row" status="run" time="2"><system-out>fine</system-out></testcase>
<testcase name="gpu" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/><system-out>none</system-out></testcase>)",
                            {"--suites", "--slowest", "1"});
  EXPECT_EQ(said.code, 0);
  EXPECT_THAT(said.out,
              AllOf(HasSubstr("100% tests passed, 0 tests failed out of 4 (2 skipped)"), HasSubstr("release: Suite: 2"),
                    HasSubstr("release: Chaos.row: 2.00 s"), HasSubstr("release: Suite.IsSkipped (Skipped)")));
}

TEST(TestSummary, NamesEachTestThatFailedOnce) {
  const Said said = summary(R"(<testcase name="Suite" status="fail" time="1"><failure/><system-out>
[ RUN      ] Suite.Fails/0
[  FAILED  ] Suite.Fails/0, where GetParam() = 3 (7 ms)
[ RUN      ] Suite.Passes
[       OK ] Suite.Passes (12 ms)
[  FAILED  ] 1 test, listed below:
[  FAILED  ] Suite.Fails/0, where GetParam() = 3
</system-out></testcase>)");
  EXPECT_EQ(said.code, 1);
  EXPECT_EQ(said.out, "  release: Suite.Fails/0 (Failed)\n50% tests passed, 1 tests failed out of 2\n");
}

TEST(TestSummary, NamesTheTestInWhichAProcessEnded) {
  const Said said = summary(R"(<testcase name="Suite" status="fail" time="1"><failure/><system-out>
[ RUN      ] Suite.Passes
[       OK ] Suite.Passes (12 ms)
[ RUN      ] Suite.Crashes
</system-out></testcase>)");
  EXPECT_EQ(said.out, "  release: Suite.Crashes (Failed)\n50% tests passed, 1 tests failed out of 2\n");
}

TEST(TestSummary, AProcessThatFailsAfterItsTestsIsNamed) {
  const Said said = summary(R"(<testcase name="Suite" status="fail" time="1"><failure/><system-out>
[ RUN      ] Suite.Passes
[       OK ] Suite.Passes (12 ms)
==1==ERROR: LeakSanitizer: detected memory leaks
</system-out></testcase>)");
  EXPECT_THAT(said.out, HasSubstr("release: Suite (its process) (Failed)"));
}

TEST(TestSummary, WithoutResultsItFails) {
  const Said said = run("tools/test_summary.py", {"release=/nonexistent/test.xml"});
  EXPECT_EQ(said.code, 1);
  EXPECT_THAT(said.out, HasSubstr("/nonexistent/test.xml"));
}

}  // namespace
}  // namespace troupe
