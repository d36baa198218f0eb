// Task::from_command_line(): a program becomes a task of a cluster.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <future>

#include "tests/error_of.hpp"
#include "tests/processes/places.hpp"
#include <troupe/actors/cluster/membership_options.hpp>

namespace troupe {
namespace {

using testing::error_of;

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What main() gets.
class Arguments {
 public:
  explicit Arguments(std::vector<std::string> words) : words_(std::move(words)) {
    words_.insert(words_.begin(), "/usr/bin/program");
    for (std::string& word : words_) argv_.push_back(word.data());
    argv_.push_back(nullptr);
    argc = static_cast<int>(words_.size());
  }
  char** argv() { return argv_.data(); }
  std::vector<std::string> left() const { return {argv_.begin() + 1, argv_.begin() + argc}; }
  bool ends_with_null() const { return argv_[static_cast<std::size_t>(argc)] == nullptr; }

  int argc = 0;

 private:
  std::vector<std::string> words_;
  std::vector<char*> argv_;
};

std::unique_ptr<Task> start(Arguments& arguments) {
  return Task::from_command_line(arguments.argc, arguments.argv(), {.threads = 1});
}

Error error_with(std::vector<std::string> words) {
  Arguments arguments(std::move(words));
  return error_of([&] { start(arguments); });
}

TEST(TaskOfACommandLine, IsOneOfItsOwnWithoutLauncherAndOptions) {
  Arguments arguments({"--epochs", "3", "data"});
  const auto task = start(arguments);
  EXPECT_EQ(task->name(), (TaskName{"local", 0}));
  EXPECT_TRUE(task->cluster().tasks.empty());
  EXPECT_THAT(arguments.left(), ElementsAre("--epochs", "3", "data"));
}

TEST(TaskOfACommandLine, JoinsTheClusterOfItsOptionsAndLeavesTheOthersToTheProgram) {
  testing::TemporaryDirectory directory;
  const int port = testing::free_ports(1).front();
  const std::string file = directory.write(
      "c.json",
      fmt::format(R"({{"name":"demo","token":"{}","worker":["127.0.0.1:{}"]}})", testing::kStrongToken, port));
  Arguments arguments({"--job", "worker", "--epochs", "3", "--task=0", "--no-shared-memory", "data", "--cluster", file,
                       "--", "0", "--introspect-port", "0"});
  ::testing::internal::CaptureStderr();
  const auto task = start(arguments);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("program: inspect /job:worker/task:0 with a browser or troupe-top: http://127.0.0.1:"));
  EXPECT_EQ(task->name(), (TaskName{"worker", 0}));
  EXPECT_EQ(task->port(), port);
  EXPECT_EQ(task->cluster().name, "demo");
  EXPECT_THAT(arguments.left(), ElementsAre("--epochs", "3", "data", "--", "0"));
  EXPECT_TRUE(arguments.ends_with_null());
}

TEST(TaskOfACommandLine, WarnsOfATokenThatCanBeGuessed) {
  testing::TemporaryDirectory directory;
  const std::string file = directory.write(
      "c.json",
      fmt::format(R"({{"name":"demo","token":"t","worker":["127.0.0.1:{}"]}})", testing::free_ports(1).front()));
  Arguments arguments({"--job", "worker", "--task", "0", "--cluster", file});
  ::testing::internal::CaptureStderr();
  start(arguments);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("program: warning: cluster 'demo' has a guessable token"));
}

