// Explains why the cluster waits, for deadline errors. Asking all tasks takes up to a second: an actor that detects a
// passed deadline requests the explanation, continues with other work, and fails the late request once it is available.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <string>

namespace troupe {

// Not thread-safe: use on one thread at a time, an actor's.
class Explainer {
 public:
  static constexpr std::chrono::milliseconds kPatience{1500};
  static constexpr std::chrono::milliseconds kAgain{20};  // how soon to ask again
  static constexpr std::chrono::seconds kFresh{5};        // how long an answer is reused

  // `why` returns the text, runs on the explainer's own thread and outlives the explainer; null: no explanation.
  explicit Explainer(std::function<std::string()> why) : why_(std::move(why)) {}
  // Returns the text to add to an error, beginning with a line break; "" if there is nothing to add or no answer within
  // kPatience. Returns nullopt while pending: ask again in kAgain.
  std::optional<std::string> operator()();
  // True while an answer is pending.
  bool pending() const { return answer_.valid(); }
  // Joins the thread.
  void stop();

 private:
  std::function<std::string()> why_;
  std::future<std::string> answer_;
  std::chrono::steady_clock::time_point asked_;
  std::optional<std::string> text_;
};

}  // namespace troupe
