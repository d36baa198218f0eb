// Looking into clusters of real processes.
#include <arpa/inet.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/apps/cluster.hpp"
#include "tests/apps/process.hpp"
#include "tests/error_of.hpp"
#include "tests/paths.hpp"
#include "tests/patience.hpp"
#include "tests/processes/child.hpp"
#include "tests/processes/places.hpp"
#include <troupe/actors/introspection/observer.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using testing::Arguments;
using testing::Cluster;
using ::testing::ContainsRegex;
using testing::error_of;
using testing::eventually;
using ::testing::HasSubstr;
using testing::kPatience;
using testing::last_line;
using testing::Process;
using ::testing::StartsWith;
using testing::TemporaryDirectory;

// The address that troupe-launch and --introspect-port print.
HttpTarget target_of(Process& process) {
  process.wait_for("inspect ");
  std::smatch found;
  EXPECT_TRUE(std::regex_search(process.err, found, std::regex("inspect [^\n]*(http://[^\n]*)")));
  return HttpTarget::parse(found.str(1));
}

std::string only_file_in(const std::string& directory) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) found.push_back(entry.path().string());
  EXPECT_EQ(found.size(), 1u);
  if (found.empty()) return "";
  std::ifstream file(found[0]);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(LookingIntoAProcess, IsPossibleWithoutACluster) {
  Process process({testing::program("troupe-mnist"), "--json", "--epochs", "100000", "--digits", "600,20",
                   "--introspect-port", "0"});
  const HttpTarget target = target_of(process);
  process.wait_for("\"event\":\"epoch\"");
  const TaskSnapshot task = parse_task_snapshot(http_get(target, "/task", kPatience));
  ASSERT_TRUE(task.training);
  EXPECT_EQ(task.training->mode, "local");
  EXPECT_GT(task.training->steps, 0u);
  EXPECT_EQ(task.training->examples, 32 * task.training->steps);
  EXPECT_FALSE(task.training->recent.empty());
  // What it does is told by the numbers of its steps, not by those of the session.
  std::string why;
  eventually([&] {
    why = http_get(target, "/why", kPatience);
    return why.find(" of the training on ") != std::string::npos;
  });
  EXPECT_THAT(
      why,
      ContainsRegex(
          "WORKING /job:local/task:0/device:CPU:0 runs [^\n]* of step [0-9]+ of the training on /job:local/task:0"));
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(), 130);
}

TEST(LookingIntoAProcess, ItWritesItsFlightRecordOnASignal) {
  TemporaryDirectory directory;
  Process process({testing::program("troupe-mnist"), "--json", "--epochs", "100000", "--digits", "600,20",
                   "--flight-record", directory.path().string()});
  process.wait_for("\"event\":\"epoch\"");
  process.signal(SIGUSR1);
  process.wait_for("flight record of");
  EXPECT_THAT(only_file_in(directory.path().string()),
              AllOf(HasSubstr("Flight record of /job:local/task:0"), HasSubstr("ExecuteSegment"),
                    HasSubstr("\nWaits in the cluster:\n")));
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(), 130);
}

TEST(LookingIntoAProcess, ItWritesItsFlightRecordWhenItsPeersFail) {
  TemporaryDirectory directory;
  Cluster cluster(1, 1,
                  {"--mode", "sync", "--epochs", "100000", "--digits", "600,20", "--on-loss", "fail", "--flight-record",
                   directory.path().string()});
  cluster->wait_for("\"event\":\"epoch\"");
  kill(cluster.pid("ps/0"), SIGKILL);
  EXPECT_NE(cluster.wait(), 0);
  EXPECT_THAT(only_file_in(directory.path().string()),
              AllOf(HasSubstr("Flight record of /job:worker/task:0"), HasSubstr("/job:ps/task:0"),
                    HasSubstr("to wire: Push"), HasSubstr("Token")));
}

// ---- troupe-top --web ----------------------------------------------------------------------------------------------

// The first line of the answer to a GET with this header Host.
std::string status_for_host(const HostPort& address, const std::string& host) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{
      .sin_family = AF_INET, .sin_port = htons(address.port), .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  const std::string request = "GET /snapshot HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n";
  EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string answer;
  for (char byte; answer.find('\r') == std::string::npos && read(fd, &byte, 1) == 1;) answer += byte;
  close(fd);
  return answer;
}