// The launcher's side is this test.
TEST(TaskOfACommandLine, MeetsTheClusterOfItsLauncher) {
  testing::TemporaryDirectory directory;
  std::array<int, 2> report{}, cluster{};
  ASSERT_EQ(pipe(report.data()), 0);
  ASSERT_EQ(pipe(cluster.data()), 0);
  setenv("TROUPE_LAUNCH", fmt::format("{},{},1", report[1], cluster[0]).c_str(), 1);
  auto starting = std::async(std::launch::async, [] {
    Arguments arguments({"--job", "worker", "--task", "0"});
    return start(arguments);
  });
  std::array<char, 100> address{};
  const ssize_t length = read(report[0], address.data(), address.size());
  ASSERT_GT(length, 1);
  const std::string file = directory.write(
      "c.json", fmt::format(R"({{"name":"launched","token":"{}","worker":["{}"]}})", testing::kStrongToken,
                            std::string_view(address.data(), static_cast<std::size_t>(length) - 1)));
  ASSERT_EQ(write(cluster[1], (file + "\n").data(), file.size() + 1), static_cast<ssize_t>(file.size() + 1));
  const auto task = starting.get();
  EXPECT_EQ(task->cluster().name, "launched");
  EXPECT_EQ(task->name(), (TaskName{"worker", 0}));
  EXPECT_EQ(getenv("TROUPE_LAUNCH"), nullptr);
  for (const int fd : {report[0], cluster[1]}) close(fd);
}

// Its address is known, and it reports none. It does not wait for workers, which may have ended.
TEST(TaskOfACommandLine, StartedAgainTakesItsPlaceInTheClusterThatThereIs) {
  testing::TemporaryDirectory directory;
  std::array<int, 2> report{}, cluster{};
  ASSERT_EQ(pipe(report.data()), 0);
  ASSERT_EQ(pipe(cluster.data()), 0);
  const std::vector<int> ports = testing::free_ports(2);
  const std::string file = directory.write(
      "c.json", fmt::format(R"({{"name":"launched","token":"{}","ps":["127.0.0.1:{}"],"worker":["127.0.0.1:{}"]}})",
                            testing::kStrongToken, ports[0], ports[1]));
  setenv("TROUPE_LAUNCH", fmt::format("{},{},2", report[1], cluster[0]).c_str(), 1);
  setenv("TROUPE_LAUNCH_CLUSTER", file.c_str(), 1);
  Arguments arguments({"--job", "ps", "--task", "0"});
  const auto task = start(arguments);
  EXPECT_EQ(task->port(), ports[0]);
  EXPECT_EQ(task->cluster().tasks.size(), 2u);
  for (const int fd : {report[0], cluster[1]}) close(fd);
}

TEST(TaskOfACommandLine, SaysWhatIsWrongWithAnOption) {
  for (const auto& [words, message] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--job", "worker", "--task", "0"}, "needs --job, --task and --cluster together; missing: --cluster"},
           {{"--cluster", "c.json"}, "missing: --job, --task"},
           {{"--job", "worker", "--task", "one"}, "--task: expected a whole number from 0 to 1000000, not 'one'"},
           {{"--task=-1"}, "--task: expected a whole number from 0 to 1000000, not '-1'"},
           {{"--epochs", "3", "--job"}, "--job: missing value JOB"},
           {{"--insecure=yes"}, "--insecure: takes no value"},
           {{"--max-tensor", "much"}, "--max-tensor: expected a number of bytes like 1000000, 500MB or 2GiB"},
           {{"--job", "w", "--task", "0", "--cluster", "c", "--tls-cert", "c.pem"}, "belong together"}}) {
    const Error error = error_with(words);
    EXPECT_EQ(error.code(), Code::invalid_argument) << message;
    EXPECT_THAT(error.message(), HasSubstr(message));
  }
  const Error missing = error_with({"--job", "worker", "--task", "0", "--cluster", "/none/c.json"});
  EXPECT_EQ(missing.code(), Code::not_found);
  EXPECT_THAT(missing.message(), HasSubstr("cannot read the cluster file '/none/c.json'"));
}

TEST(TaskOfACommandLine, ItsOptionsAreInItsHelp) {
  EXPECT_THAT(Task::command_line_help(),
              AllOf(HasSubstr("\n  --cluster FILE          Cluster file\n"), HasSubstr("--join-timeout S"),
                    HasSubstr(" [60]\n"), HasSubstr("--insecure ")));
}

}  // namespace
}  // namespace troupe
