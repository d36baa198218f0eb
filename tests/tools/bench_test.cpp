// troupe-bench: statistics, harness, selection of cases, output, options and the program itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/apps/process.hpp"
#include "tests/paths.hpp"
#include "tests/temporary_directory.hpp"
#include "tools/bench/harness.hpp"
#include "tools/bench/options.hpp"
#include <troupe/messages/error.hpp>

namespace troupe::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using troupe::testing::Process;

Case named(std::string bench, std::string name) {
  return {.bench = std::move(bench), .name = std::move(name), .unit = "us"};
}

// A side that gives these figures in turn, over and over.
Measure figures(std::vector<double> values) {
  return [values, next = std::size_t{0}]() mutable { return values[next++ % values.size()]; };
}

Case contest_of(bool more_is_better, Contest contest) {
  Case c = named("bench", "case");
  c.more_is_better = more_is_better;
  c.prepare = [contest](const Settings&) { return contest; };
  return c;
}

void ignore(const std::string&) {}

std::vector<std::string> ids(const std::vector<const Case*>& cases) {
  std::vector<std::string> out;
  for (const Case* c : cases) out.push_back(c->id());
  return out;
}

TEST(BenchStatistics, MedianAndSpread) {
  const Summary odd = summarize({3, 1, 2});
  EXPECT_EQ(odd.median, 2);
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.max, 3);
  EXPECT_EQ(summarize({4, 1, 2, 3}).median, 2.5);
  EXPECT_EQ(summarize({7}).median, 7);
  EXPECT_THROW(summarize({}), Error);
}

TEST(BenchStatistics, ARatioSaysHowManyTimesBetter) {
  EXPECT_EQ(ratio_of(10, 50, false), 5);   // time
  EXPECT_EQ(ratio_of(10, 50, true), 0.2);  // per second
}

TEST(BenchHarness, WarmsUpThenTakesMediansOfRoundsAndRepeats) {
  // One call to warm up; then three repeats of three rounds, whose medians are 2, 4 and 6.
  const Contest contest{.troupe = figures({100, 1, 2, 3, 3, 4, 5, 5, 6, 7}), .peers = {{"other", figures({8})}}};
  const Result result = run_case(contest_of(false, contest), {.repeat = 3}, ignore);
  EXPECT_EQ(result.value.median, 4);
  EXPECT_EQ(result.value.min, 2);
  EXPECT_EQ(result.value.max, 6);
  EXPECT_EQ(result.peer, "other");
  EXPECT_EQ(result.peer_value.median, 8);
  EXPECT_EQ(result.ratio.median, 2);  // of 8/2, 8/4, 8/6
  EXPECT_EQ(result.ratio.max, 4);
  EXPECT_DOUBLE_EQ(result.ratio.min, 8.0 / 6);
}

TEST(BenchHarness, RatiosAreThoseOfTurns) {
  const Contest contest{.troupe = figures({9, 1, 10, 5}), .peers = {{"other", figures({9, 4, 10, 20})}}};
  const Result result = run_case(contest_of(false, contest), {.repeat = 1}, ignore);
  EXPECT_EQ(result.ratio.median, 4);  // of 4, 1, 4; the medians of the sides are 10 and 5
}

TEST(BenchHarness, TheSidesTakeTurns) {
  std::string order;
  const auto side = [&order](char letter) { return [&order, letter] { return order += letter, 1.0; }; };
  const Contest contest{.troupe = side('t'), .peers = {{"p", side('p')}}, .rounds = 2};
  run_case(contest_of(false, contest), {.repeat = 2}, ignore);
  EXPECT_EQ(order,
            "tp"
            "tppt"
            "tppt");
}

TEST(BenchHarness, TheBestPeerCounts) {
  const std::vector<Peer> peers = {{"slow", figures({10})}, {"fast", figures({5})}, {"middle", figures({7})}};
  EXPECT_EQ(run_case(contest_of(false, {.troupe = figures({5}), .peers = peers}), {.repeat = 1}, ignore).peer, "fast");
  EXPECT_EQ(run_case(contest_of(true, {.troupe = figures({5}), .peers = peers}), {.repeat = 1}, ignore).peer, "slow");
}

