// What the user sees and does: which screen, sorted how, filtered by what, where the selection is. Knows keys and
// lines, no terminal; troupe-top draws what page() returns.
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
  // `interval`: seconds between questions.
  explicit Model(double interval) : interval_(interval) {}

  void take(Observation observation);
  void resize(Size size) { size_ = size; }
  void press(Key key);
  // As many lines as fit the size, none wider.
  Lines page(const Asked& asked);

  bool ended() const { return ended_; }
  bool paused() const { return paused_; }
  double interval() const { return interval_; }

 private:
  enum class Screen : std::uint8_t { summary, actors, devices, shards, edges, why };
  static constexpr std::size_t kScreens = 6;
  enum class Over : std::uint8_t { none, details, help };  // what lies over the screen

  struct View {
    std::optional<std::size_t> sorted;
    bool descending = true;
    std::string filter;
    std::string selected;   // key of the row
    std::size_t index = 0;  // where that was when it was seen last
    std::size_t top = 0;    // first row or line that is seen
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
  std::string only_task_;     // of the actors that are shown; "": of all
  std::size_t over_top_ = 0;  // first line that is seen of what lies over
  std::size_t rows_ = 1;      // that were seen last
  std::optional<Observation> observation_;
  History history_;
};

// One page of everything, for a log: 120 columns, and more only where names and numbers need them.
std::string whole_text(const Observation& observation);

}  // namespace troupe::top
