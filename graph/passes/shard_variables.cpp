#include "troupe/graph/passes/shard_variables.hpp"

#include <algorithm>
#include <optional>

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/op_table.hpp>
#include <troupe/graph/optimizers/optimizers.hpp>
#include <troupe/graph/passes/table_lookups.hpp>
#include <troupe/graph/rewrite.hpp>
#include <troupe/graph/verify.hpp>

namespace troupe {
namespace {

// Ops that a shard replaces.
enum class ShardedPart : std::uint8_t { none, read, assignment, sums, constraint };
constexpr auto kShardedParts = op_table<ShardedPart>({
    {"ReadVariable", ShardedPart::read},
    {"AssignVariable", ShardedPart::assignment},
    {"InitializeVariable", ShardedPart::assignment},
    {"ConstrainVariable", ShardedPart::constraint},
    {"SumRows", ShardedPart::sums},
});

struct PlaceInPack {
  std::size_t pack = 0;  // in ShardedGraph::packs
  std::size_t index = 0;
};

class Sharder {
 public:
  Sharder(const Graph& graph, const ShardMap& map, const PhaseOf& phase_of)
      : graph_(graph),
        map_(map),
        phase_of_(phase_of),
        rewriter_(graph),
        used_(static_cast<std::size_t>(graph.size()), false) {
    for (const VariableInfo& v : variables(graph)) info_.emplace(v.handle.node, v);
    for (int id = 0; id < graph.size(); ++id) {
      for (const Endpoint& e : graph.node(id).inputs) used_[static_cast<std::size_t>(e.node)] = true;
      for (int c : graph.node(id).controls) used_[static_cast<std::size_t>(c)] = true;
    }
  }

  ShardedGraph run() {
    find_variables();
    result_.rules = update_rules(graph_, sharded_);
    for (const auto& [variable, rule] : result_.rules)
      for (const SlotVariable& slot : rule.slots) slots_.emplace(graph_.get(slot.name).id, variable);
    if (phase_of_) pack();
    for (const TableLookup& lookup : table_lookups(graph_)) {
      if (!sharded_.contains(lookup.table)) continue;
      lookups_.push_back(lookup);
      groups_[lookup.group].push_back(lookup.node);
      group_of_.emplace(lookup.node, lookup.group);
    }
    for (const auto& [id, name] : sharded_)
      if (is_on_demand(graph_.node(id))) check_on_demand(id, name);
    for (int id : order_with_groups(graph_, lookups_)) rewrite(graph_.node(id));
    for (const TableLookup& lookup : lookups_)
      if (const std::string& table = sharded_.at(lookup.table); !result_.tables.contains(table)) add_reads(table);
    result_.graph = rewriter_.finish();
    return std::move(result_);
  }

 private:
  void check_on_demand(int id, const std::string& name) const {
    if (std::ranges::count(lookups_, id, &TableLookup::table) == 0)
      invalid_argument(
          "variable '{}' is on demand: it must have sparse gradients, and only lookups of its rows may read it", name);
    if (!result_.rules.at(name).changes_rows_only())
      invalid_argument("variable '{}' is on demand: its optimizer must update rows lazily (SlotUpdates::lazy)", name);
  }

  void find_variables() {
    for (const VariableSpec& spec : map_.variables()) {
      const Node* node = graph_.find(spec.name);
      if (!node || node->op->role != OpRole::variable)
        fail(Code::not_found, "the graph has no variable '{}' to shard", spec.name);
      const VariableInfo& info = info_.at(node->id);
      if (info.dtype != spec.dtype || !(info.shape == spec.shape))
        invalid_argument("variable '{}' is {}{} in the graph, but {}{} in the shard map", spec.name, name(info.dtype),
                         info.shape.to_string(), name(spec.dtype), spec.shape.to_string());
      sharded_.emplace(node->id, spec.name);
      result_.initial_values.emplace(spec.name, initial_value_of(graph_, info));
    }
  }

