#include "troupe/actors/training/callback.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>

#include <troupe/messages/error.hpp>

namespace troupe {

bool decides(const Callbacks& callbacks) {
  return std::ranges::any_of(callbacks, [](const CallbackPtr& c) { return c->decision() != nullptr; });
}

std::string describe(const Callbacks& callbacks) {
  std::string text;
  for (const CallbackPtr& callback : callbacks) {
    if (!callback) invalid_argument("a callback is null");
    if (callback->decision()) text += (text.empty() ? "" : ", ") + callback->describe();
  }
  return text.empty() ? "none" : text;
}

EpochControl control_of(const Callbacks& callbacks, const std::map<std::string, FigureResult>& results) {
  std::vector<Callback::Decide> decisions;
  for (const CallbackPtr& callback : callbacks)
    if (auto decide = callback->decision()) decisions.push_back(std::move(decide));
  if (decisions.empty()) return nullptr;
  return [decisions = std::move(decisions), results](const EpochDone& epoch) {
    const EpochLogs logs = logs_of(epoch, results);
    EpochDecision decision;
    for (const Callback::Decide& decide : decisions) decide(logs, decision);
    return decision;
  };
}

void epoch_end(const Callbacks& callbacks, const EpochLogs& logs) {
  for (const CallbackPtr& callback : callbacks) callback->epoch_end(logs);
}

namespace callbacks {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double figure_or_nan(const EpochLogs& logs, const std::string& name) {
  const auto found = std::ranges::find(logs.figures, name, &Figures::value_type::first);
  return found == logs.figures.end() ? kNone : found->second;
}

// A callback that only decides.
class Decision final : public Callback {
 public:
  Decision(std::string text, std::function<Decide()> make) : text_(std::move(text)), make_(std::move(make)) {}
  std::string describe() const override { return text_; }
  Decide decision() const override { return make_(); }

 private:
  std::string text_;
  std::function<Decide()> make_;
};

struct EarlyStopping {
  EarlyStoppingOptions o;
  double best = kNone;
  std::uint32_t waited = 0;

  void operator()(const EpochLogs& logs, EpochDecision& decision) {
    if (logs.epoch < o.from_epoch) return;
    const double now = figure_or_nan(logs, o.figure);
    if (is_better(o.figure, o.better, now, best, o.min_delta)) {
      best = now;
      waited = 0;
      decision.keep = decision.keep || o.keep_best;
      return;
    }
    if (++waited >= std::max(1u, o.patience)) decision.stop = true;
  }
};

struct ReduceOnPlateau {
  ReduceOnPlateauOptions o;
  double best = kNone, scale = 1;
  std::uint32_t waited = 0, cooling = 0;

  void operator()(const EpochLogs& logs, EpochDecision& decision) {
    const double now = figure_or_nan(logs, o.figure);
    if (cooling > 0) {
      --cooling;
      waited = 0;
    }
    if (is_better(o.figure, o.better, now, best, o.min_delta)) {
      best = now;
      waited = 0;
    } else if (cooling == 0 && ++waited >= o.patience) {
      scale = std::max(o.least, scale * o.factor);
      cooling = o.cooldown;
      waited = 0;
    }
    decision.rate_scale *= scale;
  }
};

class Log : public Callback {
 public:
  explicit Log(std::string path) : path_(std::move(path)) {}

 protected:
  // The columns of a line.
  static Figures columns(const EpochLogs& logs) {
    Figures out = logs.figures;
    out.emplace_back("examples_per_second", logs.examples_per_second);
    out.emplace_back("seconds", logs.seconds);
    return out;
  }
  // `first`: whether the file is new.
  void write(const EpochLogs& logs, const std::function<std::string(bool first)>& text) {
    std::ofstream file(path_, logs.epoch == 0 ? std::ios::trunc : std::ios::app);
    file << text(file.tellp() == std::streampos(0));
    if (!file.flush()) fail(Code::unavailable, "cannot write the log of epochs '{}'", path_);
  }