TEST(BenchHarness, ATargetIsForTheRatioTheValueOrBoth) {
  Case c = contest_of(false, {});
  c.ratio_target = 5;
  c.value_target = 10;
  EXPECT_EQ(c.target(), "ratio >= 5, <= 10 us");
  const auto meets = [&c](double value, double ratio) {
    return Result{.value = {value, value, value}, .peer = "p", .peer_value = {}, .ratio = {ratio, ratio, ratio}}.meets(
        c);
  };
  EXPECT_TRUE(meets(10, 5));
  EXPECT_FALSE(meets(10, 4.9));
  EXPECT_FALSE(meets(10.1, 5));
  c.more_is_better = true;
  EXPECT_FALSE(meets(9.9, 5));
  EXPECT_FALSE((Result{.value = {20, 20, 20}}.meets(c))) << "a ratio without a peer";
}

TEST(BenchSelection, GlobsMatchWholeNamesAndOthersBeginnings) {
  const std::vector<Case> cases = {named("null-ops", "chain"), named("null-ops", "lattice"),
                                   named("lattice", "parallel"), named("matmul", "f32-64")};
  EXPECT_EQ(select(cases, {}).size(), 4u);
  EXPECT_THAT(ids(select(cases, {"null-ops"})), ElementsAre("null-ops/chain", "null-ops/lattice"));
  EXPECT_THAT(ids(select(cases, {"matmul/f32-64", "lat"})), ElementsAre("lattice/parallel", "matmul/f32-64"));
  EXPECT_THAT(ids(select(cases, {"*lattice*"})), ElementsAre("null-ops/lattice", "lattice/parallel"));
  EXPECT_THAT(ids(select(cases, {"*/f?2-*"})), ElementsAre("matmul/f32-64"));
  EXPECT_THROW(select(cases, {"null-ops", "nothing"}), Error);
  EXPECT_THROW(select(cases, {"ull-ops"}), Error);
  EXPECT_THROW(select(cases, {"null-op?"}), Error);
}

TEST(BenchOutput, AJsonLineHasTheKeysOfTheDesign) {
  Case c = named("step", "sync");
  const Result with{.value = {20, 19, 21}, .peer = "other", .peer_value = {10, 10, 10}, .ratio = {0.5, 0.4, 0.6}};
  EXPECT_EQ(json_line(c, with),
            R"({"bench":"step","case":"sync","value":20.0,"unit":"us","peer":"other","peer_value":10.0,"ratio":0.5,)"
            R"("target":null,"met":null})");
  EXPECT_EQ(json_line(c, {.value = {20, 19, 21}}),
            R"({"bench":"step","case":"sync","value":20.0,"unit":"us","peer":null,"peer_value":null,"ratio":null,)"
            R"("target":null,"met":null})");
  c.ratio_target = 0.45;
  EXPECT_THAT(json_line(c, with), HasSubstr(R"("ratio":0.5,"target":"ratio >= 0.45","met":true})"));
  c.ratio_target = 0.51;
  EXPECT_THAT(json_line(c, with), HasSubstr(R"("met":false})"));
  EXPECT_THAT(json_line(c, {.value = {20, 19, 21}}), HasSubstr(R"("met":false})"))
      << "without a peer there is no ratio";
}

TEST(BenchOutput, ARowHasTheSpreadAndTheVerdict) {
  Case c = named("step", "sync");
  c.ratio_target = 0.45;
  const Result result{.value = {20, 19, 21}, .peer = "other", .peer_value = {10, 10, 10}, .ratio = {0.5, 0.42, 0.61}};
  EXPECT_THAT(table_row(c, result), AllOf(HasSubstr("step/sync"), HasSubstr("0.42..0.61"), HasSubstr(" ok ")));
  c.ratio_target = 0.7;
  EXPECT_THAT(table_row(c, result), HasSubstr(" below "));
}