  // The sharded variable whose handle is the node's first input, or null.
  const std::string* owner(const Node& node) const {
    const auto it = node.inputs.empty() ? sharded_.end() : sharded_.find(node.inputs[0].node);
    return it == sharded_.end() ? nullptr : &it->second;
  }

  void pack() {
    result_.packs = pack_slices(map_, [this](const std::string& variable) -> std::optional<std::uint32_t> {
      const auto rule = result_.rules.find(variable);
      if (rule == result_.rules.end() || rule->second.sparse) return std::nullopt;
      return phase_of_(variable);
    });
    packs_.resize(result_.packs.size());
    for (std::size_t p = 0; p < packs_.size(); ++p)
      for (std::size_t i = 0; i < result_.packs[p].slices.size(); ++i)
        packed_.emplace(map_.slices()[result_.packs[p].slices[i]].variable, PlaceInPack{p, i});
  }

  void rewrite(const Node& node) {
    if (sharded_.contains(node.id) || slots_.contains(node.id)) return;
    if (const auto group = group_of_.find(node.id); group != group_of_.end()) return look_up(node, group->second);
    if (const std::string* variable = owner(node)) {
      if (kShardedParts.of(node) == ShardedPart::read) return read(node, *variable);
      if (kShardedParts.of(node) == ShardedPart::assignment) return drop_assignment(node);
      if (node.op->update_rule) return push(node, *variable);
      if (kShardedParts.of(node) == ShardedPart::constraint) return stands_for_order(node, controls(node));
    }
    if (!node.inputs.empty() && slots_.contains(node.inputs[0].node)) {
      if (kShardedParts.of(node) == ShardedPart::assignment) return drop_assignment(node);
      // Every variable has a read node from the start; a slot's is normally unused.
      if (kShardedParts.of(node) == ShardedPart::read && !used_[static_cast<std::size_t>(node.id)]) return;
    }
    for (const Endpoint& e : node.inputs)
      if (sharded_.contains(e.node) || slots_.contains(e.node))
        invalid_argument(
            "{} '{}' uses '{}', which is on a shard: there it can only be read, initialized, and updated by an "
            "optimizer",
            node.op->name, node.name, graph_.node(e.node).name);
    rewriter_.copy(node);
  }

  bool reads_table(const Node& node) const {
    return kShardedParts.of(node) == ShardedPart::read &&
           std::ranges::count(lookups_, node.inputs[0].node, &TableLookup::table) > 0;
  }
  // Control edges of a node, as Outputs of the new graph.
  std::vector<Output> controls(const Node& node) {
    std::vector<Output> out;
    for (int c : rewriter_.mapped_controls(node)) out.push_back({&rewriter_.to(), c, 0});
    return out;
  }
  Output add(NodeSpec spec) { return rewriter_.to().output(rewriter_.to().add(std::move(spec))); }
  static Attributes slice_attributes(const Slice& slice) {
    return {{"T", slice.dtype}, {"slice", std::int64_t{slice.id}}, {"shard", std::int64_t{slice.shard}}};
  }
  void stands_for(const Node& old, Output replacement) {
    // Nothing waits for the read of a whole table: updates, which wait for reads, follow lookups of theirs.
    if (!reads_table(old)) rewriter_.replace_node(old, replacement.source());
    if (!old.output_types.empty()) rewriter_.replace({old.id, 0}, {replacement.node, replacement.index});
    for (const auto& [key, value] : old.attributes.all())
      if (key.starts_with('_')) rewriter_.to().set_attribute(replacement.source(), key, value);
  }

