// The terminal, by ncurses. At most one at a time.
#pragma once

#include <optional>

#include "tools/top/model.hpp"
#include "tools/top/page.hpp"

namespace troupe::top {

class Terminal {
 public:
  // Throws failed_precondition if the terminal (TERM) is unknown.
  Terminal();
  // Restores the terminal.
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  Size size() const;  // current size
  void draw(const Lines& lines);
  // Returns a pressed key, if any; does not block.
  std::optional<Key> read();

 private:
  bool utf8_ = false;
};

// Shows the source until the user quits. Returns the exit code: 0, or 128 + the number of a signal.
int show(std::unique_ptr<SnapshotSource> source, double interval);

}  // namespace troupe::top
