#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/error_of.hpp"
#include "tests/paths.hpp"
#include "tests/patience.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/cluster/launch_handshake.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

using testing::error_of;

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// troupe-launch as a process, with what it has printed so far.
class Launched {
 public:
  explicit Launched(std::vector<std::string> arguments) {
    std::array<int, 2> out{}, err{};
    EXPECT_EQ(pipe2(out.data(), O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(err.data(), O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(out[1], STDOUT_FILENO);
      dup2(err[1], STDERR_FILENO);
      arguments.insert(arguments.begin(), testing::program("troupe-launch"));
      std::vector<char*> argv;
      for (std::string& argument : arguments) argv.push_back(argument.data());
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(out[1]);
    close(err[1]);
    out_fd_ = out[0];
    err_fd_ = err[0];
  }
  ~Launched() {
    if (!reaped_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(out_fd_);
    close(err_fd_);
  }
  Launched(const Launched&) = delete;

  // Reads until stderr has `text` that many times.
  void wait_for(const std::string& text, int times = 1) {
    while (count(text) < times) {
      if (!read_more()) {
        ADD_FAILURE() << "\"" << text << "\" did not come; stderr:\n" << err;
        return;
      }
    }
  }
  void signal(int number) { kill(pid_, number); }
  // Reads until all writers of stdout and stderr are gone, among them whatever the chief started; then the
  // exit code.
  int wait() {
    while (read_more()) {
    }
    EXPECT_TRUE(out_ended_ && err_ended_) << "output is still open\n" << err;
    int status = 0;
    waitpid(pid_, &status, 0);
    reaped_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  std::string out, err;

 private:
  int count(const std::string& text) const {
    int found = 0;
    for (std::size_t at = err.find(text); at != std::string::npos; at = err.find(text, at + 1)) ++found;
    return found;
  }

  // False at the end of both streams, or after 30 s of silence.
  bool read_more() {
    std::array<pollfd, 2> wanted{{{out_ended_ ? -1 : out_fd_, POLLIN, 0}, {err_ended_ ? -1 : err_fd_, POLLIN, 0}}};
    if ((out_ended_ && err_ended_) || poll(wanted.data(), 2, 30'000) <= 0) return false;
    if (wanted[0].revents) out_ended_ = !append(out_fd_, out);
    if (wanted[1].revents) err_ended_ = !append(err_fd_, err);
    return true;
  }
  static bool append(int fd, std::string& text) {
    std::array<char, 4096> chunk;
    const ssize_t got = read(fd, chunk.data(), chunk.size());
    if (got > 0) text.append(chunk.data(), static_cast<std::size_t>(got));
    return got > 0;
  }

  pid_t pid_ = -1;
  int out_fd_ = -1, err_fd_ = -1;
  bool out_ended_ = false, err_ended_ = false;
  bool reaped_ = false;
};

std::vector<std::string> cluster(int ps, int workers, std::vector<std::string> task_arguments = {},
                                 std::vector<std::string> options = {}) {
  std::vector<std::string> all = {"--ps", std::to_string(ps), "--workers", std::to_string(workers)};
  all.insert(all.end(), options.begin(), options.end());
  all.insert(all.end(), {"--", testing::program("fake_task")});
  all.insert(all.end(), task_arguments.begin(), task_arguments.end());
  return all;
}

TEST(Launch, GivesEveryTaskTheClusterFileAndPassesTheChiefsOutputUnchanged) {
  Launched run(cluster(2, 2, {"a word", "--option", "--", "-x"}));
  EXPECT_EQ(run.wait(), 0) << run.err;
  std::istringstream lines(run.out);
  std::string path, json, rest;
  std::getline(lines, path);
  std::getline(lines, json);
  std::getline(lines, rest, '\0');
  EXPECT_EQ(rest, "word a word\nword --option\nword --\nword -x\nunfinished line");
  const auto file = nlohmann::json::parse(json);
  EXPECT_EQ(file.size(), 4u);
  EXPECT_THAT(file["name"].get<std::string>(), HasSubstr("launch-"));
  EXPECT_EQ(file["token"].get<std::string>().size(), 64u);
  EXPECT_EQ(file["ps"], (nlohmann::json{"127.0.0.1:7000", "127.0.0.1:7001"}));
  EXPECT_EQ(file["worker"], (nlohmann::json{"127.0.0.1:8000", "127.0.0.1:8001"}));
  EXPECT_FALSE(std::filesystem::exists(path)) << "the cluster file stays behind";
}

TEST(Launch, SharesGpusAmongWorkers) {
  setenv("CUDA_VISIBLE_DEVICES", "4,GPU-aa,6,7", 1);
  Launched run(cluster(1, 2, {"ps/0=gpus", "worker/0=gpus", "worker/1=gpus"}, {"--gpus-per-worker", "2"}));
  EXPECT_EQ(run.wait(), 0) << run.err;
  EXPECT_THAT(run.err, AllOf(HasSubstr("[ps/0] GPUs ''\n"), HasSubstr("[worker/0] GPUs '4,GPU-aa'\n"),
                             HasSubstr("[worker/1] GPUs '6,7'\n")));
  Launched more(cluster(1, 3, {}, {"--gpus-per-worker", "2"}));
  EXPECT_EQ(more.wait(), 1);
  EXPECT_THAT(more.err, HasSubstr("3 workers with 2 GPUs each need 6, but there are 4 (CUDA_VISIBLE_DEVICES, else "
                                  "/dev/nvidia*): 4, GPU-aa, 6, 7"));
  Launched all(cluster(1, 1, {"ps/0=gpus", "worker/0=gpus"}));
  EXPECT_EQ(all.wait(), 0);
  EXPECT_THAT(all.err, AllOf(HasSubstr("[ps/0] GPUs '4,GPU-aa,6,7'\n"), HasSubstr("[worker/0] GPUs '4,GPU-aa,6,7'\n")));
  unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(Launch, NamesTasksAddressesAndOutputOnStderr) {
  Launched run(cluster(1, 2));
  EXPECT_EQ(run.wait(), 0) << run.err;
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("ps/0 is process "), HasSubstr(" at 127.0.0.1:7000\n"),
                    HasSubstr(" at 127.0.0.1:8000 (chief)\n"), HasSubstr("troupe-top 127.0.0.1:8000 --cluster /"),
                    HasSubstr("[ps/0] stdout of ps\n"), HasSubstr("[ps/0] more\n")));
  EXPECT_THAT(run.out, Not(HasSubstr("stdout of ps")));
}

// The one that the launcher names.
std::string cluster_file_in(const std::string& said) {
  const std::string option = " --cluster ";
  const std::size_t at = said.find(option);
  return at == std::string::npos ? "" : said.substr(at + option.size(), said.find('\n', at) - at - option.size());
}

TEST(Launch, OnlyTheUserCanReadTheClusterFile) {
  Launched run(cluster(0, 1, {"worker/0=stubborn"}));
  run.wait_for("ready");
  struct stat file {};
  ASSERT_EQ(stat(cluster_file_in(run.err).c_str(), &file), 0) << run.err;
  EXPECT_EQ(file.st_mode & 07777, 0600u);
  run.signal(SIGINT);
  run.wait_for("signal again to kill them");
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 130);
}

TEST(Launch, ExitsWithTheCodeOfTheChief) {
  Launched run(cluster(1, 2, {"worker/0=fail", "ps/0=wait", "worker/1=wait"}));
  EXPECT_EQ(run.wait(), 3);
  EXPECT_THAT(run.err, HasSubstr("worker/0 ended with exit code 3"));
  Launched crash(cluster(0, 1, {"worker/0=crash"}));
  EXPECT_EQ(crash.wait(), 128 + SIGABRT);
  EXPECT_THAT(crash.err, HasSubstr("worker/0 was killed by signal 6"));
}

// In which a task that is asked to end can do so on a busy machine; it runs out in these tests.
const std::vector<std::string> kLongGrace = {"--grace", "3"};

// What a task waits for.
class Gate {
 public:
  Gate() {
    EXPECT_EQ(mkfifo(path().c_str(), 0600), 0);
    fd_ = ::open(path().c_str(), O_RDWR | O_CLOEXEC);
  }
  ~Gate() { close(fd_); }
  std::string path() const { return directory_.file("gate"); }
  void open() { EXPECT_EQ(write(fd_, "x", 1), 1); }

 private:
  testing::TemporaryDirectory directory_;
  int fd_ = -1;
};

TEST(Launch, AWorkerThatFailsIsNamedAndEndsNobody) {
  Gate gate;
  Launched run(cluster(1, 3, {"worker/0=until:" + gate.path(), "worker/1=crash", "worker/2=killed"}, {"--grace", "0"}));
  for (const char* task : {"worker/1", "worker/2"})
    run.wait_for(std::string("the other tasks may continue without ") + task + " (--fail-fast ends them)");
  gate.open();
  EXPECT_EQ(run.wait(), 0) << run.err;
  EXPECT_THAT(run.err, Not(HasSubstr("still running: worker")));
}

TEST(Launch, AnotherChiefTakesThePlaceOfOneThatIsKilledAndItsOutputPasses) {
  Gate gate;
  Launched run(cluster(1, 2, {"worker/0=killed", "worker/1=until:" + gate.path()}));
  run.wait_for("may continue without worker/0, with worker/1 as the chief");
  gate.open();
  EXPECT_EQ(run.wait(), 0) << run.err;
  EXPECT_EQ(run.out, "through the gate\n");
}

TEST(Launch, WithFailFastATasksFailureEndsTheRestAfterTheGracePeriod) {
  Launched run(
      cluster(1, 2, {"worker/0=wait", "worker/1=fail", "ps/0=wait"}, {"--fail-fast", "--grace", kLongGrace.back()}));
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("worker/1 ended with exit code 3"), HasSubstr("still running: ps/0, worker/0; asking"),
                    HasSubstr("[worker/0] ending orderly"), HasSubstr("[ps/0] ending orderly")));
}

TEST(Launch, TheChiefsOwnErrorCountsWhenItFollowsAnotherTasksFailure) {
  Launched run(cluster(0, 2, {"worker/1=crash", "worker/0=fail"}));
  EXPECT_EQ(run.wait(), 3);
}

TEST(Launch, TasksThatDoNotEndAfterTheChiefAreAskedAndThenKilled) {
  Launched run(cluster(2, 1, {"ps/0=wait", "ps/1=stubborn"}, kLongGrace));
  EXPECT_EQ(run.wait(), 0);
  EXPECT_THAT(run.err, AllOf(HasSubstr("[ps/0] ending orderly"), HasSubstr("still running: ps/1; killing")));
}

TEST(Launch, AKilledLauncherLeavesNoClusterFile) {
  Launched run(cluster(0, 1, {"worker/0=stubborn"}));
  run.wait_for("ready");
  run.signal(SIGKILL);
  EXPECT_EQ(run.wait(), -SIGKILL);
  EXPECT_FALSE(std::filesystem::exists(cluster_file_in(run.err))) << run.err;
}

TEST(Launch, MakesATokenForAClusterFile) {
  Launched first({"--make-token"}), second({"--make-token"});
  EXPECT_EQ(first.wait(), 0);
  EXPECT_EQ(second.wait(), 0);
  EXPECT_EQ(first.out.size(), 65u);
  EXPECT_EQ(first.out.find_first_not_of("0123456789abcdef"), 64u);
  EXPECT_NE(first.out, second.out);
}

TEST(Launch, ATaskThatDiesBeforeTheClusterIsCompleteIsStartedAgain) {
  for (const char* when : {"silent-once:", "told-once:"}) {  // the chief, without whom nothing ends
    testing::TemporaryDirectory directory;
    Launched run(cluster(0, 2, {std::string("worker/0=") + when + directory.file("")}, {"--restart", "1"}));
    EXPECT_EQ(run.wait(), 0) << run.err;
    EXPECT_THAT(run.err, AllOf(HasSubstr("worker/0 was killed by signal 9"), HasSubstr("worker/0 restarted"))) << when;
  }
}

TEST(Launch, ATaskThatEndsBeforeItReportsEndsTheStart) {
  Launched run(cluster(1, 2, {"worker/1=early"}));
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("worker/1 ended with exit code 4 before the cluster was complete"),
                             HasSubstr("worker/1 had not reported its address")));
}

TEST(Launch, AnAppThatIsNoProgramOfTroupeIsNamed) {
  Launched run({"--workers", "1", "--", "/bin/echo"});
  EXPECT_EQ(run.wait(), 1);
  EXPECT_EQ(run.out, "--job worker --task 0\n");
  EXPECT_THAT(run.err, HasSubstr("worker/0 had not reported its address: a Troupe program calls "
                                 "Task::from_command_line(argc, argv) at its start"));
}

TEST(Launch, ATaskThatNeverReportsIsNamedAtTheDeadline) {
  EXPECT_TRUE(testing::holds_with_more_time(
      std::chrono::milliseconds(300), [](std::chrono::milliseconds limit) {  // others may be late too
        const std::string seconds = fmt::format("{}", std::chrono::duration<double>(limit).count());
        Launched run(cluster(2, 2, {"ps/1=mute", "worker/1=mute"}, {"--start-timeout", seconds, "--grace", "0.2"}));
        EXPECT_NE(run.wait(), 0);
        EXPECT_THAT(run.err, Not(HasSubstr("is process")));
        return run.err.find("no address from ps/1, worker/1 within " + seconds + " s") != std::string::npos;
      }));
}

TEST(Launch, AReportThatIsNoAddressIsRefused) {
  Launched run(cluster(0, 2, {"worker/1=babble"}));
  EXPECT_NE(run.wait(), 0);
  EXPECT_THAT(run.err, HasSubstr("worker/1 reported \"no address:0\", which is not HOST:PORT"));
}

TEST(Launch, TheFirstSignalEndsOrderly) {
  for (const int number : {SIGINT, SIGTERM}) {
    SCOPED_TRACE(::testing::Message() << "signal " << number);
    Launched run(cluster(1, 1, {"worker/0=wait", "ps/0=wait"}));
    run.wait_for("ready", 2);
    run.signal(number);
    EXPECT_EQ(run.wait(), 128 + number);
    EXPECT_THAT(run.err, AllOf(HasSubstr("[worker/0] ending orderly"), HasSubstr("[ps/0] ending orderly")));
  }
}

TEST(Launch, TheSecondSignalKills) {
  Launched run(cluster(1, 1, {"worker/0=stubborn", "ps/0=stubborn"}));
  run.wait_for("ready", 2);
  run.signal(SIGINT);
  run.wait_for("asking the tasks to end");
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 130);
  EXPECT_THAT(run.err, HasSubstr("again: killing the tasks"));
}