  void read(const Node& node, const std::string& variable) {
    if (map_.slices_of(variable).front().on_demand) return;  // by lookups alone
    const auto [value, first] = values_.try_emplace(variable);
    if (!first) {
      stands_for(node,
                 add({.op = "Identity", .name = node.name, .inputs = {value->second}, .controls = controls(node)}));
      return;
    }
    if (const auto packed = packed_.find(variable); packed != packed_.end()) {
      value->second = shaped(node, part_of(packed->second), map_.variable(variable).shape);
      stands_for(node, value->second);
      return;
    }
    const auto slices = map_.slices_of(variable);
    const bool dealt = slices.front().stride > 1;
    std::vector<Output> pulls;
    for (const Slice& slice : slices) {
      Attributes attributes = slice_attributes(slice);
      attributes.set("shape", slice.shape);
      const std::string name =
          slices.size() == 1 ? node.name : rewriter_.new_name(fmt::format("{}/slice_{}", node.name, slice.id));
      pulls.push_back(
          add({.op = "Pull", .name = name, .attributes = std::move(attributes), .controls = controls(node)}));
    }
    value->second =
        pulls.size() == 1 ? pulls[0]
        : dealt
            ? add({.op = "JoinRows", .name = node.name, .inputs = pulls, .attributes = {{"rows", slices[0].row_end}}})
            : add({.op = "Concat", .name = node.name, .inputs = pulls, .attributes = {{"axis", std::int64_t{0}}}});
    stands_for(node, value->second);
  }

  // A slice of a pulled pack, flat.
  Output part_of(const PlaceInPack& place) {
    const SlicePack& pack = result_.packs[place.pack];
    Outputs& parts = packs_[place.pack].parts;
    if (parts.empty()) {
      const std::string name = rewriter_.new_name(fmt::format("pack_{}", pack.id));
      const Output pull = add({.op = "Pull",
                               .name = name,
                               .attributes = {{"T", pack.dtype},
                                              {"slice", std::int64_t{pack.id}},
                                              {"shard", std::int64_t{pack.shard}},
                                              {"shape", Shape{pack.elements}}}});
      std::vector<std::int64_t> sizes;
      for (const std::uint32_t id : pack.slices) sizes.push_back(map_.slices()[id].shape.num_elements());
      const Node& split =
          rewriter_.to().add({.op = "SplitSizes",
                              .name = rewriter_.new_name(name + "/parts"),
                              .inputs = {pull, integers(name, "sizes", sizes)},
                              .attributes = {{"axis", std::int64_t{0}}, {"N", std::int64_t{std::ssize(sizes)}}}});
      for (int i = 0; i < static_cast<int>(sizes.size()); ++i) parts.push_back({&rewriter_.to(), split.id, i});
    }
    return parts[place.index];
  }

  // `flat` in this shape, as a node with the name and control edges of `node`.
  Output shaped(const Node& node, Output flat, const Shape& shape) {
    NodeSpec spec{.op = "Identity", .name = node.name, .inputs = {flat}, .controls = controls(node)};
    if (shape.rank() != 1) {
      spec.op = "Reshape";
      spec.inputs.push_back(integers(node.name, "shape", {shape.dims().begin(), shape.dims().end()}));
    }
    return add(std::move(spec));
  }

  Output integers(const std::string& name, const char* what, const std::vector<std::int64_t>& values) {
    const Tensor value = Tensor::of<std::int64_t>(Shape{std::ssize(values)}, values);
    return add({.op = "Const",
                .name = rewriter_.new_name(fmt::format("{}/{}", name, what)),
                .attributes = {{"T", DType::i64}, {"value", value}}});
  }

  // A lookup reads the rows that its group has pulled, by their places there.
  void look_up(const Node& node, int group) {
    if (!pulled_.contains(group)) pull_rows(group);
    const PulledRows& pulled = pulled_.at(group);
    const Endpoint ids = node.inputs[1];
    Output places = pulled.places.at(node.id);
    const Shape& shape = graph_.shape(ids);
    if (shape.rank() != 1) {
      const Output given = rewriter_.output(ids);
      const Output dims = shape.fully_known()
                              ? integers(node.name, "dims", {shape.dims().begin(), shape.dims().end()})
                              : add({.op = "Shape", .name = fresh(node.name + "/dims"), .inputs = {given}});
      places = add({.op = "Reshape", .name = fresh(node.name + "/places"), .inputs = {places, dims}});
    }
    Outputs inputs = {pulled.rows, places};
    for (std::size_t i = 2; i < node.inputs.size(); ++i) inputs.push_back(rewriter_.output(node.inputs[i]));
    NodeSpec spec{.op = node.op->name,
                  .name = node.name,
                  .inputs = std::move(inputs),
                  .controls = controls(node),
                  .device = node.device};
    const std::string& ids_type = node.op->inputs[1].type_attr;
    for (const auto& [key, value] : node.attributes.all())
      if (key != ids_type) spec.attributes.set(key, value);
    const Node& copy = rewriter_.to().add(std::move(spec));
    rewriter_.replace_node(node, copy);
    for (int i = 0; i < static_cast<int>(node.output_types.size()); ++i) rewriter_.replace({node.id, i}, {copy.id, i});
  }

