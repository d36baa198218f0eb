// The page in a browser, with an example of a cluster behind it. tests/page/live_page_test.cpp: with a real one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <set>

#include "tests/page/browser.hpp"
#include "tests/page/example_cluster.hpp"
#include "tests/page/page_server.hpp"
#include <troupe/messages/error.hpp>

namespace troupe::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Page : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Browser::installed()) GTEST_SKIP() << "chromium is not installed (tools/setup.sh --with-browser)";
    browser = std::make_unique<Browser>();
    browser->resize(1400, 1000);
  }
  void TearDown() override {
    if (!browser) return;
    EXPECT_THAT(browser->errors(), IsEmpty());
  }

  // What is served from now on.
  void serve(ClusterSnapshot snapshot) {
    const std::scoped_lock lock(mutex_);
    snapshot_ = std::move(snapshot);
  }
  // Whether the server answers with an error.
  void set_out_of_order(bool value) {
    const std::scoped_lock lock(mutex_);
    out_of_order_ = value;
  }
  ClusterSnapshot served() {
    const std::scoped_lock lock(mutex_);
    if (out_of_order_) fail(Code::unavailable, "out of order");
    return snapshot_;
  }
  // Opens the page once it shows what is served.
  void open(PageServer& server) {
    browser->open(server.url());
    ASSERT_TRUE(browser->becomes_true("document.querySelectorAll('.task .actor').length > 0")) << text("body");
  }
  std::string text(const std::string& selector) { return browser->evaluate(text_of(selector)).get<std::string>(); }
  // In time, with its narrow spaces left out.
  bool shows(const std::string& selector, const std::string& part) {
    return browser->becomes_true(text_of(selector) + ".replaceAll('\\u202f', '').includes(" +
                                 nlohmann::json(part).dump() + ")");
  }

  const ExampleCluster cluster;
  std::unique_ptr<Browser> browser;

 private:
  static std::string text_of(const std::string& selector) {
    return "document.querySelector('" + selector + "').innerText";
  }

  std::mutex mutex_;
  bool out_of_order_ = false;
  ClusterSnapshot snapshot_;
};

