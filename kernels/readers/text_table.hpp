// Tables of text: lines of tab-separated values, as a whole in memory.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe {

using TableRow = std::vector<std::string>;

// The lines of a file of tab-separated values, plain or compressed by gzip or zstd, each with `columns` values; there
// are no quotes. `path` may lack its ending ".gz", and may be of any scheme
// (file_system_of()). Throws not_found for a missing file, data_loss naming the line for
// one with other columns and for a file that is cut off or damaged.
std::vector<TableRow> read_table(const std::string& path, std::size_t columns);
// The file that is meant: `path`, or that with ".gz" if only it exists.
std::string table_path(const std::string& path);
// The values of a line. Throws data_loss, beginning with `where`, unless there are `columns`.
TableRow table_row(std::string_view line, std::size_t columns, const std::string& where);

// The parts of text between spaces.
std::vector<std::string> split_spaces(const std::string& text);

}  // namespace troupe