  struct PulledRows {
    Output rows;                   // of all slices, one after the other
    std::map<int, Output> places;  // by lookup: flat
  };

  // The rows that the lookups of a group need, from each slice of their table.
  void pull_rows(int group) {
    const std::vector<int>& members = groups_.at(group);
    const Node& first = graph_.node(members.front());
    const std::string& table = sharded_.at(graph_.node(first.inputs[0].node).inputs[0].node);
    const std::string name = fmt::format("{}/pulled", first.name);
    Outputs ids;
    for (const int member : members) {
      const Output given = rewriter_.output(graph_.node(member).inputs[1]);
      const Output wide = given.dtype() == DType::i64 ? given : cast(given, DType::i64, fresh(name + "/ids"));
      ids.push_back(wide.shape().rank() == 1 ? wide : flat(wide, name));
    }
    const auto [rows, places] = pulled_by(ids, table, name);
    pulled_[group].rows = rows;
    for (std::size_t i = 0; i < members.size(); ++i) pulled_[group].places.emplace(members[i], places[i]);
  }

  // The rows of these ids, of all slices, one after the other; and for each list of ids their places there.
  std::pair<Output, Outputs> pulled_by(const Outputs& ids, const std::string& table, const std::string& name) {
    const auto slices = map_.slices_of(table);
    const Node& node =
        rewriter_.to().add({.op = "DistinctRows",
                            .name = fresh(name + "/distinct"),
                            .inputs = ids,
                            .attributes = {{"K", std::ssize(slices)}, {"rows", map_.variable(table).shape.dim(0)}}});
    const Outputs distinct = outputs_of(rewriter_.to(), node);
    Outputs parts;
    for (std::size_t k = 0; k < slices.size(); ++k) parts.push_back(pull_part(slices[k], distinct[k], name));
    const Output rows = parts.size() == 1 ? parts[0]
                                          : add({.op = "Concat",
                                                 .name = fresh(name + "/rows"),
                                                 .inputs = parts,
                                                 .attributes = {{"axis", std::int64_t{0}}}});
    return {rows, {distinct.begin() + std::ssize(slices), distinct.end()}};
  }

  // For programs that read a table by its row numbers.
  void add_reads(const std::string& table) {
    TableReads& reads = result_.tables[table];
    reads.ids = fresh(table + "/by_rows/ids");
    const Output ids = placeholder(rewriter_.to(), DType::i64, Shape{kUnknown}, reads.ids);
    const auto [rows, places] = pulled_by({ids}, table, table + "/by_rows");
    reads.rows = fresh(table + "/by_rows");
    add({.op = "Gather",
         .name = reads.rows,
         .inputs = {rows, places[0]},
         .attributes = {{"axis", std::int64_t{0}}, {"batch_dims", std::int64_t{0}}, {"from_end", false}}});
    for (const Slice& slice : map_.slices_of(table)) {
      if (!slice.on_demand) continue;
      Attributes attributes = slice_attributes(slice);
      attributes.set("T", DType::i64);
      attributes.set("shape", Shape{kUnknown});
      reads.numbers.push_back(fresh(fmt::format("{}/numbers_{}", table, slice.id)));
      add({.op = "Pull", .name = reads.numbers.back(), .attributes = std::move(attributes)});
    }
  }