TEST_F(Page, ShowsTasksActorsAndFiguresAndFollowsThem) {
  serve(cluster.at(10));
  PageServer server([this] { return served(); }, "a token");
  open(server);
  const auto snapshot = served();
  std::set<std::string> actors;  // those of one kind and name are shown as one
  for (const TaskReport& report : snapshot.tasks) {
    const std::string box = ".task[data-task=\"" + report.task + "\"]";
    for (const ActorSnapshot& actor : report.snapshot->actors) {
      EXPECT_TRUE(shows(box + " .actor[data-kind=" + actor.kind + "]", actor.kind)) << report.task;
      actors.insert(report.task + actor.kind + actor.name);
    }
  }
  EXPECT_EQ(browser->evaluate("document.querySelectorAll('.actor').length"), actors.size());
  EXPECT_TRUE(shows(".task[data-task=\"/job:worker/task:0\"] .actor[data-kind=partition]", "CPU:0 ×2"));
  EXPECT_EQ(browser->evaluate("document.querySelectorAll('#edges .edge').length"), cluster.ps * cluster.workers);
  EXPECT_THAT(text("h1"), HasSubstr("launch-4711"));
  EXPECT_TRUE(shows("[data-figure=step]", "1800"));
  EXPECT_TRUE(shows("#shards", "2 of 3"));
  EXPECT_TRUE(shows("#devices", "f32[784,128]"));
  EXPECT_TRUE(shows("#causes", "worker/1 computes step 7"));

  serve(cluster.at(12));
  EXPECT_TRUE(shows("[data-figure=step]", "2160"));
  EXPECT_TRUE(shows("[data-figure=steps]", "180 /s"));
  EXPECT_TRUE(shows("[data-figure=images]", "17280 /s"));
  EXPECT_TRUE(shows("[data-figure=traffic]", "140MiB /s"));
  EXPECT_TRUE(shows("[data-figure=left]", "40s"));  // 7,215 steps
  EXPECT_TRUE(shows("[data-figure=figure]", "0.9305"));
  EXPECT_TRUE(shows("[data-figure=figure]", "training 0.9012"));
  EXPECT_TRUE(shows("#devices", "3 × dense/weights f32[784,128]"));
  EXPECT_EQ(browser->evaluate("[...document.querySelectorAll('table')].filter((table) => { const titles = "
                              "[...table.querySelectorAll('th')].map((each) => each.innerText); return new "
                              "Set(titles).size < titles.length; }).length"),
            0)
      << "two columns of one name";
  EXPECT_TRUE(shows(".task[data-task=\"/job:worker/task:2\"] .actor[data-kind=device]", "86%"));
  EXPECT_EQ(browser->evaluate("document.querySelectorAll('#timeline svg').length"), cluster.workers);
  EXPECT_GT(browser->evaluate("document.querySelectorAll('#timeline rect').length"), 50);
  EXPECT_THAT(
      browser->evaluate("document.querySelector('[data-chart=loss] .line').getAttribute('d')").get<std::string>(),
      HasSubstr("L"));

  browser->evaluate(
      "document.querySelector('.task[data-task=\"/job:worker/task:1\"] .actor[data-kind=device]').click()");
  EXPECT_TRUE(shows("#details", "ExecuteSegment"));
  EXPECT_TRUE(shows("#details", "540/s"));
  browser->evaluate("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))");
  EXPECT_EQ(browser->evaluate("document.querySelector('#details').hidden"), true);
  browser->evaluate("document.querySelector('.task[data-task=\"/job:worker/task:0\"] > button').click()");
  EXPECT_TRUE(shows("#details", "incarnation"));
  browser->evaluate("document.querySelector('#details .action').click()");
  EXPECT_TRUE(shows("#details", "Flight record of /job:worker/task:0\n12 µs ago: scheduler <- RunStep"));
}

TEST_F(Page, ActorsThatDoNothingAreFolded) {
  serve(cluster.at(10));
  PageServer server([this] { return served(); });
  open(server);
  serve(cluster.at(11));
  const std::string box = ".task[data-task=\"/job:worker/task:0\"]";
  const auto seen = [&] {
    return browser->evaluate("[...document.querySelectorAll('" + box +
                             " .actor')].filter((each) => each.checkVisibility()).map((each) => each.dataset.kind)");
  };
  EXPECT_TRUE(shows(box + " .more", "and 2 idle actors"));  // node and partition
  EXPECT_EQ(seen(), nlohmann::json({"scheduler", "device", "rendezvous", "worker", "peer", "peer", "peer", "peer",
                                    "introspector"}));
  browser->evaluate("document.querySelector('" + box + " .more').click()");
  EXPECT_EQ(seen().size(), 11u);
  EXPECT_TRUE(shows(box + " .more", "hide 2 idle actors"));
}

// The slowest stage of a pipeline is marked.
TEST_F(Page, ShowsStagesOfPipelines) {
  const ExampleCluster cluster{.inputs = 1, .steps_per_second = 20};
  serve(cluster.at(10));
  PageServer server([this] { return served(); });
  open(server);
  EXPECT_TRUE(shows("#pipelines tbody tr:nth-child(3)", "map decode"));
  serve(cluster.at(12));
  EXPECT_TRUE(shows("#pipelines tbody tr:nth-child(3)", "input/0"));
  EXPECT_TRUE(shows("#pipelines tbody tr:nth-child(3)", "1920/s"));
  EXPECT_TRUE(shows("#pipelines tbody tr:nth-child(3) td.late", "93"));
  EXPECT_TRUE(shows("#pipelines tbody tr:nth-child(2)", "96MiB"));
  EXPECT_TRUE(shows("#pipelines tbody tr:nth-child(6)", "batches"));
  EXPECT_TRUE(shows("#pipelines tbody tr:nth-child(6)", "4.6MiB"));
  EXPECT_EQ(browser->evaluate("document.querySelectorAll('#pipelines td.late').length"), 1);
}

