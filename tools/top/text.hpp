// Text for terminals and logs. Names are untrusted bytes: they reach a terminal only through clean().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/messages/bytes_text.hpp>

namespace troupe::top {

// Valid UTF-8 of plain visible characters: control characters (including escape sequences and line ends), direction
// marks, zero-width characters and bytes that are not UTF-8 become U+FFFD, one for each.
std::string clean(std::string_view bytes);
// Width of clean text in columns.
std::size_t width(std::string_view text);

enum class Align : std::uint8_t { left, right };
// Clean text in exactly `columns` columns; longer text ends with "…".
std::string fit(std::string_view text, std::size_t columns, Align align = Align::left);
// Splits any bytes into clean lines, broken at spaces; continuation lines are indented like their line plus two. 0
// columns: breaks only at line ends.
std::vector<std::string> wrap(std::string_view text, std::size_t columns);
// For terminals without UTF-8. Keeps the width.
std::string ascii(std::string_view text);

// Short names of tasks and devices: "/job:ps/task:1" becomes "ps/1", "/job:ps/task:1/device:CPU:0" "ps/1/CPU:0".
std::string shorten(std::string_view text);

// Natural order: numbers in texts compare by value, "worker/2" before "worker/10".
bool natural_less(std::string_view a, std::string_view b);
// Whether `text` contains every word of `words`, ignoring ASCII case.
bool has_words(std::string_view text, std::string_view words);

// "-" if unknown.
std::string count_text(std::uint64_t count);                   // "9,999", "12.3k", "1.2M"
std::string exact_text(std::uint64_t count);                   // "1,234,567"
std::string rate_text(std::optional<double> per_second);       // "0.4", "9,999", "12.3k"
std::string byte_rate_text(std::optional<double> per_second);  // "1.5 MiB"
std::string share_text(std::optional<double> share);           // 0.123: "12%"
std::string loss_text(double loss);                            // "0.1234", "1.2e-05"
std::string duration_text(std::int64_t ns);                    // "12 µs", "3.4 ms", "1.2 s", "3 min 20 s", "2 h 5 min"

// One character per value, from "▁" to "█", scaled to the maximum. Shows the last `columns` values.
std::string spark_line(const std::vector<double>& values, std::size_t columns);
// A bar for a share from 0 to 1: "███▌".
std::string bar(double share, std::size_t columns);

}  // namespace troupe::top
