// The guarantees that the harness shows, one row of its table each.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/chaos/chaos_cluster.hpp"

namespace troupe::chaos {

// What came of one run.
struct Outcome {
  std::string problem;  // what a guarantee says and was not so; "": all is well
  std::string skipped;  // why it could not be tried
  std::string again;    // why it says nothing, and is to be tried again
  std::string schedule;
  std::map<std::string, std::vector<double>> times;  // seconds, by what they are: "detected"
  std::map<std::string, double> counts;
};

// What runs need: where programs are, and what has been measured once for all.
class Workshop {
 public:
  Workshop(std::string programs, bool lengthy) : programs_(std::move(programs)), lengthy_(lengthy) {}

  std::string program(const std::string& name) const { return programs_ + "/" + name; }
  // The whole measurement, and not a short version of it.
  bool lengthy() const { return lengthy_; }
  // A folder for the logs of a run that has failed, once it has.
  std::function<std::string()> folder_for_logs;

  // troupe-mnist in mode sync that takes about so long on a cluster of 4 workers.
  Arguments mnist(double seconds);
  // The machine is faster than it was: jobs take longer from now on.
  void lengthen() { seconds_per_epoch_ /= 2; }
  // What one process comes to with the same arguments: the parameters that all runs must end with.
  const std::string& expected_hash(const Arguments& arguments);
  // Where one process comes to something else: what `undisturbed`, which is called once, comes to.
  const std::string& expected_hash(const Arguments& arguments, const std::function<std::string()>& undisturbed);

 private:
  std::string programs_;
  bool lengthy_;
  double seconds_per_epoch_ = 0;
  std::map<Arguments, std::string> hashes_;
};

struct Row {
  std::string name;
  std::string fault, must;  // for people
  int short_runs = 1, long_runs = 1;
  std::map<std::string, double> at_most;   // of times
  std::map<std::string, double> at_least;  // of the sum of counts
  std::function<Outcome(Workshop&, std::uint64_t seed)> run;
  // A guard is left out: some run must fail.
  bool broken = false;
};

const std::vector<Row>& rows();

// Those of one source file each.
std::vector<Row> worker_rows();
std::vector<Row> return_rows();
std::vector<Row> disk_rows();
std::vector<Row> pace_rows();
std::vector<Row> batch_rows();

// Plays a schedule on a cluster, from the beginning of the training (`begins`: what a task tells then; "": from now on)
// to the end of all processes. What is wrong
// afterwards is in the outcome: it did not end in time, a process failed, the parameters at the end are not those
// expected ("": any).
struct Played {
  Outcome outcome;
  std::map<std::string, double> when;  // of the faults: when "kill worker/1" was done
  double began = 0;
  std::string hash;  // of the parameters at the end
};
Played play(ChaosCluster& cluster, const Schedule& schedule, const std::string& expected_hash, double seconds = 60,
            const std::string& begins = "began");

// The outcome; if there is a problem, what all tasks have said is kept.
Outcome finish(Workshop& workshop, const ChaosCluster& cluster, const Outcome& outcome);

// Time of the first line of this kind about the task after `since`, less `since`; a problem if there is none.
void measure(Outcome& outcome, const std::string& what, const ChaosCluster& cluster, std::string_view kind,
             double since, std::string_view about = "");
// Adds the counts of all `ended` lines whose names are given.
double total(const ChaosCluster& cluster, const std::vector<std::string>& counts);

}  // namespace troupe::chaos