TEST_F(Page, OneProcessHasNoCardsAndFiguresOfClusters) {
  serve(alone_at(10));
  PageServer server([this] { return served(); });
  open(server);
  serve(alone_at(11));
  EXPECT_TRUE(shows("[data-figure=left]", "41s"));
  EXPECT_TRUE(shows("#live", "live, 1 task"));
  EXPECT_EQ(browser->evaluate("[...document.querySelectorAll('main .card')].filter((card) => card.checkVisibility() && "
                              "!card.innerText.includes('\\n')).length"),
            0);
  for (const char* hidden : {"#shards", "#pipelines", "#links", "[data-figure=traffic]", "[data-figure=dropped]",
                             "[data-figure=staleness]", "[data-chart=traffic]"})
    EXPECT_EQ(browser->evaluate("document.querySelector('" + std::string(hidden) + "')?.checkVisibility() ?? false"),
              false)
        << hidden;
}

TEST_F(Page, FiguresFitTheirTilesThoughTheJobIsLong) {
  const ExampleCluster slow{.steps_per_second = 0.1};
  serve(slow.at(10'000));
  PageServer server([this] { return served(); });
  open(server);
  serve(slow.at(10'100));
  EXPECT_TRUE(shows("[data-figure=left]", "23.2h"));
  EXPECT_EQ(browser->evaluate("[...document.querySelectorAll('.tile .value, .tile h3, .tile .note')].filter((each) => "
                              "each.scrollWidth > each.clientWidth).map((each) => each.innerText)"),
            nlohmann::json::array());
}

TEST_F(Page, NoUpdateThatIsLateIsSaidPlainly) {
  auto snapshot = cluster.at(10);
  for (TaskReport& report : snapshot.tasks)
    for (ShardSnapshot& shard : report.snapshot->shards) shard.staleness = {1800, 0, 0};
  serve(snapshot);
  PageServer server([this] { return served(); });
  open(server);
  EXPECT_TRUE(shows("[data-figure=staleness]", "none late"));
}

TEST_F(Page, ATaskThatDoesNotAnswerIsMarkedAndTheOthersGoOn) {
  serve(cluster.at(10));
  PageServer server([this] { return served(); });
  open(server);
  serve(cluster.at(11));
  EXPECT_TRUE(shows("[data-figure=images]", "17280 /s"));
  auto without = cluster.at(12);
  silence(without, "/job:worker/task:1");
  serve(without);
  const std::string silent = ".task[data-task=\"/job:worker/task:1\"]",
                    other = ".task[data-task=\"/job:worker/task:2\"]";
  EXPECT_TRUE(shows(silent, "does not answer for "));
  EXPECT_TRUE(shows(silent, "has not answered within 1.0 s"));
  EXPECT_TRUE(shows(silent, "device")) << "what was known of it has gone";
  browser->evaluate("document.querySelector('" + silent + " > button').click()");
  EXPECT_TRUE(shows("#details", "incarnation"));
  browser->evaluate("document.querySelector('#details .action').click()");
  EXPECT_TRUE(shows("#details", "No flight record: /job:worker/task:1: no answer within 2.0 s"));
  EXPECT_TRUE(shows("#live", "1 silent"));
  EXPECT_EQ(browser->evaluate("document.querySelector('#live').className"), "live late");
  EXPECT_TRUE(shows("#stage", "stuck"));  // others wait for it
  EXPECT_TRUE(shows("#workers .silent", "does not answer"));
  EXPECT_THAT(text("#workers .silent"), Not(HasSubstr("/s"))) << "it does nothing that is known";
  EXPECT_TRUE(shows("#causes", "worker/1 has not answered"));
  EXPECT_EQ(browser->evaluate("document.querySelector('#why').classList.contains('trouble')"), true);
  EXPECT_TRUE(shows("[data-figure=step]", "2160"));
  EXPECT_TRUE(shows("[data-figure=images]", "11520 /s"));
  EXPECT_TRUE(shows(other, "86%"));
  EXPECT_EQ(browser->evaluate("document.querySelectorAll('#edges .edge.down').length"), 0)
      << "the servers still say that it is connected";

  serve(cluster.at(14));
  EXPECT_TRUE(browser->becomes_true("document.querySelector('" + silent + "').dataset.answered === 'true'"));
  EXPECT_TRUE(shows("#live", "live, 5 tasks"));
}

TEST_F(Page, ADeviceThatIsLostSaysWhy) {
  auto snapshot = cluster.at(10);
  DeviceSnapshot& device = report_of(snapshot, "/job:worker/task:0").snapshot->devices.front();
  device.failure = "its GPU is lost: <b>an illegal access</b>";
  device.pinned_bytes = 147'000'000;
  serve(snapshot);
  PageServer server([this] { return served(); });
  open(server);
  EXPECT_TRUE(shows("#devices .runs.trouble", device.failure));
  EXPECT_TRUE(shows("#devices", "140MiB pinned on the host"));
}

// Everything that a program, or whoever is in the cluster, can give a name.
TEST_F(Page, NamesAreTextAndNeverMarkup) {
  const std::string name = "<img src=x onerror=\"window.hurt = true\"><script>window.hurt = true</script>";
  auto snapshot = cluster.at(10);
  snapshot.cluster = name;
  TaskSnapshot& task = *report_of(snapshot, "/job:worker/task:0").snapshot;
  for (ActorSnapshot& actor : task.actors) {
    actor.name = actor.state = actor.current = actor.waits_for = name;
    actor.messages[name] = 7;
    actor.peers[name] = 7;
  }
  task.actors.front().kind = name;
  task.failure = task.incarnation = task.version = task.training->doing = task.training->mode = name;
  task.devices.front().name = task.devices.front().running = name;
  for (TensorUse& tensor : task.devices.front().largest) tensor.name = tensor.type = name;
  task.links.front().peer = name;
  task.waiting.things.push_back({.id = "step/1/1", .text = name});
  task.waiting.waits.push_back({.waiter = "step/1/1", .awaited = "step/1/1", .text = name});
  TaskSnapshot& server_task = *report_of(snapshot, "/job:ps/task:0").snapshot;
  server_task.job->members.push_back({name, name, {name}});
  server_task.job->stage = server_task.job->mode = server_task.shards.front().waits_for = name;
  snapshot.tasks.push_back({.task = name, .error = name});
  serve(snapshot);
  PageServer server([this] { return served(); });
  open(server);
  EXPECT_TRUE(shows("h1", name));
  for (const char* selector : {".task[data-task=\"/job:worker/task:0\"]", "#workers", "#shards", "#devices", "#causes",
                               "#groups > :last-child"})
    EXPECT_TRUE(shows(selector, name)) << selector;
  for (const char* opener : {" > button", " .actor"}) {
    browser->evaluate("document.querySelector('.task[data-task=\"/job:worker/task:0\"]" + std::string(opener) +
                      "').click()");
    EXPECT_TRUE(shows("#details", name)) << opener;
  }
  EXPECT_EQ(browser->evaluate("window.hurt"), nullptr);
  EXPECT_EQ(browser->evaluate("document.querySelectorAll('img, body script:not(:last-of-type)').length"), 0);
}

TEST_F(Page, SaysThatNobodyAnswersAndAsksAgain) {
  serve(cluster.at(10));
  PageServer server([this] { return served(); }, "secret");
  browser->open(server.url() + "s");
  EXPECT_TRUE(shows("#notice", "the token is missing or wrong"));
  open(server);
  EXPECT_EQ(browser->evaluate("document.querySelector('#notice').hidden"), true);
  set_out_of_order(true);
  EXPECT_TRUE(shows("#notice", "No answer since "));
  EXPECT_TRUE(shows("#live", "no answer"));
  set_out_of_order(false);
  EXPECT_TRUE(shows("#live", "live, 5 tasks"));
  EXPECT_EQ(browser->evaluate("document.querySelector('#notice').hidden"), true);
  server.stop();
  EXPECT_TRUE(shows("#notice", "the task cannot be reached, it may have ended"));
  EXPECT_EQ(browser->evaluate("document.querySelectorAll('.task').length"), 5) << "what was known has gone";
}

// The lowest contrast of a text and what is behind it (WCAG 2), and which.
const char* const kLowestContrast = R"((() => {
  const channels = (colour) => { const [r, g, b, a = 1] = colour.match(/[\d.]+/g).map(Number); return {r, g, b, a}; };
  const over = (front, back) => Object.fromEntries(
      ["r", "g", "b"].map((c) => [c, front[c] * front.a + back[c] * (1 - front.a)]).concat([["a", 1]]));
  const behind = (node) => {
    if (!node) return {r: 255, g: 255, b: 255, a: 1};
    const own = channels(getComputedStyle(node).backgroundColor);
    return own.a === 1 ? own : over(own, behind(node.parentElement));
  };
  const light = ({r, g, b}) => [r, g, b].map((c) => c / 255)
      .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
      .reduce((total, c, index) => total + c * [0.2126, 0.7152, 0.0722][index], 0);
  let lowest = {contrast: 21, text: ""};
  for (const node of document.querySelectorAll("body *")) {
    const has_text = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!node.checkVisibility() || !has_text) continue;
    if (node instanceof SVGElement || node.closest("script")) continue;
    const back = behind(node);
    const [a, b] = [light(over(channels(getComputedStyle(node).color), back)), light(back)].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < lowest.contrast) lowest = {contrast, text: node.className + ": " + node.textContent.slice(0, 60)};
  }
  return lowest;
})())";

