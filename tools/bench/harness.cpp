#include "tools/bench/harness.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include <troupe/messages/error.hpp>

namespace troupe::bench {
namespace {

using Clock = std::chrono::steady_clock;

double median_of(std::vector<double> figures) {
  std::ranges::sort(figures);
  const std::size_t half = figures.size() / 2;
  return figures.size() % 2 == 1 ? figures[half] : (figures[half - 1] + figures[half]) / 2;
}

// One repeat: the figures of each side, troupe first, in turns.
std::vector<std::vector<double>> run_repeat(const Contest& contest, int rounds) {
  std::vector<std::vector<double>> figures(1 + contest.peers.size());
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < figures.size(); ++i) {
      // The side that begins rotates with the rounds.
      const std::size_t side = (i + static_cast<std::size_t>(round)) % figures.size();
      figures[side].push_back(side == 0 ? contest.troupe() : contest.peers[side - 1].measure());
    }
  return figures;
}

// Median of the ratios per turn: slow drifts cancel out.
double ratio_of_turns(const std::vector<double>& values, const std::vector<double>& peer_values, bool more_is_better) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < values.size(); ++i) ratios.push_back(ratio_of(values[i], peer_values[i], more_is_better));
  return median_of(std::move(ratios));
}

std::string number(double value) {
  if (value >= 1000) return fmt::format("{:.0f}", value);
  if (value >= 10) return fmt::format("{:.1f}", value);
  return fmt::format("{:.3f}", value);
}

std::string table_line(std::string_view id, std::string_view value, std::string_view unit, std::string_view peer_value,
                       std::string_view ratio, std::string_view spread, std::string_view target,
                       std::string_view verdict, std::string_view peer) {
  return fmt::format("{:<38} {:>9} {:<8} {:>9} {:>6} {:<12} {:<24} {:<5} {}\n", id, value, unit, peer_value, ratio,
                     spread, target, verdict, peer);
}

}  // namespace

std::string Case::target() const {
  std::string text = ratio_target ? fmt::format("ratio >= {}", *ratio_target) : "";
  if (value_target)
    text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ", more_is_better ? ">=" : "<=", *value_target, unit);
  return text;
}

Summary summarize(std::vector<double> figures) {
  if (figures.empty()) invalid_argument("no figures to summarize");
  const auto [min, max] = std::ranges::minmax(figures);
  return {median_of(std::move(figures)), min, max};
}

double ratio_of(double value, double peer_value, bool more_is_better) {
  return more_is_better ? value / peer_value : peer_value / value;
}

bool Result::meets(const Case& c) const {
  if (c.ratio_target && (peer.empty() || ratio.median < *c.ratio_target)) return false;
  if (!c.value_target) return true;
  return c.more_is_better ? value.median >= *c.value_target : value.median <= *c.value_target;
}

Result run_case(const Case& c, const Settings& settings, const std::function<void(const std::string&)>& progress) {
  progress("preparing and warming up");
  Contest contest = c.prepare(settings);
  contest.troupe();
  std::erase_if(contest.peers, [&](const Peer& peer) {
    try {
      peer.measure();
      return false;
    } catch (const Error& error) {  // some kinds of PyTorch may not work here
      progress(fmt::format("without {}: {}", peer.name, error.message()));
      return true;
    }
  });

  const int repeats = settings.quick ? 1 : settings.repeat;
  std::vector<std::vector<double>> figures(1 + contest.peers.size()), ratios(contest.peers.size());
  for (int repeat = 0; repeat < repeats; ++repeat) {
    progress(fmt::format("repeat {} of {}", repeat + 1, repeats));
    const auto turns = run_repeat(contest, settings.quick ? 1 : contest.rounds);
    for (std::size_t i = 0; i < turns.size(); ++i) figures[i].push_back(median_of(turns[i]));
    for (std::size_t i = 0; i < ratios.size(); ++i)
      ratios[i].push_back(ratio_of_turns(turns[0], turns[i + 1], c.more_is_better));
  }

  Result result;
  result.value = summarize(figures[0]);
  for (std::size_t i = 0; i < contest.peers.size(); ++i) {
    const Summary peer = summarize(figures[i + 1]);
    if (i > 0 && ratio_of(peer.median, result.peer_value.median, c.more_is_better) <= 1) continue;
    result.peer = contest.peers[i].name;
    result.peer_value = peer;
    result.ratio = summarize(ratios[i]);
  }
  return result;
}

bool glob_match(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t]) && pattern[p] != '*') {
      ++p, ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::vector<const Case*> select(const std::vector<Case>& cases, const std::vector<std::string>& patterns) {
  std::vector<bool> chosen(cases.size(), patterns.empty());
  for (const std::string& pattern : patterns) {
    const bool glob = pattern.find_first_of("*?") != std::string::npos;
    bool found = false;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      if (!(glob ? glob_match(pattern, cases[i].id()) : cases[i].id().starts_with(pattern))) continue;
      chosen[i] = true;
      found = true;
    }
    if (!found) fail(Code::not_found, "no case matches '{}'; --list shows all cases", pattern);
  }
  std::vector<const Case*> out;
  for (std::size_t i = 0; i < cases.size(); ++i)
    if (chosen[i]) out.push_back(&cases[i]);
  return out;
}

std::string json_line(const Case& c, const Result& result) {
  nlohmann::ordered_json line;
  line["bench"] = c.bench;
  line["case"] = c.name;
  line["value"] = result.value.median;
  line["unit"] = c.unit;
  if (result.peer.empty()) {
    line["peer"] = nullptr;
    line["peer_value"] = nullptr;
    line["ratio"] = nullptr;
  } else {
    line["peer"] = result.peer;
    line["peer_value"] = result.peer_value.median;
    line["ratio"] = result.ratio.median;
  }
  if (c.target().empty()) {
    line["target"] = nullptr;
    line["met"] = nullptr;
  } else {
    line["target"] = c.target();
    line["met"] = result.meets(c);
  }
  return line.dump();
}

std::string table_header() {
  return table_line("case", "troupe", "unit", "peer", "ratio", "min..max", "target", "", "peer");
}

std::string table_row(const Case& c, const Result& result) {
  const std::string verdict = c.target().empty() ? "" : result.meets(c) ? "ok" : "below";
  const std::string value = number(result.value.median);
  if (result.peer.empty()) return table_line(c.id(), value, c.unit, "-", "-", "", c.target(), verdict, "none");
  return table_line(c.id(), value, c.unit, number(result.peer_value.median), fmt::format("{:.2f}", result.ratio.median),
                    fmt::format("{:.2f}..{:.2f}", result.ratio.min, result.ratio.max), c.target(), verdict,
                    result.peer);
}

std::string list_text(const std::vector<const Case*>& cases) {
  std::string text;
  for (const Case* c : cases) {
    text +=
        fmt::format("{} [{}]\n    {}\n    peer: {}", c->id(), c->unit, c->measures, c->peer.empty() ? "none" : c->peer);
    if (!c->target().empty()) text += "; target: " + c->target();
    text += "\n";
  }
  return text;
}

double seconds_per_call(double seconds, const std::function<void()>& work) {
  const auto begin = Clock::now();
  std::int64_t calls = 0;
  double elapsed = 0;
  do {
    work();
    ++calls;
    elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
  } while (elapsed < seconds);
  return elapsed / static_cast<double>(calls);
}

}  // namespace troupe::bench
