// The page of a cluster that waits for a slow stage of its pipeline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>

#include "tests/actors/training/job_tasks.hpp"
#include "tests/page/browser.hpp"
#include <troupe/actors/introspection/introspection.hpp>

namespace troupe::testing {
namespace {

TEST(LivePage, MarksTheStageThatAClusterWaitsFor) {
  if (!Browser::installed()) GTEST_SKIP() << "chromium is not installed (tools/setup.sh --with-browser)";
  std::atomic<bool> stop{false};
  const BatchSchema schema = {{"x", DType::f32, Shape{1}}, {"y", DType::f32, Shape{1}}};
  const data::Pipeline slow =
      data::range(0, 1000).map("slow", schema, [&](const data::Element& e, const data::ElementContext&) {
        const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(stop ? 0 : 5);
        while (std::chrono::steady_clock::now() < until) {
        }
        const Tensor number = Tensor::vector<float>({static_cast<float>(e[0].item<std::int64_t>()) / 1000});
        return data::Element{number, number};
      });
  const PipelineSource source(slow);
  JobTasks tasks(1, 1, {}, {}, 1);
  const auto trained = std::async(std::launch::async, [&] {
    return tasks.run([&](Task& task) -> std::string {
      Model line({layers::dense(1)}, Shape{1});
      line.compile({.outputs = {{.loss = Loss::mean_squared_error}}}, task);
      line.fit(source, {.mode = SyncMode{.slots = 1}, .epochs = 1'000'000, .batch = 4, .quiet = true, .stop = &stop});
      return "";
    });
  });
  {
    Browser browser;
    browser.resize(1400, 1000);
    browser.open(tasks[2].introspection().target()->url());
    const auto shows = [&](const std::string& selector, const std::string& part) {
      return browser.becomes_true("document.querySelector('" + selector + "').innerText.includes(\"" + part + "\")");
    };
    EXPECT_TRUE(shows("#pipelines tbody tr:has(td.late)", "input/0\\ttraining\\tmap slow"));
    EXPECT_TRUE(shows("#causes", "stage 'map slow' of input/0, the slowest of its pipeline, "));
    EXPECT_EQ(browser.evaluate("document.querySelectorAll('#pipelines td.late').length"), 1);
    EXPECT_THAT(browser.errors(), ::testing::IsEmpty());
  }
  stop = true;
  trained.wait();
}

}  // namespace
}  // namespace troupe::testing
