// Learning rates that change during training, as functions of t, the number of previous updates (0 for the first).
//
//   optimizers::Adam{.learning_rate = schedules::Cosine{.rate = 1e-3, .steps = 10'000}}
//   optimizers::SGD{.learning_rate = Schedule(schedules::Step{.rate = 0.1, .every = 5'000}).after_warm_up(500)}
//
// A rate depends on t alone, so it is the same on every task: in one process the optimizer's own variable counts, on a
// shard the version. Computed in double, rounded once to the dtype of the variable.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <troupe/messages/attributes.hpp>

namespace troupe {

struct TextValue;  // graph/formats/text_call.hpp

namespace schedules {

struct Constant {
  double rate = 0;
};
// rate factor^floor(t / every).
struct Step {
  double rate = 0;
  double factor = 0.1;
  std::int64_t every = 0;
};
// rates[0]; from t = from[0] on, rates[1]; from from[1] on, rates[2] ...
struct Piecewise {
  std::vector<double> rates{};
  std::vector<std::int64_t> from{};
};
// rate factor^(t / every).
struct Exponential {
  double rate = 0;
  double factor = 0;
  std::int64_t every = 1;
};
// end + (rate - end) (1 + cos(pi t / steps)) / 2, and end from t = steps on (Loshchilov & Hutter, "SGDR", ICLR 2017).
struct Cosine {
  double rate = 0;
  double end = 0;
  std::int64_t steps = 0;
};
// end + (rate - end) (1 - t / steps)^power, and end from t = steps on.
struct Polynomial {
  double rate = 0;
  double end = 0;
  double power = 1;
  std::int64_t steps = 0;
};
// 1 / n for the n-th of t = start, start + every, start + 2 every, ..., and 0 between them: a running average moved at
// these rates is the mean of the values of those times.
struct Mean {
  std::int64_t start = 0;
  std::int64_t every = 1;
};

}  // namespace schedules

class Schedule {
  template <class T, class... Ts>
  static constexpr bool is_alternative(std::variant<Ts...>*) {
    return (std::is_same_v<T, Ts> || ...);
  }

 public:
  using Course = std::variant<schedules::Constant, schedules::Step, schedules::Piecewise, schedules::Exponential,
                              schedules::Cosine, schedules::Polynomial, schedules::Mean>;

  Schedule(double rate) : course_(schedules::Constant{rate}) {}
  template <class T>
  requires(is_alternative<T>(static_cast<Course*>(nullptr))) Schedule(T course) : course_(std::move(course)) {}

  // Prepends this many updates of warm-up: rate(0) (t + 1) / updates (Goyal et al., "Accurate, large minibatch SGD",
  // 2017). This schedule then starts from its beginning.
  Schedule after_warm_up(std::int64_t updates) const;

  const Course& course() const { return course_; }
  std::int64_t warm_up() const { return warm_up_; }
  bool is_constant() const { return warm_up_ == 0 && std::holds_alternative<schedules::Constant>(course_); }
  // Requires t >= 0.
  double rate(std::int64_t t) const;
  // The same as a scalar; f32 or f64.
  Tensor rate(std::int64_t t, DType dtype) const;
  // The first invalid option, like "cosine: steps must be 1 or more, not 0"; "" if all are valid.
  std::string problem() const;

  // "0.001", "cosine(rate=0.001, end=0, steps=1000, warm_up=500)"; of() reads it back, with its value for what is left
  // out, and throws invalid_argument for anything else and for invalid options.
  std::string to_string() const;
  TextValue to_text() const;
  static Schedule of(const TextValue& text);
  // To and from attributes of the op LearningRate. of() throws invalid_argument if they are not a schedule.
  Attributes attributes() const;
  static Schedule of(const Attributes& attributes);

 private:
  Course course_;
  std::int64_t warm_up_ = 0;
};

}  // namespace troupe
