// The page of a real cluster: troupe-launch, troupe-mnist, and a worker that is killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "tests/apps/cluster.hpp"
#include "tests/page/browser.hpp"

namespace troupe::testing {
namespace {

using ::testing::IsEmpty;

// The actors of docs/design/overview.md, that a job with parameter servers has, by the job of their task.
const std::map<std::string, std::vector<std::string>> kActors = {
    {"ps", {"node", "scheduler", "rendezvous", "peer", "shard", "introspector"}},
    {"worker", {"node", "scheduler", "partition", "device", "rendezvous", "peer", "worker", "introspector"}}};

std::string box(const std::string& task) {
  return ".task[data-task=\"/job:" + std::regex_replace(task, std::regex("/"), "/task:") + "\"]";
}

// The number that an element shows first.
std::string number_in(const std::string& selector) {
  return "Number.parseFloat(document.querySelector('" + selector + "').innerText.replace(/[^\\d.]+/g, ''))";
}

TEST(LivePage, ShowsAClusterThatTrainsAndOutlivesAWorker) {
  if (!Browser::installed()) GTEST_SKIP() << "chromium is not installed (tools/setup.sh --with-browser)";
  Cluster cluster(2, 3, {"--mode", "sync", "--epochs", "1000", "--introspect-port", "0"});
  const pid_t victim = cluster.pid("worker/2");
  cluster->wait_for("\"epoch\":1");
  static const std::regex line(R"(inspect /job:worker/task:0 .*(http://127\.0\.0\.1:\S+))");
  std::smatch address;
  ASSERT_TRUE(std::regex_search(cluster->err, address, line)) << cluster->err;

  Browser browser;
  browser.resize(1400, 1000);
  browser.open(address[1]);
  const std::vector<std::string> tasks = {"ps/0", "ps/1", "worker/0", "worker/1", "worker/2"};
  for (const std::string& task : tasks) {
    EXPECT_TRUE(browser.becomes_true("document.querySelector('" + box(task) + "').dataset.answered === 'true'"))
        << task;
    for (const std::string& kind : kActors.at(task.substr(0, task.find('/'))))
      EXPECT_TRUE(browser.becomes_true("document.querySelector('" + box(task) + " .actor[data-kind=" + kind + "]')"))
          << task << " has no " << kind;
  }
  EXPECT_TRUE(browser.becomes_true("document.querySelector('" + box("ps/0") + " .actor[data-kind=coordinator]')"));

  const auto grows = [&](const std::string& figure) {
    const std::string now = number_in("[data-figure=" + figure + "] .value");
    browser.evaluate("window.before = " + now);
    return browser.becomes_true(now + " > window.before");
  };
  EXPECT_TRUE(grows("step"));
  EXPECT_TRUE(browser.becomes_true(number_in("[data-figure=images] .value") + " > 0"));
  EXPECT_TRUE(browser.becomes_true(number_in("[data-figure=traffic] .value") + " > 0"));
  EXPECT_TRUE(browser.becomes_true(number_in("[data-figure=figure] .value") + " > 0"));
  EXPECT_TRUE(browser.becomes_true(number_in("[data-figure=left] .value") + " > 0"));
  EXPECT_TRUE(browser.becomes_true("document.querySelectorAll('#edges .dots:not(.still)').length >= 6"))
      << "no tensors flow to be seen";
  EXPECT_TRUE(browser.becomes_true("document.querySelectorAll('#timeline rect').length > 3"));
  EXPECT_TRUE(browser.becomes_true("document.querySelectorAll('#shards tbody tr').length === 2"));
  EXPECT_TRUE(browser.becomes_true("document.querySelectorAll('#devices .device').length >= 3"));

  kill(victim, SIGKILL);
  EXPECT_TRUE(browser.becomes_true("document.querySelector('" + box("worker/2") + "').classList.contains('silent')"));
  EXPECT_TRUE(grows("step")) << "the others do not go on";
  for (const char* task : {"ps/0", "ps/1", "worker/0", "worker/1"})
    EXPECT_TRUE(browser.becomes_true("document.querySelector('" + box(task) + "').dataset.answered === 'true'"))
        << task;
  EXPECT_TRUE(browser.becomes_true("document.querySelector('#live').innerText.includes('1 silent')"));

  for (const char* scheme : {"light", "dark"}) {
    browser.set_media("prefers-color-scheme", scheme);
    browser.resize(390, 844, 2, true);
    EXPECT_EQ(browser.evaluate("document.documentElement.scrollWidth"), 390) << scheme;
  }
  EXPECT_THAT(browser.errors(), IsEmpty());
  cluster->signal(SIGINT);
  cluster.wait();
}

}  // namespace
}  // namespace troupe::testing
