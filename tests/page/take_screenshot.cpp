// Takes a screenshot of a web page once it has been watched for some time. Without an address: of the introspector's
// page with an example of a cluster.
#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>

#include "tests/page/browser.hpp"
#include "tests/page/example_cluster.hpp"
#include "tests/page/page_server.hpp"
#include <troupe/messages/error.hpp>

int main(int argc, char** argv) {
  using namespace troupe;
  using namespace troupe::testing;
  std::string url, out, selected, scheme = "light";
  int width = 1440, height = 1000;
  double seconds = 10, scale = 1;
  bool phone = false, whole = false;
  CLI::App app("Takes a screenshot of a web page with Chromium.");
  app.add_option("out", out, "the file, a PNG")->required();
  app.add_option("--url", url, "of the page; without: an example of a cluster");
  app.add_option("--width", width, "in pixels");
  app.add_option("--height", height, "in pixels");
  app.add_option("--scale", scale, "pixels of the picture to one of the page");
  app.add_option("--seconds", seconds, "to watch the page before");
  app.add_option("--scheme", scheme, "light or dark")->check(CLI::IsMember({"light", "dark"}));
  app.add_option("--click", selected, "the element to click on before, as a CSS selector");
  app.add_flag("--phone", phone, "as on a phone");
  app.add_flag("--whole", whole, "all of the page, not only what is seen");
  CLI11_PARSE(app, argc, argv);
  try {
    const auto begin = std::chrono::steady_clock::now();
    const ExampleCluster cluster;
    std::unique_ptr<PageServer> server;
    if (url.empty()) {
      server = std::make_unique<PageServer>([&] {
        return cluster.at(20 + std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
      });
      url = server->url();
    }
    Browser browser;
    browser.resize(width, height, scale, phone);
    browser.set_media("prefers-color-scheme", scheme);
    browser.open(url);
    browser.evaluate("new Promise((done) => setTimeout(done, " + std::to_string(1000 * seconds) + "))");
    if (!selected.empty()) {
      browser.evaluate("document.querySelector('" + selected + "').click()");
      browser.evaluate("new Promise((done) => setTimeout(done, 1500))");
    }
    std::ofstream(out, std::ios::binary) << browser.screenshot(whole);
    for (const std::string& error : browser.errors())
      std::cerr << "take_screenshot: the page has an error: " << error << "\n";
    return browser.errors().empty() ? 0 : 1;
  } catch (const Error& error) {
    std::cerr << "take_screenshot: " << error.to_string() << "\n";
    return 1;
  }
}
