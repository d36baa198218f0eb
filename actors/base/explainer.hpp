// Why the cluster waits, for the errors of deadlines. To ask all tasks takes up to a second: who finds a deadline
// passed asks, does something else, and ends what is late when there is an answer.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <string>

namespace troupe {

// For one thread at a time, an actor's.
class Explainer {
 public:
  static constexpr std::chrono::milliseconds kPatience{1500};
  static constexpr std::chrono::milliseconds kAgain{20};  // to be asked again so soon
  static constexpr std::chrono::seconds kFresh{5};        // for so long an answer stands for all who ask

  // `why`: gives the text, on a thread of the explainer's, and outlives it; null: nobody knows.
  explicit Explainer(std::function<std::string()> why) : why_(std::move(why)) {}
  // What to add to an error: begins with a line break; "" if there is nothing, or it does not come within kPatience.
  // None: not known yet, to be asked again in kAgain.
  std::optional<std::string> operator()();
  // An answer is to come: whoever asked should ask again.
  bool pending() const { return answer_.valid(); }
  // Waits for the thread.
  void stop();

 private:
  std::function<std::string()> why_;
  std::future<std::string> answer_;
  std::chrono::steady_clock::time_point asked_;
  std::optional<std::string> text_;
};

}  // namespace troupe
