#include "troupe/actors/training/worker_tables.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include <troupe/actors/training/cluster_job.hpp>

namespace troupe {
namespace {

constexpr std::size_t kMostTableBytes = 64 << 20;   // of a table that the chief reads whole at the end
constexpr std::int64_t kTablePieceBytes = 4 << 20;  // of another that is in its memory at a time

// The numbers of all updated rows, given those of each piece: piece k of K has rows k, k + K and so on.
std::vector<std::int64_t> rows_of_pieces(const std::vector<Tensor>& pieces) {
  std::vector<std::int64_t> out;
  for (std::size_t k = 0; k < pieces.size(); ++k)
    for (const std::int64_t row : pieces[k].values<std::int64_t>())
      out.push_back(row * std::ssize(pieces) + static_cast<std::int64_t>(k));
  std::ranges::sort(out);
  return out;
}

}  // namespace

bool WorkerTables::add(const VariableRef& v) {
  const auto found = job_.sharded.tables.find(v.name);
  if (found == job_.sharded.tables.end()) return false;
  const TableReads& reads = found->second;
  const bool on_demand = !reads.numbers.empty();
  if (!on_demand && checked_bytes(v.dtype, v.shape) <= kMostTableBytes) return false;
  Table table{.variable = v, .rows = {}, .numbers = {}, .draws = {}};
  Graph& graph = *job_.sharded.graph;
  table.rows = session_.callable({graph.output(reads.ids)}, {graph.output(reads.rows)});
  if (on_demand) {
    Outputs numbers;
    for (const std::string& name : reads.numbers) numbers.push_back(graph.output(name));
    table.numbers = session_.callable({}, numbers);
    table.draws.emplace(*job_.graph.graph, Endpoint{v.initial_value.node, v.initial_value.index}, plan_.options.seed);
  }
  tables_.push_back(std::move(table));
  return true;
}

std::vector<std::string> WorkerTables::names() const {
  std::vector<std::string> out;
  for (const Table& table : tables_) out.push_back(table.variable.name);
  return out;
}

std::string WorkerTables::hash(const Parameters& others, const Read& read) const {
  std::map<std::string, const Table*> all;  // by name; null: one of the others
  for (const Table& table : tables_) all.emplace(table.variable.name, &table);
  for (const auto& [name, value] : others) all.emplace(name, nullptr);
  ParameterHash hash;
  for (const auto& [name, table] : all)
    if (table)
      add_to(hash, *table, read);
    else
      hash.add(name, others.at(name));
  return hash.hex();
}

void WorkerTables::add_to(ParameterHash& hash, const Table& table, const Read& read) {
  const VariableRef& v = table.variable;
  hash.begin(v.name, v.dtype, v.shape);
  const std::vector<std::int64_t> updated =
      table.draws ? rows_of_pieces(read(table.numbers, {})) : std::vector<std::int64_t>();
  const std::int64_t count = table.draws ? std::ssize(updated) : v.shape[0];
  const auto row_bytes = static_cast<std::int64_t>(checked_bytes(v.dtype, v.shape.without(0)));
  const std::int64_t step = std::max<std::int64_t>(1, kTablePieceBytes / std::max<std::int64_t>(1, row_bytes));
  for (std::int64_t first = 0; first < count; first += step) {
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(std::min(step, count - first)));
    if (table.draws)
      std::copy_n(updated.begin() + first, numbers.size(), numbers.begin());
    else
      std::iota(numbers.begin(), numbers.end(), first);
    const Tensor rows = read(table.rows, {Tensor::of<std::int64_t>(Shape{std::ssize(numbers)}, numbers)})[0];
    if (table.draws)
      hash.changed_rows(numbers, rows, *table.draws);
    else
      hash.rows(rows);
  }
}

}  // namespace troupe
