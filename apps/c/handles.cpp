#include "apps/c/handles.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <new>

namespace troupe::c {

std::string Argument::text() const {
  std::string out(name);
  if (index >= 0) out += fmt::format("[{}]", index);
  if (!part.empty()) out += fmt::format(".{}", part);
  return out;
}

void refuse(const Argument& argument, std::string_view problem) {
  throw BadArgument(fmt::format("argument '{}' {}", argument.text(), problem));
}

void report(troupe_status* status, const char* function, bool of_argument, Error error) noexcept {
  if (!status || !status->is_whole()) return;
  try {
    status->error = of_argument ? error.within(function) : std::move(error);
  } catch (...) {
    status->error = Error(error.code(), {});  // no memory for the message
  }
}

void copy_options(const void* from, std::size_t size_from, void* to, std::size_t size_to) {
  if (size_from < sizeof(std::size_t)) refuse("options", "has no size: begin with .size = sizeof options");
  const auto* bytes = static_cast<const char*>(from);
  for (std::size_t i = size_to; i < size_from; ++i)
    if (bytes[i] != 0)
      fail(Code::unimplemented, "options have fields that this library, version {}, does not know: load a later one",
           TROUPE_VERSION);
  std::memcpy(to, from, std::min(size_from, size_to));
}

std::string text_of(const char* text, const Argument& argument) { return not_null(text, argument); }

char* new_text(std::string_view text) {
  auto* out = static_cast<char*>(std::malloc(text.size() + 1));
  if (!out) throw std::bad_alloc();
  text.copy(out, text.size());
  out[text.size()] = '\0';
  return out;
}

DType dtype_of_c(troupe_dtype dtype) {
  const auto number = static_cast<int>(dtype);
  const auto out = static_cast<DType>(number);
  if (number < 0 || number > 255 || !is_valid(out)) refuse("dtype", fmt::format("is {}, which is no dtype", number));
  return out;
}

Shape shape_of(const std::int64_t* dims, std::int32_t rank) {
  if (rank == -1) return Shape::unknown_rank();
  if (rank < 0 || rank > kMaxRank) refuse("rank", fmt::format("is {}, but must be -1 to {}", rank, kMaxRank));
  return Shape(array(dims, static_cast<std::size_t>(rank), "dims"));
}

std::int32_t write_shape(const Shape& shape, std::int64_t* dims, std::int32_t capacity) {
  if (!shape.has_rank()) return -1;
  const auto given = array(dims, static_cast<std::size_t>(std::max(capacity, 0)), "dims");
  std::copy_n(shape.dims().begin(), std::min(given.size(), shape.dims().size()), given.begin());
  return shape.rank();
}

std::chrono::nanoseconds seconds(double value, const Argument& argument) {
  if (!(value >= 0 && value <= 1e9)) refuse(argument, fmt::format("is {}, but must be 0 to 1e9 seconds", value));
  return std::chrono::nanoseconds(std::llround(value * 1e9));
}

std::span<troupe_tensor*> cleared(troupe_tensor** results, std::size_t count, const Argument& argument) {
  const auto out = array(results, count, argument);
  std::ranges::fill(out, nullptr);
  return out;
}

RunOptions run_options(const troupe_run_options* options) {
  return {.timeout = seconds(options_of(options).timeout_seconds, "options.timeout_seconds")};
}

void give_tensors(std::vector<Tensor> tensors, troupe_tensor** results) {
  std::vector<std::unique_ptr<troupe_tensor>> made;
  for (Tensor& tensor : tensors) {
    made.push_back(std::make_unique<troupe_tensor>());
    made.back()->tensor = std::move(tensor);
  }
  for (std::size_t i = 0; i < made.size(); ++i) results[i] = made[i].release();
}

std::vector<Tensor> tensors_of(troupe_tensor* const* values, std::size_t count, const Argument& argument) {
  std::vector<Tensor> out;
  for (troupe_tensor* value : array(values, count, argument)) out.push_back(check(value, argument).tensor);
  return out;
}

Output node_of(const troupe_output& output, const Argument& argument) {
  Graph& graph = *check(output.graph, argument.of("graph")).graph;
  if (output.node < 0 || output.node >= graph.size())
    refuse(argument, fmt::format("is of node {}, but the graph has {}", output.node, graph.size()));
  return {&graph, output.node, 0};
}

Output output_of(const troupe_output& output, const Argument& argument) {
  Output out = node_of(output, argument);
  const Node& node = out.graph->node(out.node);
  if (output.index < 0 || static_cast<std::size_t>(output.index) >= node.output_types.size())
    refuse(argument,
           fmt::format("is output {} of '{}', which has {}", output.index, node.name, node.output_types.size()));
  out.index = output.index;
  return out;
}

Outputs outputs_of(const troupe_output* outputs, std::size_t count, const Argument& argument) {
  Outputs out;
  for (const troupe_output& output : array(outputs, count, argument))
    out.push_back(output_of(output, {argument.name, out.size()}));
  return out;
}

Outputs nodes_of(const troupe_output* outputs, std::size_t count, const Argument& argument) {
  Outputs out;
  for (const troupe_output& output : array(outputs, count, argument))
    out.push_back(node_of(output, {argument.name, out.size()}));
  return out;
}

namespace {

// The numbers of the API are ours.
template <class Ours, class Theirs>
constexpr bool same(Ours ours, Theirs theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}
static_assert(same(Code::ok, TROUPE_OK) && same(Code::cancelled, TROUPE_CANCELLED) &&
              same(Code::unknown, TROUPE_UNKNOWN) && same(Code::invalid_argument, TROUPE_INVALID_ARGUMENT) &&
              same(Code::deadline_exceeded, TROUPE_DEADLINE_EXCEEDED) && same(Code::not_found, TROUPE_NOT_FOUND) &&
              same(Code::already_exists, TROUPE_ALREADY_EXISTS) &&
              same(Code::permission_denied, TROUPE_PERMISSION_DENIED) &&
              same(Code::resource_exhausted, TROUPE_RESOURCE_EXHAUSTED) &&
              same(Code::failed_precondition, TROUPE_FAILED_PRECONDITION) && same(Code::aborted, TROUPE_ABORTED) &&
              same(Code::out_of_range, TROUPE_OUT_OF_RANGE) && same(Code::unimplemented, TROUPE_UNIMPLEMENTED) &&
              same(Code::internal, TROUPE_INTERNAL) && same(Code::unavailable, TROUPE_UNAVAILABLE) &&
              same(Code::data_loss, TROUPE_DATA_LOSS) && same(Code::unauthenticated, TROUPE_UNAUTHENTICATED));
static_assert(same(DType::invalid, TROUPE_INVALID) && same(DType::f32, TROUPE_F32) && same(DType::f64, TROUPE_F64) &&
              same(DType::f16, TROUPE_F16) && same(DType::bf16, TROUPE_BF16) && same(DType::i8, TROUPE_I8) &&
              same(DType::u8, TROUPE_U8) && same(DType::i16, TROUPE_I16) && same(DType::i32, TROUPE_I32) &&
              same(DType::i64, TROUPE_I64) && same(DType::boolean, TROUPE_BOOL) && same(DType::string, TROUPE_STRING) &&
              same(DType::resource, TROUPE_RESOURCE) && same(DType::u16, TROUPE_U16) && same(DType::u32, TROUPE_U32) &&
              same(DType::u64, TROUPE_U64) && same(DType::list, TROUPE_LIST));

// Names are views of literals, which end with a zero byte.
const char* literal(std::string_view name) { return name.data(); }

}  // namespace
}  // namespace troupe::c

