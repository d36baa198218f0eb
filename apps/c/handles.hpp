// Shared by the sources of the C API: handles, and what turns exceptions into statuses.
//
// A handle begins with a tag of its type, which its deletion clears: a null, another type and, as far as its memory is
// not used again, a deleted handle are found by check().
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/c/troupe.h"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/core.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::c {

// 'T' 'r' and two letters of the type.
constexpr std::uint64_t tag_of(const char (&letters)[3]) {
  return 0x54720000u | static_cast<std::uint64_t>(letters[0]) << 8 | static_cast<std::uint64_t>(letters[1]);
}

template <std::uint64_t kTag>
class Handle {
 public:
  Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { tag_ = 0; }
  bool is_whole() const { return tag_ == kTag; }

 private:
  volatile std::uint64_t tag_ = kTag;
};

// An argument that cannot be used: guarded() names the function.
struct BadArgument : Error {
  explicit BadArgument(std::string message) : Error(Code::invalid_argument, std::move(message)) {}
};

// The name of an argument, "feeds", or of an element of it, "feeds[1].graph": text only if it is refused.
struct Argument {
  std::string_view name;
  std::ptrdiff_t index = -1;  // of an array
  std::string_view part{};    // of a struct
  Argument(const char* of) : name(of) {}
  Argument(std::string_view of, std::size_t at) : name(of), index(static_cast<std::ptrdiff_t>(at)) {}
  Argument of(std::string_view which) const {
    Argument out = *this;
    out.part = which;
    return out;
  }
  std::string text() const;
};
[[noreturn]] void refuse(const Argument& argument, std::string_view problem);

// The handle, if it is one. Throws BadArgument.
template <class H>
H& check(H* handle, const Argument& argument) {
  if (!handle) refuse(argument, "is null");
  if (!handle->is_whole()) refuse(argument, "is no handle of its type, or was deleted");
  return *handle;
}
template <class H>
void destroy(H* handle) noexcept {
  if (handle && handle->is_whole()) delete handle;
}
template <class T>
T* not_null(T* pointer, const Argument& argument) {
  if (!pointer) refuse(argument, "is null");
  return pointer;
}
// An array that may be null if it is empty.
template <class T>
std::span<T> array(T* begin, std::size_t count, const Argument& argument) {
  if (count > 0 && !begin) refuse(argument, "is null");
  return {begin, count};
}

void report(troupe_status* status, const char* function, bool of_argument, Error error) noexcept;

// Runs the body of a function of the API: no exception leaves it.
template <class Result, class Body>
Result guarded(const char* function, troupe_status* status, Result failed, const Body& body) noexcept {
  try {
    Result result = body();
    report(status, function, false, Error());
    return result;
  } catch (const BadArgument& error) {
    report(status, function, true, error);
  } catch (...) {
    report(status, function, false, current_error());
  }
  return failed;
}
// Of functions that return the code.
template <class Body>
troupe_code guarded(const char* function, troupe_status* status, const Body& body) noexcept {
  Error error;
  bool of_argument = false;
  try {
    body();
  } catch (const BadArgument& bad) {
    error = bad;
    of_argument = true;
  } catch (...) {
    error = current_error();
  }
  const auto code = static_cast<troupe_code>(error.code());
  report(status, function, of_argument, std::move(error));
  return code;
}

// The options that a caller of any version gave: fields that it does not know are zero. Throws BadArgument for a size
// that is none, and unimplemented for fields that this version does not know.
void copy_options(const void* from, std::size_t size_from, void* to, std::size_t size_to);
template <class Options>
Options options_of(const Options* given) {
  Options out{};
  if (given) copy_options(given, given->size, &out, sizeof out);
  return out;
}

std::string text_of(const char* text, const Argument& argument);  // not null
inline std::string text_or_empty(const char* text) { return text ? text : ""; }
char* new_text(std::string_view text);
DType dtype_of_c(troupe_dtype dtype);  // throws BadArgument for a number that is no dtype
Shape shape_of(const std::int64_t* dims, std::int32_t rank);
std::int32_t write_shape(const Shape& shape, std::int64_t* dims, std::int32_t capacity);
std::chrono::nanoseconds seconds(double value, const Argument& argument);

// Where results go: null until they are there.
std::span<troupe_tensor*> cleared(troupe_tensor** results, std::size_t count, const Argument& argument);
RunOptions run_options(const troupe_run_options* options);

// New handles for results, all or none.
void give_tensors(std::vector<Tensor> tensors, troupe_tensor** results);
std::vector<Tensor> tensors_of(troupe_tensor* const* values, std::size_t count, const Argument& argument);

// A tensor or node of a graph handle. Throws BadArgument for one without a graph, node or index.
Output output_of(const troupe_output& output, const Argument& argument);
Output node_of(const troupe_output& output, const Argument& argument);
Outputs outputs_of(const troupe_output* outputs, std::size_t count, const Argument& argument);
Outputs nodes_of(const troupe_output* outputs, std::size_t count, const Argument& argument);

}  // namespace troupe::c

struct troupe_status : troupe::c::Handle<troupe::c::tag_of("st")> {
  troupe::Error error;
};
struct troupe_tensor : troupe::c::Handle<troupe::c::tag_of("te")> {
  troupe::Tensor tensor;
};
struct troupe_attributes : troupe::c::Handle<troupe::c::tag_of("at")> {
  troupe::Attributes attributes;
};
struct troupe_graph : troupe::c::Handle<troupe::c::tag_of("gr")> {
  std::shared_ptr<troupe::Graph> graph;
  std::map<std::string, troupe::Output> named;  // inputs and outputs of a model that was read
};
struct troupe_task : troupe::c::Handle<troupe::c::tag_of("ta")> {
  std::shared_ptr<troupe::Task> task;  // sessions keep it
  std::atomic<bool> interrupted = false;
};
