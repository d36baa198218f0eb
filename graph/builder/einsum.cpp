// Einstein summation, as products of matrices.
//
// A term is a tensor with a label for each dimension. Two terms are contracted at a time: labels of both that are
// needed later are a batch, those that are not are summed, and the others are the rows and columns of the result.
#include <algorithm>
#include <map>
#include <optional>

#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/index.hpp>
#include <troupe/graph/builder/linear.hpp>
#include <troupe/graph/builder/math.hpp>
#include <troupe/graph/builder/reduce.hpp>

namespace troupe {
namespace {

// A letter, or kEllipsisLabel + the number of dimensions of the ellipsis to the right.
using Labels = std::vector<int>;
constexpr int kEllipsisLabel = 256;

struct Term {
  Output x;
  Labels labels;
};

bool has_label(const Labels& labels, int label) { return std::ranges::find(labels, label) != labels.end(); }
template <class Keep>
Labels labels_if(const Labels& labels, Keep keep) {
  Labels out;
  std::ranges::copy_if(labels, std::back_inserter(out), keep);
  return out;
}
Labels joined(Labels a, const Labels& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
int axis_of(const Term& term, int label) {
  return static_cast<int>(std::ranges::find(term.labels, label) - term.labels.begin());
}

// --- Shapes that may be unknown ---

// A dimension of a tensor.
struct DimOf {
  Output x;
  int axis = 0;
  std::int64_t known() const { return x.shape().has_rank() ? x.shape()[axis] : kUnknown; }
};
using DimProduct = std::vector<DimOf>;

DimProduct dims_of(const Term& term, const Labels& labels) {
  DimProduct out;
  for (const int label : labels) out.push_back({term.x, axis_of(term, label)});
  return out;
}

std::int64_t known_product(const DimProduct& dims) {
  std::int64_t product = 1;
  for (const DimOf& dim : dims) {
    if (dim.known() == kUnknown) return kUnknown;
    if (__builtin_mul_overflow(product, dim.known(), &product)) invalid_argument("einsum: the result is too big");
  }
  return product;
}

// An i64 vector of one element.
Output computed_product(Graph& graph, const DimProduct& dims) {
  Output out;
  for (const DimOf& dim : dims) {
    const Output shape = shape_of(dim.x);
    const Output one = slice(shape, Integers{dim.axis}, Integers{1});
    out = out.valid() ? mul(out, one) : one;
  }
  return out.valid() ? out : constant(graph, {std::int64_t{1}});
}

// x as a shape of products of dimensions. `infer` lets Reshape compute one that is not known.
Output reshape_to(Output x, const std::vector<DimProduct>& wanted, bool infer = true) {
  Integers sizes;
  for (const DimProduct& dims : wanted) sizes.push_back(known_product(dims));
  const auto unknown = std::ranges::count(sizes, kUnknown);
  if (unknown == 0 || (infer && unknown == 1 && std::ranges::count(sizes, 0) == 0)) return reshape(x, Shape(sizes));
  Outputs parts;
  for (const DimProduct& dims : wanted)
    parts.push_back(known_product(dims) == kUnknown ? computed_product(*x.graph, dims)
                                                    : constant(*x.graph, {known_product(dims)}));
  return reshape(x, concat(parts, 0));
}

// --- One term ---

Term in_order(const Term& term, const Labels& labels) {
  if (term.labels == labels) return term;
  Integers perm;
  for (const int label : labels) perm.push_back(axis_of(term, label));
  return {transpose(term.x, perm), labels};
}

Term summed(const Term& term, const Labels& over) {
  if (over.empty()) return term;
  Integers axes;
  for (const int label : over) axes.push_back(axis_of(term, label));
  return {sum(term.x, axes), labels_if(term.labels, [&](int label) { return !has_label(over, label); })};
}

// x [n,n,...] -> [n,...]: rows 0, n + 1, 2 (n + 1), ... of [n n,...].
Output diagonal_of_first(Output x) {
  const DimOf n{x, 0};
  const std::int64_t size = n.known();
  std::vector<DimProduct> merged = {{n, n}};
  for (int d = 2; d < x.shape().rank(); ++d) merged.push_back({{x, d}});
  const Output rows = reshape_to(x, merged, false);
  if (size != kUnknown) {
    std::vector<std::int64_t> at;
    for (std::int64_t i = 0; i < size; ++i) at.push_back(i * (size + 1));
    return gather(rows, constant(*x.graph, Tensor::of<std::int64_t>({size}, at)));
  }
  const Output count = reshape(computed_product(*x.graph, {n}), Shape{});
  const Output limit = mul(count, count);
  const Output step = count + 1;
  const Output begin = constant(*x.graph, std::int64_t{0});
  return gather(rows, range(begin, limit, step));
}

// Takes the diagonal of dimensions with the same label.
Term without_repeats(Term term) {
  for (std::size_t i = 0; i < term.labels.size(); ++i)
    for (std::size_t j = i + 1; j < term.labels.size(); ++j) {
      if (term.labels[i] != term.labels[j]) continue;
      Integers perm = {static_cast<std::int64_t>(i), static_cast<std::int64_t>(j)};
      Labels labels = {term.labels[i]};
      for (std::size_t d = 0; d < term.labels.size(); ++d)
        if (d != i && d != j) perm.push_back(static_cast<std::int64_t>(d)), labels.push_back(term.labels[d]);
      return without_repeats({diagonal_of_first(transpose(term.x, perm)), labels});
    }
  return term;
}

// --- Two terms ---

// The product of elements, broadcast to dimensions `labels`.
Output multiplied(const Term& a, const Term& b, const Labels& labels) {
  const auto align = [&](const Term& term) {
    const Labels own = labels_if(labels, [&](int label) { return has_label(term.labels, label); });
    Output x = in_order(term, own).x;
    for (std::size_t d = labels.size(), found = own.size(); found > 0; --d)
      if (labels[d - 1] == own[found - 1])
        --found;
      else
        x = expand_dims(x, static_cast<std::int64_t>(found));
    return x;
  };
  const Output left = align(a);
  const Output right = align(b);
  return mul(left, right);
}

// A factor of a matrix product: dimensions batch, free and summed, in memory in this order or the last two groups
// swapped.
struct Factor {
  Term term;
  bool summed_first = false;  // of the last two groups
};
struct Groups {
  Labels batch, summed;
};
// Whether no element has to move.
bool fits(const Term& term, const Labels& free, const Groups& groups) {
  return term.labels == joined(joined(groups.batch, free), groups.summed) ||
         term.labels == joined(joined(groups.batch, groups.summed), free);
}
Factor factor(const Term& term, const Labels& free, const Groups& groups, bool summed_first) {
  const Labels last = joined(joined(groups.batch, free), groups.summed),
               first = joined(joined(groups.batch, groups.summed), free);
  if (term.labels == last && !(summed_first && first == last)) return {term, false};
  if (term.labels == first) return {term, true};
  return {in_order(term, summed_first ? first : last), summed_first};
}
// As matrices: groups of several dimensions are merged, empty ones become 1.
Output as_matrices(const Factor& f, const Labels& free, const Groups& groups) {
  if (free.size() == 1 && groups.summed.size() == 1) return f.term.x;
  std::vector<DimProduct> shape;
  for (const int label : groups.batch) shape.push_back(dims_of(f.term, {label}));
  shape.push_back(dims_of(f.term, f.summed_first ? groups.summed : free));
  shape.push_back(dims_of(f.term, f.summed_first ? free : groups.summed));
  return reshape_to(f.term.x, shape);
}

Term matrix_product(Term a, Term b, const Groups& groups, const Labels& rows, const Labels& columns) {
  const Factor left = factor(a, rows, groups, false), right = factor(b, columns, groups, true);
  const Labels labels = joined(joined(groups.batch, rows), columns);
  // MatMul takes vectors, and all rows of a batch as those of one product.
  const bool plain = groups.batch.empty() && groups.summed.size() == 1;
  const bool keep_rows = plain && !left.summed_first, keep_columns = plain && columns.empty();
  const Output x = keep_rows ? left.term.x : as_matrices(left, rows, groups);
  const Output y = keep_columns ? right.term.x : as_matrices(right, columns, groups);
  const Output out = matmul(x, y, {.transpose_a = left.summed_first, .transpose_b = !right.summed_first});
  if ((keep_rows || rows.size() == 1) && (keep_columns || columns.size() == 1)) return {out, labels};
  std::vector<DimProduct> shape;
  for (std::size_t d = 0; d < groups.batch.size(); ++d) shape.push_back({{out, static_cast<int>(d)}});
  for (const int label : rows) shape.push_back(dims_of(left.term, {label}));
  for (const int label : columns) shape.push_back(dims_of(right.term, {label}));
  return {reshape_to(out, shape), labels};
}

// Contracts two terms. `needed` are the labels of the result and of later terms; the order of the result follows
// `order` where that costs nothing.
Term contract(Term a, Term b, const Labels& needed, const Labels& order) {
  const auto is_needed = [&](int label) { return has_label(needed, label); };
  const auto only_in = [&](const Term& term, const Term& other, bool kept) {
    return labels_if(term.labels,
                     [&](int label) { return !has_label(other.labels, label) && is_needed(label) == kept; });
  };
  a = summed(a, only_in(a, b, false));
  b = summed(b, only_in(b, a, false));
  const auto shared = [&](const Term& term, const Term& other, bool kept) {
    return labels_if(term.labels,
                     [&](int label) { return has_label(other.labels, label) && is_needed(label) == kept; });
  };
  Groups groups{shared(a, b, true), shared(a, b, false)};
  Labels rows = only_in(a, b, true), columns = only_in(b, a, true);
  const Labels all = joined(joined(groups.batch, rows), columns);
  if (groups.summed.empty() || (rows.empty() && columns.empty() && !groups.batch.empty())) {
    Labels labels = labels_if(order, [&](int label) { return has_label(all, label); });
    labels = joined(labels, labels_if(all, [&](int label) { return !has_label(labels, label); }));
    const Labels product = joined(labels, groups.summed);
    return summed({multiplied(a, b, product), product}, groups.summed);
  }
  if (joined(joined(groups.batch, columns), rows) == order && all != order) {
    std::swap(a, b);
    std::swap(rows, columns);
  }
  const Groups others{shared(b, a, true), shared(b, a, false)};
  const auto fitting = [&](const Groups& g) { return int{fits(a, rows, g)} + int{fits(b, columns, g)}; };
  if (fitting(others) > fitting(groups)) groups = others;
  return matrix_product(a, b, groups, rows, columns);
}

// --- Equations ---

struct Equation {
  std::vector<std::string> inputs;
  std::optional<std::string> output;  // as written
};

Equation split_equation(std::string_view text) {
  std::string plain;
  for (const char c : text)
    if (c != ' ') plain += c;
  Equation out;
  std::string inputs = plain;
  if (const auto arrow = plain.find("->"); arrow != std::string::npos) {
    inputs = plain.substr(0, arrow);
    out.output = plain.substr(arrow + 2);
  }
  std::size_t begin = 0;
  for (std::size_t comma; (comma = inputs.find(',', begin)) != std::string::npos; begin = comma + 1)
    out.inputs.push_back(inputs.substr(begin, comma - begin));
  out.inputs.push_back(inputs.substr(begin));
  return out;
}

constexpr std::string_view kEllipsis = "...";

// Labels of one side's term, with `ellipsis` dimensions for "...".
Labels parse_labels(std::string_view text, int ellipsis) {
  Labels out;
  bool seen = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      out.push_back(c);
    } else if (!seen && text.substr(i, kEllipsis.size()) == kEllipsis) {
      for (int d = ellipsis - 1; d >= 0; --d) out.push_back(kEllipsisLabel + d);
      seen = true;
      i += kEllipsis.size() - 1;
    } else {
      invalid_argument("einsum: '{}' must be letters and at most one '...'", text);
    }
  }
  return out;
}

Term parse_term(std::string_view text, Output x) {
  if (!x.valid()) invalid_argument("einsum: operand '{}' is not a tensor", text);
  const int letters = static_cast<int>(parse_labels(text, 0).size());
  const bool ellipsis = text.find(kEllipsis) != std::string_view::npos;
  const int rank = x.shape().rank();
  if (ellipsis && rank < 0) invalid_argument("einsum: the rank of operand '{}' must be known", text);
  if (rank >= 0 && (ellipsis ? rank < letters : rank != letters))
    invalid_argument("einsum: operand '{}' cannot be a tensor of shape {}", text, x.shape().to_string());
  return {x, parse_labels(text, ellipsis ? rank - letters : 0)};
}

void check_sizes(const std::vector<Term>& terms) {
  std::map<int, std::int64_t> sizes;
  for (const Term& term : terms)
    for (std::size_t d = 0; d < term.labels.size(); ++d) {
      const int label = term.labels[d];
      const std::int64_t size = DimOf{term.x, static_cast<int>(d)}.known();
      if (size == kUnknown || label >= kEllipsisLabel) continue;
      const auto [found, fresh] = sizes.emplace(label, size);
      if (!fresh && found->second != size)
        invalid_argument("einsum: dimensions '{}' differ: {} and {}", static_cast<char>(label), found->second, size);
    }
}

Labels output_labels(const Equation& equation, const std::vector<Term>& terms) {
  std::map<int, int> counts;
  for (const Term& term : terms)
    for (const int label : term.labels) ++counts[label];
  const auto ellipsis =
      static_cast<int>(std::ranges::count_if(counts, [](const auto& c) { return c.first >= kEllipsisLabel; }));
  if (equation.output) {
    const Labels out = parse_labels(*equation.output, ellipsis);
    if (ellipsis > 0 && equation.output->find(kEllipsis) == std::string::npos)
      invalid_argument("einsum: the result '{}' lacks the '...' of an operand", *equation.output);
    for (const int label : out)
      if (!counts.contains(label) || std::ranges::count(out, label) > 1)
        invalid_argument("einsum: letters of the result '{}' must be those of operands, each once", *equation.output);
    return out;
  }
  Labels out = parse_labels(kEllipsis, ellipsis);
  for (const auto& [label, count] : counts)
    if (count == 1 && label < kEllipsisLabel) out.push_back(label);
  return out;
}

}  // namespace

