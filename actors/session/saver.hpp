// Saves the variables and hash tables of a session, and restores them: for programs that are no training job. The files
// are those of jobs' checkpoints (docs/design/checkpoints.md): what a job saved can be restored into a session, where
// the names agree. A table is saved as the variables TABLE-keys and TABLE-values.
//
//   Session session(task, graph);
//   Saver saver(session, graph, {.directory = "saves"});
//   session.run_targets({initializer(graph)});
//   for (std::uint64_t step = saver.restore().value_or(0); step < steps;) {
//     session.run_targets({train});
//     if (++step % 100 == 0) saver.save(step);
//   }
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/session/session.hpp>
#include <troupe/devices/storage/file_system.hpp>

namespace troupe {

struct SaverOptions {
  std::string directory{};
  int keep = 5;  // the newest; older ones are removed
  // Patterns of names (* any characters, ? any one) of the variables and tables saved and restored; none: all.
  std::vector<std::string> only{};
  std::vector<std::string> except{};  // those that are left alone, even if in `only`
};

// One saver at a time writes into a directory. Variables may lie on any tasks of the session's cluster; they pass
// through this one, which alone needs the directory. Not thread-safe.
class Saver {
 public:
  // Both must outlive the saver, `files` too. Variables and tables added to the graph later are not saved. For tables
  // adds nodes to the graph, and to the session (Session::extend). Throws invalid_argument for options without a sense
  // and for a pattern of `only` that nothing matches.
  Saver(Session& session, Graph& graph, SaverOptions options, FileSystem& files);
  Saver(Session& session, Graph& graph, SaverOptions options);  // files by the directory's scheme: file_system_of()
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // Saves variables and tables as of now, durably and atomically: a crash leaves this save in full or nothing of it. No
  // step that changes them may run meanwhile. `step` is the caller's count, and grows. Throws the errors of the step
  // that reads them and of FileSystem; failed_precondition if the directory holds a later step: then restore() first.
  void save(std::uint64_t step);

  // Sets variables and tables to the newest intact save; returns its step. None, and no change, if there is no save.
  // Throws failed_precondition, naming the variable, if the save lacks one or has it with another dtype or shape; then
  // nothing has changed.
  std::optional<std::uint64_t> restore();
  // The same from one save, the folder DIR/checkpoint-...: not_found or data_loss if it is not there or damaged.
  std::uint64_t restore(const std::string& folder);

  // Folders of damaged saves that restore() passed over, with the reason; the last call's.
  const std::map<std::string, std::string>& passed_over() const { return passed_over_; }

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
  std::map<std::string, std::string> passed_over_;
};

// Sets variables of a session's graph, in one step. Throws not_found for a name that is no variable, invalid_argument
// for another dtype or shape and for a variable without an initializer; then nothing has changed.
void assign_variables(Session& session, Graph& graph, const std::map<std::string, Tensor>& values);

}  // namespace troupe