TEST(BenchOptions, ParsesAndRefuses) {
  const Options options = parse_options({"null-ops", "step/*", "--repeat", "5", "--json", "--nodes", "10"});
  EXPECT_FALSE(options.exit);
  EXPECT_THAT(options.patterns, ElementsAre("null-ops", "step/*"));
  EXPECT_EQ(options.settings.repeat, 5);
  EXPECT_EQ(options.settings.nodes, 10);
  EXPECT_TRUE(options.json);
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"--repeat", "0"}, {"--repeat", "many"}, {"--nodes", "0"}, {"--nothing"}}) {
    const Options refused = parse_options(wrong);
    ASSERT_TRUE(refused.exit) << wrong[0];
    EXPECT_EQ(refused.exit->code, 2) << wrong[0];
  }
  const Options help = parse_options({"--help"});
  ASSERT_TRUE(help.exit);
  EXPECT_EQ(help.exit->code, 0);
  EXPECT_THAT(help.exit->out, AllOf(HasSubstr("Usage: troupe-bench"), HasSubstr("--repeat")));
}

TEST(BenchProgram, ListsWhatItMeasures) {
  Process bench({testing::program("troupe-bench"), "--list", "step", "null-ops/chain"});
  EXPECT_EQ(bench.wait(), 0) << bench.err;
  EXPECT_THAT(bench.out, AllOf(HasSubstr("null-ops/chain"), HasSubstr("TBB flow graph"), HasSubstr("step/sync"),
                               HasSubstr("ratio >= 4"), Not(HasSubstr("lattice/parallel"))));
}