  Output pull_part(const Slice& slice, Output rows, const std::string& name) {
    const std::int64_t ask = asks_++;
    const Output asked =
        add({.op = "AskRows",
             .name = fresh(fmt::format("{}/ask_{}", name, slice.id)),
             .inputs = {rows},
             .attributes = {{"slice", std::int64_t{slice.id}}, {"shard", std::int64_t{slice.shard}}, {"ask", ask}}});
    Attributes attributes = slice_attributes(slice);
    Shape shape = slice.shape;
    shape.set_dim(0, kUnknown);
    attributes.set("shape", shape);
    attributes.set("ask", ask);
    return add({.op = "Pull",
                .name = fresh(fmt::format("{}/slice_{}", name, slice.id)),
                .attributes = std::move(attributes),
                .controls = {asked},
                .colocate_with = asked.source().name});
  }

  Output flat(Output x, const std::string& name) {
    const Output all = integers(name, "all", {-1});
    return add({.op = "Reshape", .name = fresh(name + "/flat"), .inputs = {x, all}});
  }
  std::string fresh(const std::string& name) const { return rewriter_.new_name(name); }

  void drop_assignment(const Node& node) {
    stands_for_order(node, {});
    rewriter_.replace({node.id, 0}, rewriter_.mapped(node.inputs[1]));
  }

  // A NoOp with the node's name, after `before`.
  void stands_for_order(const Node& node, std::vector<Output> before) {
    const Node& done = rewriter_.to().add({.op = "NoOp", .name = node.name, .controls = std::move(before)});
    rewriter_.replace_node(node, done);
    for (const auto& [key, value] : node.attributes.all())
      if (key.starts_with('_')) rewriter_.to().set_attribute(done, key, value);
  }

  void push(const Node& node, const std::string& variable) {
    if (const auto packed = packed_.find(variable); packed != packed_.end()) return push_packed(node, packed->second);
    std::vector<Output> pushes;
    const auto slices = map_.slices_of(variable);
    const Outputs sums = takes_rows(node) ? sums_by_slice(node, variable) : Outputs();
    for (std::size_t k = 0; k < slices.size(); ++k) {
      const Slice& slice = slices[k];
      NodeSpec spec{.op = "Push", .attributes = slice_attributes(slice), .controls = controls(node)};
      if (!sums.empty()) {
        spec.op = "PushSparse";
        spec.inputs = {sums[k], sums[slices.size() + k]};
      } else {
        const Output gradient = rewriter_.output(*input_of(node, "grad"));
        spec.inputs = {slices.size() == 1 ? gradient : rows(node, gradient, slice)};
      }
      spec.name = rewriter_.new_name(fmt::format("{}/push_{}", node.name, slice.id));
      pushes.push_back(add(std::move(spec)));
    }
    stands_for_order(node, std::move(pushes));
  }

  // The last gradient of a pack sends it.
  void push_packed(const Node& node, const PlaceInPack& place) {
    const SlicePack& pack = result_.packs[place.pack];
    Packed& packed = packs_[place.pack];
    packed.gradients.resize(pack.slices.size());
    Output& gradient = packed.gradients[place.index];
    gradient = rewriter_.output(*input_of(node, "grad"));
    if (gradient.shape().rank() != 1) {
      const std::string name = rewriter_.new_name(node.name + "/flat");
      const Output flat = integers(name, "shape", {-1});
      gradient = add({.op = "Reshape", .name = name, .inputs = {gradient, flat}});
    }
    std::vector<Output> before = controls(node);
    packed.before.insert(packed.before.end(), before.begin(), before.end());
    if (++packed.pushed < pack.slices.size()) {
      before.push_back(gradient);
      return stands_for_order(node, std::move(before));
    }
    const std::string name = rewriter_.new_name(fmt::format("{}/push_{}", node.name, pack.id));
    const Output joined = add({.op = "Concat",
                               .name = rewriter_.new_name(name + "/joined"),
                               .inputs = packed.gradients,
                               .attributes = {{"axis", std::int64_t{0}}}});
    stands_for_order(
        node,
        {add({.op = "Push",
              .name = name,
              .inputs = {joined},
              .attributes = {{"T", pack.dtype}, {"slice", std::int64_t{pack.id}}, {"shard", std::int64_t{pack.shard}}},
              .controls = packed.before})});
  }

