#include "tools/top/table.hpp"

#include <algorithm>

namespace troupe::top {
namespace {

constexpr std::size_t kLeastElastic = 16;
constexpr std::size_t kIndent = 10;  // of a text below its row

struct Place {
  std::size_t column = 0;
  std::size_t width = 0;
};

struct Places {
  std::vector<Place> shown;
  bool more = false;  // columns are cut off at the right
};

std::size_t width_of(const Table& table, std::size_t column, bool sorted) {
  const Column& about = table.columns[column];
  const std::size_t title = width(about.title) + (sorted ? 1 : 0);
  std::size_t widest = title;
  for (const Row& row : table.rows) widest = std::max(widest, width(row.cells[column].text));
  return about.elastic ? widest : std::min(widest, std::max(about.most, title));
}

// Places columns in order while there is room, the elastic one with its minimum width; it then gets the remaining room.
Places places(const Table& table, const Layout& layout) {
  Places out;
  const bool all = layout.width == 0 || layout.whole;
  std::size_t room = all ? SIZE_MAX : layout.width - 1;  // excluding the mark in front
  std::optional<std::size_t> elastic;
  std::size_t wanted_more = 0;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (i >= table.fixed && i < table.fixed + layout.first_column) continue;
    const std::size_t natural = width_of(table, i, layout.sorted == i);
    std::size_t least = natural;
    if (table.columns[i].elastic)
      least = std::min(natural, layout.whole ? width(table.columns[i].title) : kLeastElastic);
    if (out.shown.empty()) least = std::min(least, room - std::min<std::size_t>(room, 1));
    if (least + 1 > room) {  // each is followed by a blank, or by the end mark
      out.more = true;
      break;
    }
    if (table.columns[i].elastic) {
      elastic = out.shown.size();
      wanted_more = natural - least;
    }
    room -= least + 1;
    out.shown.push_back({i, least});
  }
  if (!elastic) return out;
  if (!all) {
    out.shown[*elastic].width += room;
  } else {
    const std::size_t used = SIZE_MAX - room + 1;
    if (layout.width != 0) wanted_more = std::min(wanted_more, layout.width - std::min(layout.width, used));
    out.shown[*elastic].width += wanted_more;
  }
  return out;
}

}  // namespace

std::optional<std::size_t> Table::find(std::string_view key) const {
  const auto found = std::ranges::find(rows, key, &Row::key);
  return found == rows.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - rows.begin()));
}

void filter(Table& table, std::string_view words) {
  if (words.empty()) return;
  std::erase_if(table.rows, [&](const Row& row) {
    std::string all;
    for (const Cell& cell : row.cells) all += cell.text + '\n';
    return !has_words(all, words);
  });
}

void sort(Table& table, std::size_t column, bool descending) {
  const auto less = [&](const Row& a, const Row& b) {
    const Cell &x = a.cells[column], &y = b.cells[column];
    if (x.number && y.number) return descending ? *x.number > *y.number : *x.number < *y.number;
    if (x.number || y.number) return x.number.has_value();
    return descending ? natural_less(y.text, x.text) : natural_less(x.text, y.text);
  };
  std::ranges::stable_sort(table.rows, less);
}

Lines lay_out(const Table& table, const Layout& layout) {
  const Places where = places(table, layout);
  Lines out;
  Line titles = {{layout.first_column > 0 ? "◀" : " ", Style::heading}};
  for (const Place& place : where.shown) {
    std::string title = table.columns[place.column].title;
    if (layout.sorted == place.column) title += layout.descending ? "▼" : "▲";
    titles.push_back({fit(title, place.width, table.columns[place.column].align) + " ", Style::heading});
  }
  if (where.more) {
    titles.back().text.pop_back();
    titles.push_back({"▶", Style::heading});
  }
  const std::size_t cut_at = layout.whole ? 0 : layout.width;
  out.push_back(cut(titles, cut_at));
  const std::size_t end = layout.rows < table.rows.size() - std::min(layout.top, table.rows.size())
                              ? layout.top + layout.rows
                              : table.rows.size();
  for (std::size_t i = layout.top; i < end; ++i) {
    const bool selected = layout.selected == i;
    const auto style = [&](Style own) { return selected ? Style::selected : own; };
    Line line = {{selected ? ">" : " ", style(Style::plain)}};
    const Cell* follows = nullptr;
    for (const Place& place : where.shown) {
      const Cell& cell = table.rows[i].cells[place.column];
      if (layout.whole && table.columns[place.column].elastic && width(cell.text) > place.width) follows = &cell;
      const std::string_view text = follows == &cell ? std::string_view() : cell.text;
      line.push_back({fit(text, place.width, table.columns[place.column].align) + " ", style(cell.style)});
    }
    out.push_back(cut(line, cut_at));
    if (!follows) continue;
    for (const std::string& part : wrap(follows->text, layout.width - std::min(layout.width, kIndent)))
      out.push_back({{std::string(kIndent, ' ') + part, style(follows->style)}});
  }
  return out;
}

}  // namespace troupe::top