// A busy machine may make tasks late: asks again as long as none has answered in time.
std::string get_of_page(const HttpTarget& page, const std::string& path) {
  std::string body;
  Error late;
  eventually([&] {
    late = error_of([&] { body = http_get(page, path, kPatience); });
    if (late && late.code() != Code::unavailable && late.code() != Code::deadline_exceeded) throw late;
    return late.ok();
  });
  if (late) throw late;
  return body;
}

TEST(WebPage, ShowsAClusterAndGoesOnWhenTheTaskThatItAskedIsStopped) {
  Cluster cluster(1, 3, {"--mode", "sync", "--epochs", "100000", "--digits", "600,20"});
  cluster->wait_for("\"event\":\"epoch\"");
  std::map<std::string, pid_t> tasks;  // that the page knows
  for (const char* task : {"ps/0", "worker/0", "worker/1", "worker/2"})
    tasks.emplace("/job:" + std::regex_replace(task, std::regex("/"), "/task:"), cluster.pid(task));
  std::smatch found;
  ASSERT_TRUE(std::regex_search(cluster->err, found, std::regex("troupe-top ([0-9.:]+) --cluster (\\S+)")));
  Process top({testing::program("troupe-top"), found.str(1), "--cluster", found.str(2), "--web", "0"});
  top.wait_for("until Ctrl-C");
  std::smatch url;
  ASSERT_TRUE(std::regex_search(top.err, url, std::regex("serving the cluster page at (http://\\S+)")));
  const HttpTarget page = HttpTarget::parse(url.str(1));
  EXPECT_THAT(http_get(page, "/", kPatience), HasSubstr("<html"));
  const auto all_up_but = [&](const std::string& stopped) {
    std::string wanted, metrics;
    for (const auto& [task, pid] : tasks)
      wanted += fmt::format("troupe_up{{task=\"{}\"}} {}\n", task, task == stopped ? 0 : 1);
    eventually([&] { return (metrics = get_of_page(page, "/metrics")).find(wanted) != std::string::npos; });
    EXPECT_THAT(metrics, HasSubstr(wanted));
  };
  const auto asked_now = [&] { return parse_cluster_snapshot(get_of_page(page, "/snapshot")).asked; };
  all_up_but("");
  const std::string other = asked_now() == "/job:worker/task:2" ? "/job:worker/task:1" : "/job:worker/task:2";
  EXPECT_THAT(get_of_page(page, "/flight?task=" + other),
              AllOf(StartsWith(fmt::format("Flight record of {}, process {}", other, tasks.at(other))),
                    HasSubstr("ExecuteSegment")));

  const std::string asked = asked_now();
  testing::stop_process(tasks.at(asked));
  EXPECT_TRUE(eventually([&] { return asked_now() != asked; }));
  all_up_but(asked);
  Error silent;
  eventually([&] {  // until those are in time that know where it is
    silent = error_of([&] { http_get(page, "/flight?task=" + asked, kPatience); });
    return silent.ok() || silent.message().starts_with(asked + ": ");
  });
  EXPECT_EQ(silent.code(), Code::deadline_exceeded) << "a stopped task has told of its messages";
  EXPECT_THAT(silent.message(), StartsWith(asked + ": no answer within"));
  // Only this machine may ask, and by a name of its own: no page from elsewhere whose name leads here.
  for (const char* own : {"localhost", "127.0.0.1"}) {
    const std::string host = fmt::format("{}:{}", own, page.address.port);
    EXPECT_TRUE(eventually([&] { return status_for_host(page.address, host).find(" 200 ") != std::string::npos; }))
        << own;
  }
  for (const char* stranger : {"evil.example", "localhost.evil.example", ""})
    EXPECT_THAT(status_for_host(page.address, stranger), HasSubstr(" 401 ")) << stranger;
  top.signal(SIGINT);
  EXPECT_EQ(top.wait(), 130);
  kill(tasks.at(asked), SIGCONT);
  cluster->signal(SIGINT);
  EXPECT_EQ(cluster.wait(), 130);
}

}  // namespace
}  // namespace troupe
