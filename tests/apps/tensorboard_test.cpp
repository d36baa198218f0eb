// The curves of troupe-mnist, read by us and by TensorBoard, where that is installed (tools/setup.sh
// --with-tensorboard).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "tests/actors/tensorboard/event_reader.hpp"
#include "tests/apps/cluster.hpp"
#include "tests/paths.hpp"
#include <troupe/actors/tensorboard/summary_writer.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using testing::Arguments;
using ::testing::Contains;
using testing::Curves;
using ::testing::HasSubstr;
using testing::Process;
using testing::TemporaryDirectory;

class TensorBoard : public ::testing::Test {
 protected:
  // 10 steps of an epoch, a point of the loss every 4. Returns what it says of itself.
  std::vector<nlohmann::json> train(const Arguments& launch, const Arguments& more = {}) {
    Arguments command = launch;
    command.insert(command.end(), {testing::program("troupe-mnist"), "--json", "--digits", "100,50", "--batch", "10",
                                   "--threads", "1"});
    command.insert(command.end(), more.begin(), more.end());
    Process process(command);
    EXPECT_EQ(process.wait(), 0) << process.err;
    std::vector<nlohmann::json> lines;
    std::istringstream text(process.out);
    for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
  Arguments curves(const Arguments& more = {}) const {
    Arguments out = {"--tensorboard", place, "--tensorboard-every", "4"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  static Arguments launch(int ps, int workers) {
    return {testing::program("troupe-launch"), "--ps", std::to_string(ps), "--workers", std::to_string(workers), "--"};
  }

  // The Python that has TensorBoard; "": none has.
  static std::string python() {
    for (const std::string& candidate :
         {testing::source_file("build/tensorboard/bin/python3"), std::string("/usr/bin/env")}) {
      if (!std::filesystem::exists(candidate)) continue;
      if (Process process(reading(candidate)); process.wait() == 0) return candidate;
    }
    return "";
  }
  static Arguments reading(const std::string& python) {
    if (python == "/usr/bin/env") return {python, "python3", testing::source_file("tests/apps/read_curves.py")};
    return {python, testing::source_file("tests/apps/read_curves.py")};
  }

  TemporaryDirectory directory;
  const std::string place = std::filesystem::path(directory.path()) / "curves";
};

std::vector<std::int64_t> steps_of(const std::vector<Curves::Scalar>& scalars) {
  std::vector<std::int64_t> out;
  for (const auto& scalar : scalars) out.push_back(scalar.step);
  return out;
}

// Of the lines {"event":"epoch"}.
std::vector<Curves::Scalar> told(const std::vector<nlohmann::json>& lines, const std::string& figure,
                                 std::int64_t steps) {
  std::vector<Curves::Scalar> out;
  for (const auto& line : lines)
    if (line.at("event") == "epoch")
      out.push_back({line.at("epoch").get<std::int64_t>() * steps, static_cast<float>(line.at(figure).get<double>())});
  return out;
}

TEST_F(TensorBoard, HasTheFiguresThatAreToldAndTheBitsStayTheSame) {
  const auto lines = train({}, curves({"--epochs", "3"}));
  const Curves read = testing::read_curves(place);
  const std::map<std::string, std::string> figures = {{"loss", "loss"},
                                                      {"accuracy", "train_accuracy"},
                                                      {"val_accuracy", "test_accuracy"},
                                                      {"examples_per_second", "images_per_second"}};
  for (const auto& [tag, key] : figures) EXPECT_EQ(read.scalars.at("epoch/" + tag), told(lines, key, 10)) << tag;
  EXPECT_EQ(steps_of(read.scalars.at("loss")), (std::vector<std::int64_t>{4, 8, 12, 16, 20, 24, 28, 30}));
  EXPECT_EQ(lines.back().at("params_sha256"), train({}, {"--epochs", "3"}).back().at("params_sha256"));
}

TEST_F(TensorBoard, AJobThatGoesOnAddsAFileFromItsStep) {
  const std::string saved = std::filesystem::path(directory.path()) / "saved";
  const auto first = train({}, curves({"--epochs", "2", "--checkpoint", saved}));
  const auto second = train({}, curves({"--epochs", "3", "--checkpoint", saved}));
  const auto files = testing::event_files(place);
  ASSERT_EQ(files.size(), 2u);
  const Curves read = testing::read_curves(place);
  EXPECT_EQ(read.starts, (std::vector<std::int64_t>{0, 20}));
  EXPECT_EQ(steps_of(read.scalars.at("epoch/loss")), (std::vector<std::int64_t>{10, 20, 30}));
  EXPECT_EQ(steps_of(read.scalars.at("loss")), (std::vector<std::int64_t>{4, 8, 12, 16, 24, 28, 30}));
  for (const auto& event : testing::read_events(files[1]))
    EXPECT_TRUE(event.step() == 0 || event.step() >= 20) << event.step();
}

TEST_F(TensorBoard, WorkerZeroOfAClusterWrites) {
  const auto lines = train(launch(1, 2), curves({"--epochs", "2"}));
  EXPECT_EQ(testing::event_files(place).size(), 1u);
  const Curves read = testing::read_curves(place);
  EXPECT_EQ(read.scalars.at("epoch/val_accuracy"), told(lines, "test_accuracy", 5));
  EXPECT_EQ(read.histograms.at("parameters/dense/bias").back().second.num(), 128);
}

TEST_F(TensorBoard, APlaceThatCannotBeIsNamed) {
  const std::string file = directory.write("file", "");
  for (const Arguments& start : {Arguments{}, launch(1, 1), launch(0, 2)}) {
    SCOPED_TRACE(::testing::PrintToString(start));
    Arguments command = start;
    command.insert(command.end(), {testing::program("troupe-mnist"), "--digits", "20,10", "--batch", "5",
                                   "--tensorboard", file + "/below"});
    if (start.size() > 1 && start[2] == "0") command.insert(command.end(), {"--mode", "allreduce"});
    Process process(command);
    EXPECT_NE(process.wait(), 0);
    EXPECT_THAT(process.err, AllOf(HasSubstr("cannot write the training curves: "), HasSubstr(file + "/below"),
                                   HasSubstr("pass a directory that this task may write to, or train without them")));
  }
}

TEST_F(TensorBoard, LoadsTheFiles) {
  const std::string python = this->python();
  if (python.empty()) GTEST_SKIP() << "TensorBoard is not installed: tools/setup.sh --with-tensorboard";
  const std::string saved = std::filesystem::path(directory.path()) / "saved";
  train({}, curves({"--epochs", "2", "--checkpoint", saved}));
  train({}, curves({"--epochs", "3", "--checkpoint", saved}));
  Arguments command = reading(python);
  command.push_back(place);
  Process process(command);
  ASSERT_EQ(process.wait(), 0) << process.err;
  const nlohmann::json seen = nlohmann::json::parse(process.out);
  const Curves read = testing::read_curves(place);

  EXPECT_EQ(seen.at("file_version"), 2);
  ASSERT_EQ(seen.at("scalars").size(), read.scalars.size());
  for (const auto& [tag, points] : read.scalars) {
    std::vector<Curves::Scalar> theirs;
    for (const auto& point : seen.at("scalars").at(tag))
      theirs.push_back({point.at(1).get<std::int64_t>(), static_cast<float>(point.at(2).get<double>())});
    EXPECT_EQ(theirs, points) << tag;
    EXPECT_EQ(seen.at("plugins").at(tag), "scalars") << tag;
  }
  ASSERT_EQ(seen.at("histograms").size(), read.histograms.size());
  for (const auto& [tag, points] : read.histograms) {
    const auto& theirs = seen.at("histograms").at(tag);
    ASSERT_EQ(theirs.size(), points.size()) << tag;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const auto& [step, histogram] = points[i];
      const nlohmann::json ours = {
          {"step", step},
          {"num", histogram.num()},
          {"min", histogram.min()},
          {"max", histogram.max()},
          {"sum", histogram.sum()},
          {"sum_squares", histogram.sum_squares()},
          {"bucket_limit", std::vector<double>(histogram.bucket_limit().begin(), histogram.bucket_limit().end())},
          {"bucket", std::vector<double>(histogram.bucket().begin(), histogram.bucket().end())}};
      EXPECT_EQ(theirs[i], ours) << tag;
    }
    EXPECT_EQ(seen.at("plugins").at(tag), "histograms") << tag;
  }
  ASSERT_EQ(seen.at("graph").size(), static_cast<std::size_t>(read.graph.node_size()));
  for (int i = 0; i < read.graph.node_size(); ++i) {
    const auto& node = read.graph.node(i);
    const nlohmann::json ours = {{"name", node.name()},
                                 {"op", node.op()},
                                 {"device", node.device()},
                                 {"input", std::vector<std::string>(node.input().begin(), node.input().end())}};
    EXPECT_EQ(seen.at("graph")[static_cast<std::size_t>(i)], ours) << node.name();
  }
}

TEST_F(TensorBoard, LoadsSummariesOfLoopsOfOnesOwn) {
  const std::string python = this->python();
  if (python.empty()) GTEST_SKIP() << "TensorBoard is not installed: tools/setup.sh --with-tensorboard";
  summary::Writer writer(place);
  writer.scalar("loss", 0.5, 1);
  writer.histogram("weights", Tensor::of<float>(Shape{3}, {1, 2, 3}), 2);
  writer.image("digits", Tensor::of<std::uint8_t>(Shape{2, 1, 2, 1}, {0, 255, 7, 9}), 3);
  writer.text("words", "some *words*", 4);
  Arguments command = reading(python);
  command.push_back(place);
  Process process(command);
  ASSERT_EQ(process.wait(), 0) << process.err;
  const nlohmann::json seen = nlohmann::json::parse(process.out);
  EXPECT_EQ(seen.at("scalars").at("loss").at(0).at(2), 0.5);
  EXPECT_EQ(seen.at("histograms").at("weights").at(0).at("sum"), 6);
  const std::string text = seen.at("images").at("digits/image/1").at(0).at(3);
  EXPECT_EQ(seen.at("images").at("digits/image/1").at(0), nlohmann::json({3, 2, 1, text}));
  EXPECT_EQ(text.substr(0, 16), "89504e470d0a1a0a");
  EXPECT_EQ(seen.at("texts"), nlohmann::json({{"words", {{4, "some *words*"}}}}));
  EXPECT_EQ(seen.at("plugins"), nlohmann::json({{"loss", "scalars"},
                                                {"weights", "histograms"},
                                                {"digits/image/0", "images"},
                                                {"digits/image/1", "images"},
                                                {"words", "text"}}));
}

}  // namespace
}  // namespace troupe
