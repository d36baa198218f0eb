// The tables of a job that no worker ever has whole: those on demand, and large ones. At the end of training the chief
// reads them piece by piece, for the hash of all parameters.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/session/session.hpp>
#include <troupe/actors/training/parameter_hash.hpp>
#include <troupe/graph/builder/variable.hpp>

namespace troupe {

struct ClusterJob;
struct TrainingPlan;

class WorkerTables {
 public:
  // All outlive it. `session` runs the job's sharded graph.
  WorkerTables(const TrainingPlan& plan, const ClusterJob& job, Session& session)
      : plan_(plan), job_(job), session_(session) {}

  // Returns false for a variable that is read whole.
  bool add(const VariableRef& variable);
  std::vector<std::string> names() const;
  // The hash of all parameters: the tables, and `others`. `read` runs one of the session's callables.
  using Read = std::function<std::vector<Tensor>(const Callable& call, std::vector<Tensor> feeds)>;
  std::string hash(const Parameters& others, const Read& read) const;

 private:
  struct Table {
    VariableRef variable;
    Callable rows, numbers;         // the rows of given numbers; of a table on demand, those that have been updated
    std::optional<RowDraws> draws;  // if it is on demand
  };
  static void add_to(ParameterHash& hash, const Table& table, const Read& read);

  const TrainingPlan& plan_;
  const ClusterJob& job_;
  Session& session_;
  std::vector<Table> tables_;
};

}  // namespace troupe
