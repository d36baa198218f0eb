// A program in a terminal of its own, and what that shows. Knows what ncurses sends to a "vt100" and an "xterm", no
// more.
#pragma once

#include <sys/types.h>
#include <termios.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::testing {

class PseudoTerminal {
 public:
  using Environment = std::vector<std::pair<std::string, std::string>>;  // beside what this program has

  // command[0] is a path.
  PseudoTerminal(std::vector<std::string> command, const Environment& environment, int columns = 80, int rows = 24);
  ~PseudoTerminal();  // kills the program if it still runs
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;

  void type(const std::string& keys);
  void resize(int columns, int rows);
  void signal(int number);
  void hang_up();

  // Reads until the screen has the text, or has it no more. Fails the test if the program ends first, or after a
  // minute.
  void wait_for(const std::string& text);
  void wait_until_gone(const std::string& text);
  // Reads to the end; the exit code, or minus the number of the signal that ended it.
  int wait();

  std::string screen() const;  // lines without blanks at their ends
  const std::string& bytes() const { return bytes_; }
  termios settings() const;

 private:
  bool read_more();
  void until(bool there, const std::string& text);
  void take(std::string_view text);
  void command(char final, const std::string& parameters);
  void put(const std::string& character);
  void clear(int row, int from, int to);
  void scroll(int top, int lines);
  void next_line();

  pid_t pid_ = -1;
  int fd_ = -1;
  std::string bytes_, pending_;
  std::vector<std::vector<std::string>> cells_;
  int columns_, rows_, x_ = 0, y_ = 0;
  int top_ = 0, bottom_;  // lines that scroll
};

}  // namespace troupe::testing