  // The rows of a sparse gradient for each slice, then their values.
  Outputs sums_by_slice(const Node& node, const std::string& variable) {
    const auto slices = map_.slices_of(variable);
    if (slices.size() > 1 && slices.front().stride == 1)
      invalid_argument(
          "{} '{}': variable '{}' is cut into ranges of rows, but has sparse gradients: set by_rows in its "
          "VariableSpec",
          node.op->name, node.name, variable);
    Endpoint indices = *input_of(node, "indices"), values = *input_of(node, "values");
    const Node& source = graph_.node(indices.node);
    const bool summed = kShardedParts.of(source) == ShardedPart::sums && values == Endpoint{source.id, 1};
    if (summed && slices.size() == 1) return {rewriter_.output(indices), rewriter_.output(values)};
    if (summed) {
      indices = source.inputs[0];
      values = source.inputs[1];
    }
    const Output rows = rewriter_.output(indices), of_rows = rewriter_.output(values);
    const Node& sums =
        rewriter_.to().add({.op = "SumRows",
                            .name = fresh(node.name + "/rows"),
                            .inputs = {rows, of_rows},
                            .attributes = {{"K", std::ssize(slices)}, {"rows", map_.variable(variable).shape.dim(0)}}});
    return outputs_of(rewriter_.to(), sums);
  }

  // The rows of a dense gradient that belong to a slice.
  Output rows(const Node& node, Output gradient, const Slice& slice) {
    const auto rank = static_cast<std::size_t>(slice.shape.rank());
    std::vector<std::int64_t> begin(rank, 0);
    std::vector<std::int64_t> size(rank, -1);
    begin[0] = slice.row_begin;
    size[0] = slice.row_end - slice.row_begin;
    const std::string name = rewriter_.new_name(fmt::format("{}/rows_{}", node.name, slice.id));
    const Output from = integers(name, "begin", begin), count = integers(name, "size", size);
    return add({.op = "Slice", .name = name, .inputs = {gradient, from, count}});
  }

  struct Packed {
    Outputs parts;           // of the Pull; empty: nothing has read it yet
    Outputs gradients;       // flat, by place
    Outputs before;          // what its Push waits for
    std::size_t pushed = 0;  // gradients seen
  };

  const Graph& graph_;
  const ShardMap& map_;
  const PhaseOf& phase_of_;
  Rewriter rewriter_;
  ShardedGraph result_;
  std::vector<bool> used_;                     // by node: others consume it, or run after it
  std::map<int, VariableInfo> info_;           // by Variable node
  std::map<int, std::string> sharded_;         // Variable node -> name
  std::map<int, std::string> slots_;           // Variable node of a slot -> the variable it belongs to
  std::map<std::string, Output> values_;       // by variable: the replacement of its first read
  std::vector<Packed> packs_;                  // like ShardedGraph::packs
  std::map<std::string, PlaceInPack> packed_;  // by variable
  std::vector<TableLookup> lookups_;
  std::map<int, std::vector<int>> groups_;  // of lookups
  std::map<int, int> group_of_;             // by lookup
  std::map<int, PulledRows> pulled_;        // by group
  std::int64_t asks_ = 0;
};

}  // namespace

ShardedGraph shard_variables(const Graph& graph, const ShardMap& map, const PhaseOf& phase_of) {
  ShardedGraph sharded = Sharder(graph, map, phase_of).run();
  // Not compared with `graph`: updates leave it, so what they waited for no longer runs before their successors.
  sharded.graph = verified("shard_variables", std::move(sharded.graph));
  return sharded;
}

}  // namespace troupe
