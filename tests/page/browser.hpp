// Chromium without a window, driven over its DevTools protocol: messages of JSON, each ended by a zero byte, on two
// pipes. It ends when they close, so it outlives no test.
//
// Errors: unavailable (it ended, or did not answer within 30 s), internal (a command or a script failed; says why).
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/processes/child.hpp"
#include "tests/processes/places.hpp"

namespace troupe::testing {

class Browser {
 public:
  static bool installed();

  Browser();
  ~Browser();
  Browser(const Browser&) = delete;

  // CSS pixels; `phone`: as wide as its screen says, touched, not pointed at.
  void resize(int width, int height, double scale = 1, bool phone = false);
  // Such as "prefers-color-scheme", "dark".
  void set_media(const std::string& feature, const std::string& value);
  // Returns when the page has been loaded.
  void open(const std::string& url);
  // The value of an expression of JavaScript; waits for promises.
  nlohmann::json evaluate(const std::string& expression);
  // Waits until the expression is true; false if it is not within 30 s. Errors in it count as false.
  bool becomes_true(const std::string& expression);
  // What is seen, or all of the page, as PNG.
  std::string screenshot(bool whole = false);
  // One element, in view or not.
  std::string screenshot_of(const std::string& selector);

  // Uncaught exceptions, console errors and violations of the content policy since the start; not: requests without an
  // answer.
  const std::vector<std::string>& errors() const { return errors_; }

 private:
  nlohmann::json call(const std::string& method, nlohmann::json parameters = nlohmann::json::object());
  nlohmann::json next_message();
  void note(const nlohmann::json& event);

  TemporaryDirectory profile_;
  int to_ = -1, from_ = -1;
  std::unique_ptr<Child> child_;
  std::string session_;
  std::string unread_;
  int next_id_ = 1;
  bool loaded_ = false;
  std::vector<std::string> errors_;
  std::map<std::string, std::string> media_;
};

}  // namespace troupe::testing