using namespace troupe::c;  // NOLINT(google-build-using-namespace)

uint32_t troupe_abi_version(void) { return TROUPE_ABI_VERSION; }
const char* troupe_version(void) { return TROUPE_VERSION; }

troupe_status* troupe_status_new(void) { return new (std::nothrow) troupe_status; }
void troupe_status_delete(troupe_status* status) { destroy(status); }
troupe_code troupe_status_code(const troupe_status* status) {
  return status && status->is_whole() ? static_cast<troupe_code>(status->error.code()) : TROUPE_OK;
}
const char* troupe_status_message(const troupe_status* status) {
  return status && status->is_whole() ? status->error.message().c_str() : "";
}
const char* troupe_code_name(troupe_code code) {
  const auto number = static_cast<int>(code);
  return literal(name(static_cast<troupe::Code>(number >= 0 && number <= 255 ? number : 255)));
}
void troupe_text_delete(char* text) { std::free(text); }

const char* troupe_dtype_name(troupe_dtype dtype) {
  const auto number = static_cast<int>(dtype);
  const auto known = static_cast<troupe::DType>(number);
  return number >= 0 && number <= 255 && troupe::is_valid(known) ? literal(name(known)) : "invalid";
}
troupe_dtype troupe_dtype_named(const char* name, troupe_status* status) {
  return guarded(__func__, status, TROUPE_INVALID, [&] {
    const std::string text = text_of(name, "name");
    const auto found = troupe::parse_dtype(text);
    if (!found)
      troupe::invalid_argument("'{}' is no dtype: use f32, f64, f16, bf16, i8 ... i64, u8 ... u64, bool or string",
                               text);
    return static_cast<troupe_dtype>(*found);
  });
}
size_t troupe_dtype_size(troupe_dtype dtype) {
  return dtype == TROUPE_STRING || dtype < 0 || dtype > TROUPE_LIST ? 0 : size_of(static_cast<troupe::DType>(dtype));
}
