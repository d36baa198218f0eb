// The user interface's state: screen, sort order, filter and selection. Handles keys and lines, but no terminal;
// troupe-top draws the result of page().
#pragma once

#include <array>
#include <optional>
#include <string>

#include "tools/top/asker.hpp"
#include "tools/top/details.hpp"
#include "tools/top/table.hpp"

namespace troupe::top {

struct Key {
  enum class Kind : std::uint8_t {
    character,
    up,
    down,
    left,
    right,
    page_up,
    page_down,
    home,
    end,
    enter,
    escape,
    backspace,
    tab,
    back_tab
  };
  Kind kind = Kind::character;
  char character = 0;
};

class Model {
 public:
  // `interval`: seconds between requests.
  explicit Model(double interval) : interval_(interval) {}

  void take(Observation observation);
  void resize(Size size) { size_ = size; }
  void press(Key key);
  // At most as many lines as fit the size, none wider.
  Lines page(const Asked& asked);

  bool ended() const { return ended_; }
  bool paused() const { return paused_; }
  double interval() const { return interval_; }

 private:
  enum class Screen : std::uint8_t { summary, actors, devices, shards, edges, why, inputs, models };
  static constexpr std::size_t kScreens = 8;
  enum class Over : std::uint8_t { none, details, help };  // overlay on the screen

  struct View {
    std::optional<std::size_t> sorted;
    bool descending = true;
    std::string filter;
    std::string selected;   // key of the row
    std::size_t index = 0;  // its last seen position
    std::size_t top = 0;    // first visible row or line
    std::size_t first_column = 0;
  };

  View& view() { return views_[static_cast<std::size_t>(screen_)]; }
  bool has_table() const { return screen_ != Screen::why; }
  Table whole_table() const;
  Table table();
  std::size_t selected(const Table& table);
  void select(std::size_t row);
  void go(Screen screen);
  void press_filter(Key key);
  void press_character(char character);
  void move(Key::Kind kind);
  void move_sort(int by);
  void enter();
  void leave();

  Lines head(const Asked& asked) const;
  Lines body(std::size_t height);
  Lines table_body(std::size_t height);
  Lines details();
  Lines scrolled(Lines lines, std::size_t& top, std::size_t height);
  Line foot() const;

  Size size_;
  double interval_;
  bool ended_ = false, paused_ = false, typing_ = false;
  Screen screen_ = Screen::summary;
  Over over_ = Over::none;
  std::array<View, kScreens> views_;
  std::string only_task_;     // the task whose actors are shown; "": all
  std::size_t over_top_ = 0;  // first visible line of the overlay
  std::size_t rows_ = 1;      // visible rows in the last page
  std::optional<Observation> observation_;
  History history_;
};

// One page of everything, for a log: 120 columns, more only where names and numbers need them.
std::string whole_text(const Observation& observation);

}  // namespace troupe::top
