// Text for terminals and logs. Names are bytes that others chose: nothing of them reaches a terminal but through
// clean().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/messages/bytes_text.hpp>

namespace troupe::top {

// Valid UTF-8 of characters that a terminal only draws: control characters (and so escape sequences and ends of lines),
// what changes the direction of text, what has no width of its own, and bytes that are no UTF-8 become U+FFFD, one for
// each.
std::string clean(std::string_view bytes);
// The columns that clean text takes.
std::size_t width(std::string_view text);

enum class Align : std::uint8_t { left, right };
// Clean text in exactly so many columns: what is too long ends with "…".
std::string fit(std::string_view text, std::size_t columns, Align align = Align::left);
// Several lines of any bytes, cleaned and broken at spaces; what follows a break is indented like its line, and two
// more. 0 columns: only at the ends of lines.
std::vector<std::string> wrap(std::string_view text, std::size_t columns);
// For terminals that speak no UTF-8. As wide as it was.
std::string ascii(std::string_view text);

// Names of tasks and devices as people say them: "/job:ps/task:1" becomes "ps/1", "/job:ps/task:1/device:CPU:0"
// "ps/1/CPU:0".
std::string shorten(std::string_view text);

// Less, with numbers in texts by their value: "worker/2" before "worker/10".
bool natural_less(std::string_view a, std::string_view b);
// Is every word of `words` somewhere in `text`? Letters of ASCII match in both cases.
bool has_words(std::string_view text, std::string_view words);

// "-" for what is not known.
std::string count_text(std::uint64_t count);                   // "9,999", "12.3k", "1.2M"
std::string exact_text(std::uint64_t count);                   // "1,234,567"
std::string rate_text(std::optional<double> per_second);       // "0.4", "9,999", "12.3k"
std::string byte_rate_text(std::optional<double> per_second);  // "1.5 MiB"
std::string share_text(std::optional<double> share);           // 0.123: "12%"
std::string loss_text(double loss);                            // "0.1234", "1.2e-05"
std::string duration_text(std::int64_t ns);                    // "12 µs", "3.4 ms", "1.2 s", "3 min 20 s", "2 h 5 min"

// One character for each value, from "▁" to "█", the greatest value being the highest. The last `columns` of them.
std::string spark_line(const std::vector<double>& values, std::size_t columns);
// A bar for a share from 0 to 1: "███▌".
std::string bar(double share, std::size_t columns);

}  // namespace troupe::top
