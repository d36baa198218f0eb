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
  // Gives it back as it was.
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  Size size() const;  // as it is now
  void draw(const Lines& lines);
  // A key that has been pressed, if there is one; does not wait.
  std::optional<Key> read();

 private:
  bool utf8_ = false;
};

// Shows what the asker hears until the user quits. Returns the exit code: 0, or 128 + the number of a signal.
int show(std::unique_ptr<SnapshotSource> source, double interval);

}  // namespace troupe::top