TEST(Launch, ASignalDuringTheStartEndsIt) {
  Launched run(cluster(0, 1, {"worker/0=mute"}, {"--grace", "0.2"}));
  run.wait_for("ready");
  run.signal(SIGTERM);
  EXPECT_EQ(run.wait(), 143);
}

// wait() returns only when nobody holds the chief's stdout any more.
TEST(Launch, ProcessesThatATaskLeavesBehindDoNotSurvive) {
  Launched run(cluster(0, 2, {"worker/0=orphan", "worker/1=wait"}, {"--grace", "0.1"}));
  EXPECT_EQ(run.wait(), 0);
}

TEST(Launch, TasksDieWithALauncherThatIsKilled) {
  Launched run(cluster(0, 1, {"worker/0=stubborn"}));
  run.wait_for("ready");
  run.signal(SIGKILL);
  EXPECT_EQ(run.wait(), -SIGKILL);
}

TEST(Launch, WrongUsageExitsWithTwoAndSaysWhy) {
  for (const auto& [arguments, message] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{}, "no app given"},
           {{"--ps", "1"}, "no app given"},
           {{"--workers", "0", "app"}, "--workers"},
           {{"--ps", "-1", "app"}, "--ps"},
           {{"--tasks", "3", "--", "app"}, "'--tasks' is not an option"}}) {
    Launched run(arguments);
    EXPECT_EQ(run.wait(), 2) << message;
    EXPECT_THAT(run.err, HasSubstr(message));
    EXPECT_EQ(run.out, "") << message;
  }
}

