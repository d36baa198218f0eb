// Explains why the cluster waits, for deadline errors. Asking all tasks takes up to a second: an actor that finds a
// deadline passed asks, continues with other work, and ends the late request when the answer has arrived.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <string>

namespace troupe {

// Not thread-safe: for one thread at a time, an actor's.
class Explainer {
 public:
  static constexpr std::chrono::milliseconds kPatience{1500};
  static constexpr std::chrono::milliseconds kAgain{20};  // how soon to ask again
  static constexpr std::chrono::seconds kFresh{5};        // how long an answer is reused

  // `why` returns the text, is called on the explainer's own thread and outlives it; null: no explanation.
  explicit Explainer(std::function<std::string()> why) : why_(std::move(why)) {}
  // The text to add to an error, beginning with a line break; "" if there is nothing to add or no answer within
  // kPatience. None: not known yet; ask again in kAgain.
  std::optional<std::string> operator()();
  // True while an answer is pending: ask again.
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