 private:
  std::string path_;
};

class CsvLog final : public Log {
 public:
  using Log::Log;
  std::string describe() const override { return "csv_log"; }
  void epoch_end(const EpochLogs& logs) override {
    write(logs, [&](bool first) {
      std::string head = "epoch", line = std::to_string(logs.epoch + 1);
      for (const auto& [name, value] : columns(logs)) {
        head += "," + name;
        line += fmt::format(",{}", value);
      }
      return (first ? head + "\n" : "") + line + "\n";
    });
  }
};

class JsonLog final : public Log {
 public:
  using Log::Log;
  std::string describe() const override { return "json_log"; }
  void epoch_end(const EpochLogs& logs) override {
    write(logs, [&](bool) {
      std::string line = fmt::format("{{\"epoch\":{}", logs.epoch + 1);
      for (const auto& [name, value] : columns(logs))
        line += std::isfinite(value) ? fmt::format(",\"{}\":{}", name, value) : fmt::format(",\"{}\":null", name);
      return line + "}\n";
    });
  }
};

class EachEpoch final : public Callback {
 public:
  explicit EachEpoch(std::function<void(const EpochLogs&)> what) : what_(std::move(what)) {}
  std::string describe() const override { return "each_epoch"; }
  void epoch_end(const EpochLogs& logs) override { what_(logs); }

 private:
  std::function<void(const EpochLogs&)> what_;
};

std::string_view name(Better better) {
  return better == Better::automatic ? "automatic" : better == Better::lower ? "lower" : "higher";
}

}  // namespace

bool is_better(const std::string& figure, Better better, double now, double best, double min_delta) {
  static constexpr std::array<std::string_view, 9> kHigher = {"accuracy", "auc",        "precision",   "recall", "f1",
                                                              "score",    "similarity", "correlation", "iou"};
  if (std::isnan(now)) return false;
  if (std::isnan(best)) return true;
  const bool higher = better == Better::higher ||
                      (better == Better::automatic &&
                       std::ranges::any_of(kHigher, [&](std::string_view end) { return figure.ends_with(end); }));
  return higher ? now - min_delta > best : now + min_delta < best;
}

CallbackPtr early_stopping(EarlyStoppingOptions o) {
  if (!(o.min_delta >= 0)) invalid_argument("early_stopping: min_delta must be at least 0, not {}", o.min_delta);
  std::string text =
      fmt::format("early_stopping({}, better {}, min_delta {}, patience {}, from_epoch {}, keep_best {})", o.figure,
                  name(o.better), o.min_delta, o.patience, o.from_epoch, o.keep_best);
  return std::make_shared<Decision>(std::move(text), [o] { return EarlyStopping{o}; });
}

CallbackPtr reduce_on_plateau(ReduceOnPlateauOptions o) {
  if (!(o.factor > 0 && o.factor < 1))
    invalid_argument("reduce_on_plateau: factor must be in (0, 1), not {}", o.factor);
  if (!(o.min_delta >= 0)) invalid_argument("reduce_on_plateau: min_delta must be at least 0, not {}", o.min_delta);
  std::string text =
      fmt::format("reduce_on_plateau({}, better {}, factor {}, patience {}, min_delta {}, cooldown {}, least {})",
                  o.figure, name(o.better), o.factor, o.patience, o.min_delta, o.cooldown, o.least);
  return std::make_shared<Decision>(std::move(text), [o] { return ReduceOnPlateau{o}; });
}

CallbackPtr learning_rates(std::string name, std::function<double(std::uint32_t)> scale) {
  return std::make_shared<Decision>(fmt::format("learning_rates({})", name), [scale] {
    return [scale](const EpochLogs& logs, EpochDecision& decision) { decision.rate_scale *= scale(logs.epoch + 1); };
  });
}

CallbackPtr stop_on_nan() {
  return std::make_shared<Decision>("stop_on_nan", [] {
    return [](const EpochLogs& logs, EpochDecision& decision) {
      if (!logs.figures.empty() && !std::isfinite(logs.figures.front().second)) decision.stop = true;
    };
  });
}

CallbackPtr csv_log(std::string path) { return std::make_shared<CsvLog>(std::move(path)); }
CallbackPtr json_log(std::string path) { return std::make_shared<JsonLog>(std::move(path)); }
CallbackPtr each_epoch(std::function<void(const EpochLogs&)> what) {
  return std::make_shared<EachEpoch>(std::move(what));
}

}  // namespace callbacks
}  // namespace troupe
