// Takes a screenshot of a web page once it has been watched for some time. Without an address: of the introspector's
// page with an example of a cluster.
#include <fstream>
#include <iostream>

#include "tests/page/browser.hpp"
#include "tests/page/example_cluster.hpp"
#include "tests/page/page_server.hpp"
#include <troupe/messages/command_line.hpp>

int main(int argc, char** argv) {
  using namespace troupe;
  using namespace troupe::testing;
  std::string url, out, selected, only, scheme = "light";
  int width = 1440, height = 1000, inputs = 0;
  double seconds = 10, scale = 1;
  bool phone = false, whole = false;
  CommandLine line("take_screenshot", "OUT [OPTIONS]", "Takes a screenshot of a web page with Chromium.");
  line.add_argument(text_option("OUT", "", out, "The file, a PNG"));
  line.add("Page",
           {text_option("--url", "URL", url, "The page (default: an example of a cluster)"),
            whole_option("--inputs", "N", inputs, 0, 100, "Input tasks of the example, which have a slow stage"),
            number_option("--seconds", "S", seconds, 0, 1e6, "Time to watch the page before"),
            text_option("--click", "SELECTOR", selected, "An element to click on before"),
            choice_option("--scheme", scheme, {{"light", "light"}, {"dark", "dark"}}, "Colours")});
  line.add("Picture",
           {whole_option("--width", "N", width, 1, 100000, "Pixels"),
            whole_option("--height", "N", height, 1, 100000, "Pixels"),
            number_option("--scale", "X", scale, 0.1, 10, "Pixels of the picture per pixel of the page"),
            flag("--phone", phone, "As on a phone"), text_option("--only", "SELECTOR", only, "Only this element"),
            flag("--whole", whole, "The whole page, beyond the part in view")});
  if (const auto exit = line.parse({argv + 1, argv + argc})) return finish(*exit);
  if (out.empty()) return finish(line.wrong("no file is given"));
  try {
    const auto begin = std::chrono::steady_clock::now();
    const ExampleCluster cluster =
        inputs == 0 ? ExampleCluster() : ExampleCluster{.inputs = inputs, .steps_per_second = 24};
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
    std::ofstream(out, std::ios::binary) << (only.empty() ? browser.screenshot(whole) : browser.screenshot_of(only));
    for (const std::string& error : browser.errors())
      std::cerr << "take_screenshot: the page has an error: " << error << "\n";
    return browser.errors().empty() ? 0 : 1;
  } catch (const Error& error) {
    std::cerr << "take_screenshot: " << error.to_string() << "\n";
    return 1;
  }
}
