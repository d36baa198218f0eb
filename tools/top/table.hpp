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
  std::size_t most = 40;  // maximum width in terminal columns
  bool elastic = false;   // gets the remaining width; at most one per table
};

struct Cell {
  std::string text;              // clean
  std::optional<double> number;  // for a numeric column; none: unknown, always sorted last
  Style style = Style::plain;
};

struct Row {
  std::string key;  // the same for the same thing in every snapshot
  std::vector<Cell> cells;
  std::size_t task = 0;  // index in ClusterSnapshot::tasks
  std::size_t item = 0;  // index of the actor, device, shard or link in the task
};

struct Table {
  std::vector<Column> columns;
  std::vector<Row> rows;
  std::size_t fixed = 1;  // columns that do not scroll

  // The row with this key, or none.
  std::optional<std::size_t> find(std::string_view key) const;
};

// Keeps rows that contain each of these words in any cell.
void filter(Table& table, std::string_view words);
// Stable sort: numbers by value, texts by natural order of the numbers in them.
void sort(Table& table, std::size_t column, bool descending);

struct Layout {
  std::size_t width = 0;              // 0: unlimited
  std::size_t first_column = 0;       // among the columns that scroll
  std::optional<std::size_t> sorted;  // the marked column
  bool descending = false;
  std::size_t top = 0;          // first visible row
  std::size_t rows = SIZE_MAX;  // visible rows
  std::optional<std::size_t> selected;
  // Shows all columns, even wider than `width`; text too long for the elastic column follows its row on separate lines.
  bool whole = false;
};

// The titles and the rows. A '>' in front marks the selected row; "◀" and "▶" beside the titles mean more columns.
Lines lay_out(const Table& table, const Layout& layout);

}  // namespace troupe::top
