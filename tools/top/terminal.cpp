#include "tools/top/terminal.hpp"

#define NCURSES_WIDECHAR 1
#include <fcntl.h>
#include <ncurses.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <cwchar>

#include "tools/top/text.hpp"

namespace troupe::top {
namespace {

enum Pair : short { kGreen = 1, kYellow, kRed, kCyan };

attr_t attributes(Style style) {
  const auto color = [](Pair pair) -> attr_t { return has_colors() ? COLOR_PAIR(pair) : 0; };
  switch (style) {
    case Style::plain:
      return A_NORMAL;
    case Style::dim:
      return A_DIM;
    case Style::strong:
      return A_BOLD;
    case Style::heading:
      return A_BOLD | color(kCyan);
    case Style::good:
      return color(kGreen);
    case Style::warn:
      return color(kYellow);
    case Style::bad:
      return A_BOLD | color(kRed);
    case Style::selected:
      return A_REVERSE;
  }
  return A_NORMAL;
}

// Whether the environment's locale supports UTF-8.
bool speaks_utf8() {
  if (!std::setlocale(LC_CTYPE, "")) return false;
  wchar_t wide = 0;
  std::mbstate_t state{};
  return std::mbrtowc(&wide, "\u2588", 3, &state) == 3 && wide == L'\u2588';
}

std::optional<Key> key_of(int code) {
  using Kind = Key::Kind;
  switch (code) {
    case ERR:
      return std::nullopt;
    case KEY_UP:
      return Key{Kind::up};
    case KEY_DOWN:
      return Key{Kind::down};
    case KEY_LEFT:
      return Key{Kind::left};
    case KEY_RIGHT:
      return Key{Kind::right};
    case KEY_PPAGE:
      return Key{Kind::page_up};
    case KEY_NPAGE:
      return Key{Kind::page_down};
    case KEY_HOME:
      return Key{Kind::home};
    case KEY_END:
      return Key{Kind::end};
    case KEY_ENTER:
    case '\n':
    case '\r':
      return Key{Kind::enter};
    case 27:
      return Key{Kind::escape};
    case KEY_BACKSPACE:
    case 8:
    case 127:
      return Key{Kind::backspace};
    case '\t':
      return Key{Kind::tab};
    case KEY_BTAB:
      return Key{Kind::back_tab};
    default:
      return Key{Kind::character, static_cast<char>(code >= ' ' && code < 127 ? code : 0)};
  }
}

// Events that wake the loop, as bytes in a pipe: a signal's number, or 0 for an answer.
std::array<int, 2> wake_pipe = {-1, -1};

void wake(unsigned char why) {
  const int before = errno;
  [[maybe_unused]] const ssize_t written = write(wake_pipe[1], &why, 1);  // a full pipe wakes too
  errno = before;
}

void on_signal(int number) { wake(static_cast<unsigned char>(number)); }

class Signals {
 public:
  Signals() {
    if (wake_pipe[0] < 0 && pipe2(wake_pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0)
      fail(Code::resource_exhausted, "cannot create a pipe: {}", std::strerror(errno));
    struct sigaction action {};
    action.sa_handler = on_signal;
    for (std::size_t i = 0; i < kNumbers.size(); ++i) sigaction(kNumbers[i], &action, &before_[i]);
  }
  ~Signals() {
    for (std::size_t i = 0; i < kNumbers.size(); ++i) sigaction(kNumbers[i], &before_[i], nullptr);
  }

 private:
  static constexpr std::array kNumbers = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kNumbers.size()> before_{};
};

}  // namespace

Terminal::Terminal() : utf8_(speaks_utf8()) {
  const char* type = std::getenv("TERM");
  if (!newterm(nullptr, stdout, stdin))
    fail(Code::failed_precondition, "unknown terminal '{}'; set TERM (for example TERM=xterm), or use --once",
         clean(type ? type : ""));
  cbreak();
  noecho();
  nonl();
  keypad(stdscr, TRUE);
  nodelay(stdscr, TRUE);
  set_escdelay(25);
  curs_set(0);
  const char* plain = std::getenv("NO_COLOR");
  if (has_colors() && (!plain || *plain == '\0') && start_color() == OK && use_default_colors() == OK) {
    init_pair(kGreen, COLOR_GREEN, -1);
    init_pair(kYellow, COLOR_YELLOW, -1);
    init_pair(kRed, COLOR_RED, -1);
    init_pair(kCyan, COLOR_CYAN, -1);
  }
}

Terminal::~Terminal() { endwin(); }

Size Terminal::size() const {
  return {static_cast<std::size_t>(std::max(COLS, 1)), static_cast<std::size_t>(std::max(LINES, 1))};
}

void Terminal::draw(const Lines& lines) {
  erase();
  for (std::size_t y = 0; y < lines.size(); ++y) {
    std::size_t x = 0;
    for (const Span& span : lines[y]) {  // positioned explicitly, whatever width the terminal gives earlier spans
      attrset(attributes(span.style));
      mvaddstr(static_cast<int>(y), static_cast<int>(x), (utf8_ ? span.text : ascii(span.text)).c_str());
      x += width(span.text);
    }
  }
  attrset(A_NORMAL);
  refresh();
}

std::optional<Key> Terminal::read() { return key_of(getch()); }

int show(std::unique_ptr<SnapshotSource> source, double interval) {
  Signals signals;
  const auto duration = [](double seconds) {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
  };
  Model model(interval);
  Asker asker(std::move(source), duration(interval), [] { wake(0); });
  Terminal terminal;
  while (true) {
    if (auto observation = asker.take()) model.take(std::move(*observation));
    model.resize(terminal.size());
    terminal.draw(model.page(asker.asked()));
    std::array<pollfd, 2> ready = {{{STDIN_FILENO, POLLIN, 0}, {wake_pipe[0], POLLIN, 0}}};
    poll(ready.data(), ready.size(), 500);  // updates the age of the answer; a resize interrupts it
    if (ready[0].revents & (POLLHUP | POLLERR | POLLNVAL)) return 128 + SIGHUP;
    for (unsigned char why = 0; ::read(wake_pipe[0], &why, 1) == 1;)
      if (why != 0) return 128 + why;
    while (const auto key = terminal.read()) model.press(*key);
    if (model.ended()) return 0;
    asker.set_interval(duration(model.interval()));
    asker.set_paused(model.paused());
  }
}

}  // namespace troupe::top
