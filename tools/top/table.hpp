// A table: rows that can be sorted by any column, filtered by words, and laid out for a given width.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/top/page.hpp"
#include "tools/top/text.hpp"

namespace troupe::top {

struct Column {
  std::string title;
  Align align = Align::left;
  std::size_t most = 40;  // columns of the terminal that it gets at most
  bool elastic = false;   // gets what is left; at most one of a table
};

struct Cell {
  std::string text;              // clean
  std::optional<double> number;  // of a column of numbers; none: unknown, which is always sorted last
  Style style = Style::plain;
};

struct Row {
  std::string key;  // the same for the same thing in every snapshot
  std::vector<Cell> cells;
  std::size_t task = 0;  // index in ClusterSnapshot::tasks
  std::size_t item = 0;  // index of the actor, device, shard or link in it
};

struct Table {
  std::vector<Column> columns;
  std::vector<Row> rows;
  std::size_t fixed = 1;  // columns that stay when the others are scrolled

  // The row of this key, or none.
  std::optional<std::size_t> find(std::string_view key) const;
};

// Keeps rows that have each of these words in any of their cells.
void filter(Table& table, std::string_view words);
// Rows that are equal keep their order. Numbers by their value, texts by the numbers in them.
void sort(Table& table, std::size_t column, bool descending);

struct Layout {
  std::size_t width = 0;              // 0: as wide as it is
  std::size_t first_column = 0;       // of those that are not fixed
  std::optional<std::size_t> sorted;  // this column is marked
  bool descending = false;
  std::size_t top = 0;          // first row that is seen
  std::size_t rows = SIZE_MAX;  // that are seen
  std::optional<std::size_t> selected;
  // Shows all columns, though they may be wider than `width`; a text that is too long for the elastic column follows
  // its row on lines of its own.
  bool whole = false;
};

// The titles and the rows. A '>' in front marks the selected row; "◀" and "▶" beside the titles say that there are more
// columns.
Lines lay_out(const Table& table, const Layout& layout);

}  // namespace troupe::top