TEST_F(Page, IsReadableOnAPhoneDarkAndLight) {
  auto snapshot = cluster.at(10);
  silence(snapshot, "/job:worker/task:2");
  serve(snapshot);
  PageServer server([this] { return served(); });
  std::vector<std::string> backgrounds;
  for (const char* scheme : {"light", "dark"}) {
    SCOPED_TRACE(scheme);
    browser->set_media("prefers-color-scheme", scheme);
    browser->resize(390, 844, 2, true);
    open(server);
    EXPECT_EQ(browser->evaluate("innerWidth"), 390);
    EXPECT_EQ(browser->evaluate("document.documentElement.scrollWidth"), 390) << "the page is wider than the phone";
    EXPECT_EQ(browser->evaluate("[...document.querySelectorAll('main *')].filter((each) => "
                                "each.getBoundingClientRect().right > 390).length"),
              0);
    EXPECT_TRUE(shows("#causes", "worker/2 has not answered"));
    EXPECT_EQ(browser->evaluate("document.querySelector('#why').getBoundingClientRect().top < "
                                "document.querySelector('#picture').getBoundingClientRect().top"),
              true)
        << "trouble is not seen first";
    browser->evaluate("document.querySelector('.actor').click()");
    EXPECT_EQ(browser->evaluate("document.documentElement.scrollWidth"), 390) << "with details";
    const auto lowest = browser->evaluate(kLowestContrast);
    EXPECT_GE(lowest.at("contrast"), 4.5) << scheme << ": " << lowest.dump();
    backgrounds.push_back(browser->evaluate("getComputedStyle(document.body).backgroundColor"));
  }
  EXPECT_NE(backgrounds[0], backgrounds[1]);
  const std::string animation = "getComputedStyle(document.querySelector('.dots')).animationName";
  EXPECT_EQ(browser->evaluate(animation), "flow");
  browser->set_media("prefers-reduced-motion", "reduce");
  EXPECT_EQ(browser->evaluate(animation), "none");
}

}  // namespace
}  // namespace troupe::testing
