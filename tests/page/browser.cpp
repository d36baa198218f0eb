#include "tests/page/browser.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <troupe/messages/error.hpp>

namespace troupe::testing {
namespace {

using nlohmann::json;

constexpr const char* kProgram = "/usr/bin/chromium";
constexpr int kPatience = 30'000;  // milliseconds

std::string from_base64(const std::string& text) {
  std::string bytes(text.size(), '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  const auto padding = std::count(text.end() - std::min<std::ptrdiff_t>(2, std::ssize(text)), text.end(), '=');
  if (size < 0) fail(Code::internal, "the browser sent a picture that is not base64");
  bytes.resize(static_cast<std::size_t>(size - padding));
  return bytes;
}

// Two ends of a pipe; that of the child is inherited by programs.
std::array<int, 2> pipe_to_child(int end_of_child) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    fail(Code::resource_exhausted, "no pipe for a browser: {}", std::strerror(errno));
  fcntl(ends[static_cast<std::size_t>(end_of_child)], F_SETFD, 0);
  return ends;
}

}  // namespace

bool Browser::installed() { return access(kProgram, X_OK) == 0; }

Browser::Browser() {
  const auto commands = pipe_to_child(0), answers = pipe_to_child(1);
  to_ = commands[1];
  from_ = answers[0];
  // The protocol is spoken on descriptors 3 and 4.
  const std::string start = fmt::format(
      "exec {} --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run "
      "--disable-background-networking --disable-extensions "
      "--hide-scrollbars --force-color-profile=srgb --user-data-dir='{}' --remote-debugging-pipe about:blank 3<&{} "
      "4>&{} >/dev/null 2>&1",
      kProgram, profile_.path().string(), commands[0], answers[1]);
  child_ = std::make_unique<Child>(std::vector<std::string>{"/bin/bash", "-c", start});
  close(commands[0]);
  close(answers[1]);
  const json target = call("Target.createTarget", {{"url", "about:blank"}}).at("targetId");
  session_ = call("Target.attachToTarget", {{"targetId", target}, {"flatten", true}}).at("sessionId");
  for (const char* domain : {"Page", "Runtime", "Log"}) call(std::string(domain) + ".enable");
}

Browser::~Browser() {
  close(to_);
  close(from_);
  child_->wait();
}

void Browser::resize(int width, int height, double scale, bool phone) {
  call("Emulation.setDeviceMetricsOverride",
       {{"width", width}, {"height", height}, {"deviceScaleFactor", scale}, {"mobile", phone}});
  call("Emulation.setTouchEmulationEnabled", {{"enabled", phone}});
}

void Browser::set_media(const std::string& feature, const std::string& value) {
  media_[feature] = value;
  json features = json::array();
  for (const auto& [name, chosen] : media_) features.push_back({{"name", name}, {"value", chosen}});
  call("Emulation.setEmulatedMedia", {{"features", features}});
}

void Browser::open(const std::string& url) {
  loaded_ = false;
  const json went = call("Page.navigate", {{"url", url}});
  if (went.contains("errorText"))
    fail(Code::internal, "the browser cannot open {}: {}", url, went.at("errorText").get<std::string>());
  while (!loaded_) note(next_message());
}

json Browser::evaluate(const std::string& expression) {
  const json told =
      call("Runtime.evaluate", {{"expression", expression}, {"awaitPromise", true}, {"returnByValue", true}});
  if (told.contains("exceptionDetails"))
    fail(Code::internal, "the script '{}' failed: {}", expression, told.at("exceptionDetails").dump());
  return told.at("result").value("value", json());
}

bool Browser::becomes_true(const std::string& expression) {
  const std::string look = fmt::format(
      "new Promise((done) => {{ const end = Date.now() + 29000; const look = () => {{ let seen = false; try {{ seen = "
      "Boolean({}); }} catch {{}} "
      "if (seen || Date.now() > end) done(seen); else setTimeout(look, 50); }}; look(); }})",
      expression);
  return evaluate(look) == true;
}

std::string Browser::screenshot(bool whole) {
  return from_base64(call("Page.captureScreenshot", {{"format", "png"}, {"captureBeyondViewport", whole}}).at("data"));
}

std::string Browser::screenshot_of(const std::string& selector) {
  json clip = evaluate(
      "(({x, y, width, height}) => ({x: x + scrollX, y: y + scrollY, width, height, scale: 1}))"
      "(document.querySelector(" +
      json(selector).dump() + ").getBoundingClientRect())");
  return from_base64(
      call("Page.captureScreenshot", {{"format", "png"}, {"captureBeyondViewport", true}, {"clip", std::move(clip)}})
          .at("data"));
}

json Browser::call(const std::string& method, json parameters) {
  const int id = next_id_++;
  json message = {{"id", id}, {"method", method}, {"params", std::move(parameters)}};
  if (!session_.empty()) message["sessionId"] = session_;
  const std::string text = message.dump();
  for (std::size_t done = 0; done < text.size() + 1;) {
    const ssize_t wrote = write(to_, text.c_str() + done, text.size() + 1 - done);
    if (wrote < 0 && errno != EINTR) fail(Code::unavailable, "the browser has ended before {}", method);
    if (wrote > 0) done += static_cast<std::size_t>(wrote);
  }
  for (;;) {
    const json answer = next_message();
    if (answer.value("id", 0) != id) {
      note(answer);
    } else if (answer.contains("error")) {
      fail(Code::internal, "{}: {}", method, answer.at("error").dump());
    } else {
      return answer.at("result");
    }
  }
}

json Browser::next_message() {
  std::size_t end;
  while ((end = unread_.find('\0')) == std::string::npos) {
    pollfd wanted{from_, POLLIN, 0};
    if (poll(&wanted, 1, kPatience) == 0)
      fail(Code::unavailable, "the browser has said nothing for {} s", kPatience / 1000);
    std::array<char, 65536> chunk;
    const ssize_t got = read(from_, chunk.data(), chunk.size());
    if (got == 0 || (got < 0 && errno != EINTR)) fail(Code::unavailable, "the browser has ended");
    if (got > 0) unread_.append(chunk.data(), static_cast<std::size_t>(got));
  }
  json message = json::parse(unread_.substr(0, end));
  unread_.erase(0, end + 1);
  return message;
}

void Browser::note(const json& event) {
  const std::string method = event.value("method", "");
  if (method == "Page.loadEventFired") loaded_ = true;
  if (method == "Runtime.exceptionThrown") errors_.push_back(event.at("params").at("exceptionDetails").dump());
  if (method == "Runtime.consoleAPICalled" && event.at("params").at("type") == "error")
    errors_.push_back(event.at("params").at("args").dump());
  if (method == "Log.entryAdded") {
    const json& entry = event.at("params").at("entry");
    if (entry.at("level") == "error" && entry.at("source") != "network") errors_.push_back(entry.at("text"));
  }
}

}  // namespace troupe::testing