Output einsum(std::string_view text, const Outputs& operands, Name name) {
  const Equation equation = split_equation(text);
  if (operands.empty() || equation.inputs.size() != operands.size())
    invalid_argument("einsum: '{}' has {} operands, but {} are given", text, equation.inputs.size(), operands.size());
  std::vector<Term> terms;
  for (std::size_t i = 0; i < operands.size(); ++i) terms.push_back(parse_term(equation.inputs[i], operands[i]));
  check_sizes(terms);
  const Labels out = output_labels(equation, terms);
  for (Term& term : terms) term = without_repeats(term);
  Term result = terms[0];
  for (std::size_t i = 1; i < terms.size(); ++i) {
    Labels needed = out;
    for (std::size_t later = i + 1; later < terms.size(); ++later) needed = joined(needed, terms[later].labels);
    result = contract(result, terms[i], needed, out);
  }
  result = summed(result, labels_if(result.labels, [&](int label) { return !has_label(out, label); }));
  const Output ordered = in_order(result, out).x;
  return name.empty() ? ordered : identity(ordered, std::move(name));
}

Output tensordot(Output a, Output b, const Integers& axes_a, const Integers& axes_b, Name name) {
  if (!a.valid() || !b.valid() || !a.shape().has_rank() || !b.shape().has_rank())
    invalid_argument("tensordot: the ranks of both operands must be known");
  const int left = a.shape().rank(), right = b.shape().rank();
  if (axes_a.size() != axes_b.size())
    invalid_argument("tensordot: {} axes of a, but {} of b", axes_a.size(), axes_b.size());
  Term x{a, {}}, y{b, {}};
  for (int d = 0; d < left; ++d) x.labels.push_back(d);
  for (int d = 0; d < right; ++d) y.labels.push_back(left + d);
  Labels order = joined(x.labels, y.labels);
  for (std::size_t i = 0; i < axes_a.size(); ++i) {
    const std::int64_t p = axes_a[i] < 0 ? axes_a[i] + left : axes_a[i];
    const std::int64_t q = axes_b[i] < 0 ? axes_b[i] + right : axes_b[i];
    if (p < 0 || p >= left || q < 0 || q >= right || !has_label(order, static_cast<int>(p)) ||
        !has_label(order, static_cast<int>(left + q)))
      invalid_argument("tensordot: axes {} of {} and {} of {} are out of range or given twice", axes_a[i],
                       a.shape().to_string(), axes_b[i], b.shape().to_string());
    if (const auto m = DimOf{a, static_cast<int>(p)}.known(), n = DimOf{b, static_cast<int>(q)}.known();
        m != kUnknown && n != kUnknown && m != n)
      invalid_argument("tensordot: dimension {} of {} and {} of {} differ", p, a.shape().to_string(), q,
                       b.shape().to_string());
    std::erase(order, static_cast<int>(p));
    std::erase(order, static_cast<int>(left + q));
    y.labels[static_cast<std::size_t>(q)] = static_cast<int>(p);
  }
  const Output out = in_order(contract(x, y, order, order), order).x;
  return name.empty() ? out : identity(out, std::move(name));
}

Output tensordot(Output a, Output b, std::int64_t axes, Name name) {
  if (!a.valid() || !a.shape().has_rank() || axes < 0 || axes > a.shape().rank())
    invalid_argument("tensordot: a must have a known rank of at least {}", axes);
  Integers last, first;
  for (std::int64_t i = 0; i < axes; ++i) {
    last.push_back(a.shape().rank() - axes + i);
    first.push_back(i);
  }
  return tensordot(a, b, last, first, std::move(name));
}

Output outer(Output a, Output b, Name name) {
  const Output column = reshape(a, Shape{kUnknown, 1});
  const Output row = reshape(b, Shape{kUnknown});
  return mul(column, row, std::move(name));
}

Output inner(Output a, Output b, Name name) { return tensordot(a, b, Integers{-1}, Integers{-1}, std::move(name)); }

}  // namespace troupe