std::vector<nlohmann::json> rows_of(const Process& bench) {
  std::istringstream lines(bench.out);
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

TEST(BenchProgram, RunsCasesOfOtherProcesses) {
  Process bench({testing::program("troupe-bench"), "--quick", "--json", "ps/push-1MiB", "ps/pull-1MiB", "ps/small"});
  EXPECT_EQ(bench.wait(), 0) << bench.err;
  EXPECT_EQ(rows_of(bench).size(), 3u) << bench.out;
}

TEST(BenchProgram, RunsATinyCaseBesideItsPeer) {
  Process bench({testing::program("troupe-bench"), "--quick", "--json", "null-ops/chain"});
  EXPECT_EQ(bench.wait(), 0) << bench.err;
  const auto rows = rows_of(bench);
  ASSERT_EQ(rows.size(), 1u) << bench.out;
  EXPECT_EQ(rows[0]["bench"], "null-ops");
  EXPECT_EQ(rows[0]["case"], "chain");
  EXPECT_GT(rows[0]["value"], 0);
  EXPECT_GT(rows[0]["ratio"], 0);
  EXPECT_THAT(rows[0]["peer"].get<std::string>(), HasSubstr("TBB"));
  EXPECT_THAT(bench.err, HasSubstr("null-ops/chain: repeat 1 of 1"));
}

// Kernels check their results against the peers'; a remote step needs a second process.
TEST(BenchProgram, RunsACaseOfEachFamily) {
  // Without Python: peers that are scripts are absent.
  Process bench({testing::program("troupe-bench"),
                 "--quick",
                 "--json",
                 "--python",
                 "/nonexistent/python3",
                 "step/pipelined",
                 "step/remote-blocking-tensors",
                 "loop",
                 "matmul/f32-64",
                 "batch-matmul",
                 "conv2d/backward-filter-32x13x13x32-64",
                 "conv2d/forward-grouped",
                 "elementwise",
                 "lstm",
                 "attention",
                 "topk",
                 "sort",
                 "cumsum",
                 "gather-nd",
                 "startup/first-step",
                 "transfer/4B",
                 "transfer/16MiB",
                 "allreduce",
                 "stress"});
  EXPECT_EQ(bench.wait(), 0) << bench.err;
  const auto rows = rows_of(bench);
  ASSERT_EQ(rows.size(), 25u) << bench.out;
  for (const auto& row : rows) {
    EXPECT_GT(row["value"], row["bench"] == "stress" ? -1 : 0) << row;  // nothing is late, nothing grows: fine
    const bool has_peer = row["bench"] == "matmul" || row["bench"] == "batch-matmul" || row["case"] == "matmul" ||
                          row["bench"] == "conv2d" || row["bench"] == "elementwise" || row["bench"] == "transfer" ||
                          row["bench"] == "allreduce";
    EXPECT_EQ(row["peer"].is_null(), !has_peer) << row;
  }
}

// Answers are compared with what the bench computes itself; peers with what was sent to them.
TEST(BenchProgram, RunsCasesOfServing) {
  Process bench({testing::program("troupe-bench"), "--quick", "--json", "serve/grpc", "serve/rest", "serve/batch-dense",
                 "serve/load-p99", "serve/swap", "serve/memory"});
  EXPECT_EQ(bench.wait(), 0) << bench.err;
  const auto rows = rows_of(bench);
  ASSERT_EQ(rows.size(), 7u) << bench.out;
  for (const auto& row : rows) {
    const bool swap = row["case"] == "swap";
    EXPECT_EQ(row["peer"].is_null(), swap) << row;
    EXPECT_GE(row["value"], 0) << row;
    if (swap) {
      EXPECT_EQ(row["value"], 0) << bench.err;
    }
  }
}

TEST(BenchProgram, APeerThatIsNotInstalledIsNull) {
  Process bench(
      {testing::program("troupe-bench"), "--quick", "--json", "--python", "/nonexistent/python3", "mnist/mlp-32"});
  EXPECT_EQ(bench.wait(), 0) << bench.err;
  const auto rows = rows_of(bench);
  ASSERT_EQ(rows.size(), 3u) << bench.out;  // for PyTorch, jax and TensorFlow
  EXPECT_GT(rows[0]["value"], 0);
  EXPECT_TRUE(rows[0]["peer"].is_null());
  EXPECT_THAT(bench.err, HasSubstr("/nonexistent/python3"));
}

// Also where there is no GPU: each case says so, by its name.
TEST(BenchProgram, MeasuresOrSkipsTheCasesOfAGpu) {
  EXPECT_EQ(parse_options({"--device", "gpu"}).device, "gpu");
  EXPECT_EQ(parse_options({}).device, "cpu");
  EXPECT_EQ(parse_options({"--device", "tpu"}).exit.value().code, 2);
  Process list({testing::program("troupe-bench"), "--device", "gpu", "--list"});
  EXPECT_EQ(list.wait(), 0) << list.err;
  EXPECT_THAT(list.out, AllOf(HasSubstr("matmul/bf16-8192"), HasSubstr("cuBLASLt"), HasSubstr("ratio >= 0.97"),
                              HasSubstr("copy/to-gpu-256MiB")));
  Process bench({testing::program("troupe-bench"), "--device", "gpu", "--quick", "null-ops", "matmul/bf16-4096"});
  EXPECT_EQ(bench.wait(), 0) << bench.err;
  EXPECT_THAT(bench.out, AllOf(HasSubstr("null-ops/chain"), HasSubstr("matmul/bf16-4096"), Not(HasSubstr("conv2d"))));
}

TEST(BenchProgram, WritesItsResultsToAFileToo) {
  const testing::TemporaryDirectory place;
  Process bench({testing::program("troupe-bench"), "--quick", "--results", place.file("results"), "null-ops/chain"});
  EXPECT_EQ(bench.wait(), 0) << bench.err;
  EXPECT_THAT(bench.out, AllOf(HasSubstr("null-ops/chain"), HasSubstr("ratio >= 5")));
  const auto line = nlohmann::json::parse(testing::content_of(place.file("results")));
  EXPECT_EQ(line["case"], "chain");
  EXPECT_EQ(line["target"], "ratio >= 5, <= 10 ns/op");
  EXPECT_TRUE(line["met"].is_boolean());
  Process nowhere(
      {testing::program("troupe-bench"), "--quick", "--results", place.file("none/results"), "null-ops/chain"});
  EXPECT_EQ(nowhere.wait(), 1);
  EXPECT_THAT(nowhere.err, AllOf(HasSubstr("cannot write"), HasSubstr("No such file or directory")));
}

TEST(BenchProgram, WrongUsageIsExitCode2) {
  Process unknown({testing::program("troupe-bench"), "nonsense"});
  EXPECT_EQ(unknown.wait(), 2);
  EXPECT_THAT(unknown.err, HasSubstr("nonsense"));
  EXPECT_THAT(unknown.out, IsEmpty());
  Process option({testing::program("troupe-bench"), "--nonsense"});
  EXPECT_EQ(option.wait(), 2);
}

}  // namespace
}  // namespace troupe::bench
