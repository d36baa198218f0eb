// Measures cases, each together with its peers in the same run: troupe and peers take turns in slices of a tenth of a
// second, so that disturbances of the machine affect them alike. A ratio says how many times better than the best peer
// troupe is.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace troupe::bench {

struct Settings {
  int repeat = 3;
  bool quick = false;  // smallest sizes, one short repeat: shows that a case works; its figures are meaningless
  int nodes = 0;       // nodes per step in kernel cases; 0: the case's own number
  std::string python = "/usr/bin/python3";
  std::string texts{};  // a file of lines, instead of drawn ones

  double slice_seconds() const { return quick ? 0.001 : 0.1; }
};

// A repeatable measurement: returns a figure in the case's unit.
using Measure = std::function<double()>;

struct Peer {
  std::string name;
  Measure measure;
};

// A prepared measurement with all its resources; destroyed before the next case begins.
struct Contest {
  Measure troupe;
  std::vector<Peer> peers;  // empty: none, or none on this machine
  int rounds = 3;           // turns per repeat, of which the median counts
};

struct Case {
  std::string bench;
  std::string name;
  std::string unit;
  bool more_is_better = false;
  std::string measures;  // a description for people
  std::string peer;      // "": none
  std::optional<double> ratio_target;
  std::optional<double> value_target;  // in `unit`
  int gpus = 0;                        // number required
  std::function<Contest(const Settings&)> prepare;

  std::string id() const { return bench + "/" + name; }
  std::string target() const;  // "ratio >= 5, <= 10 ns/op"
};

// Median and spread of figures. Throws invalid_argument if there are none.
struct Summary {
  double median = 0;
  double min = 0;
  double max = 0;
};
Summary summarize(std::vector<double> figures);

// How many times better `value` is than `peer_value`.
double ratio_of(double value, double peer_value, bool more_is_better);

struct Result {
  Summary value;
  std::string peer;  // the best peer; "": none
  Summary peer_value;
  Summary ratio;  // over the repeats

  bool meets(const Case& c) const;
};

// Warms up, then measures all sides in turn; a peer that cannot be measured is left out. Reports both through
// `progress`. Throws what Troupe's side throws.
Result run_case(const Case& c, const Settings& settings, const std::function<void(const std::string&)>& progress);

// Cases whose id matches one of the patterns: those with * or ? match the whole id, others its beginning. All if there
// are none. Throws not_found naming a pattern without a match.
std::vector<const Case*> select(const std::vector<Case>& cases, const std::vector<std::string>& patterns);
bool glob_match(std::string_view pattern, std::string_view text);

// One JSON object: bench, case, value, unit, peer, peer_value, ratio; the last three null without a peer.
std::string json_line(const Case& c, const Result& result);

// The table for people: a header, then one line per case.
std::string table_header();
std::string table_row(const Case& c, const Result& result);
std::string list_text(const std::vector<const Case*>& cases);

// Calls `work` for at least `seconds`, at least once; returns seconds per call.
double seconds_per_call(double seconds, const std::function<void()>& work);

}  // namespace troupe::bench
