// strided_slice(): TensorFlow's masks as a strided slice along some axes, a squeeze and new dimensions.
#include <algorithm>
#include <limits>

#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/math.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kStart = std::numeric_limits<std::int64_t>::min();

constexpr std::int64_t kMostEntries = 2 * kMaxRank + 1;  // those of dimensions, new dimensions and an ellipsis

bool bit(std::uint64_t mask, std::int64_t i) { return i < 64 && (mask >> i & 1) != 0; }

// A list of integers, some of which are computed while the graph runs.
class MixedIntegers {
 public:
  explicit MixedIntegers(Output x) : x_(x) {}
  void add(std::int64_t number) {
    numbers_.push_back(number);
    tensors_.emplace_back();
  }
  void add(Output one) {  // a vector of one element
    numbers_.push_back(0);
    tensors_.push_back(one);
  }
  IntegersArg list() const {
    if (std::ranges::none_of(tensors_, [](const Output& one) { return one.valid(); })) return numbers_;
    Outputs parts;
    for (std::size_t i = 0; i < numbers_.size(); ++i)
      parts.push_back(tensors_[i].valid() ? tensors_[i] : IntegersArg(numbers_[i]).in(x_));
    return concat(parts, 0);
  }

 private:
  Output x_;
  Integers numbers_;
  Outputs tensors_;
};

// Entry i of an argument, as a number if it is known.
class Entries {
 public:
  Entries(Output x, const IntegersArg& list) : x_(x), list_(list), known_(list.known()) {}
  std::optional<std::int64_t> number(std::int64_t i) const {
    return known_ ? known_->at(static_cast<std::size_t>(i)) : std::nullopt;
  }
  Output tensor(std::int64_t i) {
    if (!all_.valid()) all_ = list_.in(x_);
    return slice(all_, {i}, {1});
  }
  void append_to(MixedIntegers& out, std::int64_t i) {
    if (const auto known = number(i)) return out.add(*known);
    out.add(tensor(i));
  }

 private:
  Output x_;
  const IntegersArg& list_;
  std::optional<std::vector<std::optional<std::int64_t>>> known_;
  Output all_{};
};

// What the entries and their masks amount to.
class MaskedSlice {
 public:
  MaskedSlice(Output x, const IntegersArg& begin, const IntegersArg& end, const IntegersArg& strides,
              const StridedSliceOptions& options)
      : x_(x),
        options_(options),
        given_begin_(x, begin),
        given_end_(x, end),
        given_strides_(x, strides),
        begin_(x),
        end_(x),
        strides_(x) {}

  Output build(std::int64_t count) {
    std::int64_t ellipsis = count;
    for (std::int64_t i = count; i-- > 0;)
      if (bit(options_.ellipsis_mask, i)) ellipsis = i;
    place(0, ellipsis, 0, 0);
    if (ellipsis < count) {
      // Behind an ellipsis, dimensions count from the end.
      std::int64_t read = 0, made = 0;
      for (std::int64_t i = ellipsis + 1; i < count; ++i) {
        const bool fresh = bit(options_.new_axis_mask, i);
        read += fresh ? 0 : 1;
        made += fresh || !bit(options_.shrink_axis_mask, i) ? 1 : 0;
      }
      place(ellipsis + 1, count, -read, -made);
    }
    Output out = x_;
    const bool reshaped = !shrunk_.empty() || !fresh_.empty();
    if (!axes_.empty())
      out = add_op("StridedSlice",
                   {x_, begin_.list().in(x_), end_.list().in(x_), strides_.list().in(x_), IntegersArg(axes_).in(x_)},
                   {}, reshaped ? Name() : options_.name);
    if (!shrunk_.empty()) out = squeeze(out, shrunk_, fresh_.empty() ? options_.name : Name());
    if (!fresh_.empty()) out = expand_dims(out, fresh_, options_.name);
    return axes_.empty() && !reshaped ? identity(out, options_.name) : out;
  }

 private:
  // Entries [from, to): the first reads dimension `axis` of x, and makes dimension `made` of the result.
  void place(std::int64_t from, std::int64_t to, std::int64_t axis, std::int64_t made) {
    for (std::int64_t i = from; i < to; ++i) {
      if (bit(options_.new_axis_mask, i)) {
        fresh_.push_back(made++);
        continue;
      }
      const bool shrink = bit(options_.shrink_axis_mask, i);
      axes_.push_back(axis);
      shrink ? take_one(i) : take_range(i);
      if (shrink)
        shrunk_.push_back(axis);
      else
        ++made;
      ++axis;
    }
  }

  void take_one(std::int64_t i) {
    given_begin_.append_to(begin_, i);
    strides_.add(1);
    const auto first = given_begin_.number(i);
    if (first) return end_.add(*first == -1 ? kEnd : *first + 1);
    // The element after -1 is the end, not element 0.
    const Output at = given_begin_.tensor(i);
    const Output to_end = cast(equal(at, IntegersArg(-1).in(x_)), DType::i64);
    const Output after = at + 1;
    end_.add(after + to_end * IntegersArg(kEnd).in(x_));
  }

  void take_range(std::int64_t i) {
    const auto stride = given_strides_.number(i);
    const bool from_start = bit(options_.begin_mask, i), to_end = bit(options_.end_mask, i);
    if ((from_start || to_end) && !stride)
      fail(Code::unimplemented, "strided_slice: the stride of entry {}, whose begin or end is masked, must be known",
           i);
    if (from_start)
      begin_.add(*stride > 0 ? 0 : kEnd);
    else
      given_begin_.append_to(begin_, i);
    if (to_end)
      end_.add(*stride > 0 ? kEnd : kStart);
    else
      given_end_.append_to(end_, i);
    given_strides_.append_to(strides_, i);
  }

  Output x_;
  const StridedSliceOptions& options_;
  Entries given_begin_, given_end_, given_strides_;
  MixedIntegers begin_, end_, strides_;
  Integers axes_, shrunk_, fresh_;
};

}  // namespace

Output strided_slice(Output x, IntegersArg begin, IntegersArg end, StridedSliceOptions options) {
  std::int64_t count = begin.count();
  if (count == kUnknown) count = end.count();
  if (count == kUnknown && options.axes) count = options.axes->count();
  const std::uint64_t masks =
      options.begin_mask | options.end_mask | options.ellipsis_mask | options.new_axis_mask | options.shrink_axis_mask;
  if (count == kUnknown && !(options.axes && options.strides))
    invalid_argument("strided_slice: the number of begins must be known");
  if (masks != 0 && options.axes) invalid_argument("strided_slice: there are axes, so there must not be masks");
  if (count > kMostEntries)
    invalid_argument("strided_slice: {} begins, but tensors have at most {} dimensions", count, kMaxRank);
  const auto entries = static_cast<std::size_t>(std::max<std::int64_t>(count, 0));
  const IntegersArg strides = options.strides ? *options.strides : IntegersArg(Integers(entries, 1));
  if (masks != 0) return MaskedSlice(x, begin, end, strides, options).build(count);
  Integers all(entries);
  for (std::size_t i = 0; i < entries; ++i) all[i] = static_cast<std::int64_t>(i);
  const IntegersArg axes = options.axes ? *options.axes : IntegersArg(std::move(all));
  return add_op("StridedSlice", {x, begin.in(x), end.in(x), strides.in(x), axes.in(x)}, {}, std::move(options.name));
}

}  // namespace troupe
