// The page of troupe-serve, in a browser: requests come, a version is published, the server ends.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "tests/actors/serving/served_models.hpp"
#include "tests/actors/wire/wire_testing.hpp"
#include "tests/apps/process.hpp"
#include "tests/page/browser.hpp"
#include "tests/paths.hpp"
#include <troupe/actors/model/publication.hpp>

namespace troupe::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

void publish_times(const std::string& directory) {
  publish_version(posix_file_system(), directory, {}, [](const std::string& path) {
    save_model(posix_file_system(), path, times_model(std::stof(path.substr(path.rfind('/') + 1))));
  });
}

TEST(ServingPage, ShowsModelsTheirFiguresAndHowToAsk) {
  if (!Browser::installed()) GTEST_SKIP() << "chromium is not installed (tools/setup.sh --with-browser)";
  const TemporaryDirectory directory;
  publish_times(directory.file("times"));
  Process server({program("troupe-serve"), "--model", "times=" + directory.file("times"), "--rest-port", "0",
                  "--no-grpc", "--poll", "0.05", "--batch", "--json", "--token", "secret"});
  server.wait_for("\"ready\"");
  const int port = nlohmann::json::parse(server.out.substr(0, server.out.find('\n'))).at("rest_port");
  const auto asked = [&](const std::string& body) {
    wire::RawPeer peer(static_cast<std::uint16_t>(port));
    peer.send(
        fmt::format("POST /v1/models/times:predict HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                    "Authorization: Bearer secret\r\nContent-Length: {}\r\n\r\n{}",
                    body.size(), body));
    return peer.all_that_comes();
  };
  Browser browser;
  browser.resize(1200, 1000);
  browser.open(fmt::format("http://127.0.0.1:{}/", port));
  EXPECT_TRUE(browser.becomes_true("document.querySelector('#notice').innerText.includes('token')"));
  browser.open(fmt::format("http://127.0.0.1:{}/#token=secret", port));
  EXPECT_TRUE(browser.becomes_true("document.querySelector('#live').innerText.includes('1 version ready')"));
  const std::string row = "document.querySelector('#versions tbody tr').innerText";
  EXPECT_TRUE(browser.becomes_true(row + ".includes('Ready') && " + row + ".includes('stable')"));

  // The line that the page gives works.
  const std::string line = "document.querySelector('[data-signature=\"times:predict\"] pre').innerText";
  ASSERT_TRUE(browser.becomes_true("document.querySelector('[data-signature=\"times:predict\"] pre')"));
  const std::string curl = browser.evaluate(line);
  EXPECT_THAT(curl, HasSubstr(fmt::format("http://127.0.0.1:{}/v1/models/times:predict", port)));
  const std::size_t begin = curl.find('{'), end = curl.rfind('}');
  ASSERT_NE(begin, std::string::npos) << curl;
  EXPECT_THAT(asked(curl.substr(begin, end + 1 - begin)), HasSubstr("200 OK"));

  for (int i = 0; i < 5; ++i) EXPECT_THAT(asked(R"({"instances": [[1, 2]]})"), HasSubstr("200 OK"));
  EXPECT_THAT(asked(R"({"instances": [[1]]})"), HasSubstr("400"));
  EXPECT_TRUE(browser.becomes_true("document.querySelector('#versions td[data-label=Answered]').innerText === '6'"));
  EXPECT_TRUE(browser.becomes_true("document.querySelector('#versions td[data-label=Failed]').innerText === '1'"));
  EXPECT_EQ(browser.evaluate("document.querySelectorAll('#charts .chart').length"), 4);

  publish_times(directory.file("times"));
  EXPECT_TRUE(
      browser.becomes_true("[...document.querySelectorAll('#versions tbody tr')].some((row) => "
                           "row.innerText.includes('canary') && row.innerText.includes('Ready'))"));
  for (const char* scheme : {"light", "dark"}) {
    browser.set_media("prefers-color-scheme", scheme);
    browser.resize(390, 844, 2, true);
    EXPECT_EQ(browser.evaluate("document.documentElement.scrollWidth"), 390) << scheme;
  }
  EXPECT_THAT(browser.errors(), IsEmpty());
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0) << server.err;
  EXPECT_TRUE(browser.becomes_true("document.querySelector('#notice').innerText.includes('No answer since')"));
}

}  // namespace
}  // namespace troupe::testing