TEST(Launch, AnAppThatDoesNotExistIsNamed) {
  Launched run({"--workers", "2", "--", "no-such-app"});
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.err, HasSubstr("cannot start 'no-such-app': No such file or directory"));
}

TEST(Launch, HelpTeaches) {
  Launched run({"--help"});
  EXPECT_EQ(run.wait(), 0);
  EXPECT_THAT(run.out,
              AllOf(HasSubstr("troupe-launch --ps 2 --workers 2 -- troupe-mnist"), HasSubstr("--start-timeout")));
}

TEST(LaunchHandshake, IsAbsentWithoutALauncher) {
  unsetenv("TROUPE_LAUNCH");
  EXPECT_FALSE(LaunchHandshake::from_environment().has_value());
}

TEST(LaunchHandshake, RefusesAMalformedVariable) {
  for (const char* value : {"", "3", "3,", "3,4", "3,4,", "a,b,c", "3,4,5,6", "3,4,5x", "900,901,1", "0,1,1", "3,3,1",
                            "-1,-2,1", "3,4,0", "3,4,-1"}) {
    setenv("TROUPE_LAUNCH", value, 1);
    EXPECT_EQ(error_of([] { LaunchHandshake::from_environment(); }).code(), Code::invalid_argument) << value;
    EXPECT_EQ(getenv("TROUPE_LAUNCH"), nullptr) << value;
  }
}

TEST(LaunchHandshake, WaitingEndsAtTheDeadlineOrWithTheLauncher) {
  std::array<int, 2> report{}, cluster{};
  ASSERT_EQ(pipe(report.data()), 0);
  ASSERT_EQ(pipe(cluster.data()), 0);
  setenv("TROUPE_LAUNCH", fmt::format("{},{},3", report[1], cluster[0]).c_str(), 1);
  auto handshake = LaunchHandshake::from_environment();
  ASSERT_TRUE(handshake);
  EXPECT_EQ(handshake->tasks(), 3);
  EXPECT_EQ(error_of([&] { handshake->wait_for_cluster_file(std::chrono::steady_clock::now()); }).code(),
            Code::deadline_exceeded);
  close(cluster[1]);
  EXPECT_EQ(error_of([&] {
              handshake->wait_for_cluster_file(std::chrono::steady_clock::now() + std::chrono::minutes(1));
            }).code(),
            Code::unavailable);
  close(report[0]);
}

}  // namespace
}  // namespace troupe
