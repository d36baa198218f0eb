// The C API of Troupe: tensors, graphs, sessions, eager mode, models, training and clusters for programs in C, and for
// languages that call C. The guide, with programs, is docs/guide/c-api.md.
//
//   troupe_status* status = troupe_status_new();
//   troupe_graph* graph = troupe_graph_new(status);
//   troupe_output x = troupe_graph_placeholder(graph, TROUPE_F32, (int64_t[]){-1, 3}, 2, "x", status);
//   troupe_output y = troupe_graph_op(graph, "Relu", &x, 1, NULL, NULL, status);
//   troupe_session* session = troupe_session_new(graph, NULL, NULL, status);
//   troupe_session_run(session, NULL, &x, &value, 1, &y, &result, 1, NULL, 0, status);
//
// Errors. The last argument of most functions is a status. A call sets it to TROUPE_OK, or to a code and a message that
// says what is wrong, where, and what to do. It then returns NULL, false, 0 or what its comment says; functions without
// another result return the code. A null status is allowed: the message is lost. No C++ exception leaves a function. A
// null argument where none is allowed, and a handle of another type, are TROUPE_INVALID_ARGUMENT.
//
// Ownership. Every handle has a function that deletes it, which accepts NULL; call it once. Handles may be deleted in
// any order: a session keeps its graph and its task, a tensor its memory. A troupe_output is a value, not a handle, and
// ends with its graph. Arguments are read before a call returns, and not kept, unless the function says so. A `char*`
// result is freed by troupe_text_delete(); a `const char*` result belongs to the handle that it was asked of.
//
// Shapes are `rank` dimensions. -1 is a dimension that is not known yet; a rank of -1 is a rank that is not known. Only
// tensors of a graph may have such shapes. At most 8 dimensions. Elements are in row-major order without gaps.
//
// Threads. "Threads: any." - any threads may call the function at any time, also for the same handles. "Threads: one
// per graph." - calls for the same graph must not overlap. Never use a handle while another thread deletes it.
//
// Options are structs whose first field is their size, so that they can grow; null, or fields of zero, are the
// defaults:
//
//   troupe_session_options options = {.size = sizeof options, .seed = 7};
#ifndef TROUPE_H_
#define TROUPE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TROUPE_API __attribute__((visibility("default")))

// ---------------------------------------------------------------- Versions

// The version of this header. A library of the same major version, with the same or a later minor one, has all that is
// in this header, with the same meaning: libtroupe.so.MAJOR.
#define TROUPE_ABI_MAJOR 0
#define TROUPE_ABI_MINOR 1
#define TROUPE_ABI_VERSION (TROUPE_ABI_MAJOR << 16 | TROUPE_ABI_MINOR)

// TROUPE_ABI_VERSION of the library that is loaded. Threads: any.
TROUPE_API uint32_t troupe_abi_version(void);

// Of Troupe: "0.1.0". Lives as long as the library. Threads: any.
TROUPE_API const char* troupe_version(void);

// ---------------------------------------------------------------- Status

// The codes of gRPC, with its numbers.
typedef enum troupe_code {
  TROUPE_OK = 0,
  TROUPE_CANCELLED = 1,
  TROUPE_UNKNOWN = 2,
  TROUPE_INVALID_ARGUMENT = 3,
  TROUPE_DEADLINE_EXCEEDED = 4,
  TROUPE_NOT_FOUND = 5,
  TROUPE_ALREADY_EXISTS = 6,
  TROUPE_PERMISSION_DENIED = 7,
  TROUPE_RESOURCE_EXHAUSTED = 8,
  TROUPE_FAILED_PRECONDITION = 9,
  TROUPE_ABORTED = 10,
  TROUPE_OUT_OF_RANGE = 11,
  TROUPE_UNIMPLEMENTED = 12,
  TROUPE_INTERNAL = 13,
  TROUPE_UNAVAILABLE = 14,
  TROUPE_DATA_LOSS = 15,
  TROUPE_UNAUTHENTICATED = 16
} troupe_code;

typedef struct troupe_status troupe_status;

// TROUPE_OK. Null if there is no memory. Threads: any.
TROUPE_API troupe_status* troupe_status_new(void);

// Threads: one per status.
TROUPE_API void troupe_status_delete(troupe_status* status);

// Of the last call that had this status. Null: TROUPE_OK. Threads: one per status.
TROUPE_API troupe_code troupe_status_code(const troupe_status* status);

// UTF-8, "" for TROUPE_OK; valid until the next call that has this status. Threads: one per status.
TROUPE_API const char* troupe_status_message(const troupe_status* status);

// "invalid_argument"; "unknown" for numbers that are no code. Lives as long as the library. Threads: any.
TROUPE_API const char* troupe_code_name(troupe_code code);

// Frees a text that a function returned as `char*`. Threads: any.
TROUPE_API void troupe_text_delete(char* text);

// ---------------------------------------------------------------- Dtypes

// Types of elements. Those of graphs that no tensor of this API has: TROUPE_RESOURCE (a variable), TROUPE_LIST.
typedef enum troupe_dtype {
  TROUPE_INVALID = 0,
  TROUPE_F32 = 1,
  TROUPE_F64 = 2,
  TROUPE_F16 = 3,   // IEEE 754 binary16, as uint16_t
  TROUPE_BF16 = 4,  // the upper half of a float, as uint16_t
  TROUPE_I8 = 5,
  TROUPE_U8 = 6,
  TROUPE_I16 = 7,
  TROUPE_I32 = 8,
  TROUPE_I64 = 9,
  TROUPE_BOOL = 10,  // a byte, 0 or 1
  TROUPE_STRING = 11,
  TROUPE_RESOURCE = 12,
  TROUPE_U16 = 13,
  TROUPE_U32 = 14,
  TROUPE_U64 = 15,
  TROUPE_LIST = 16
} troupe_dtype;

// "f32"; "invalid" for numbers that are no dtype. Lives as long as the library. Threads: any.
TROUPE_API const char* troupe_dtype_name(troupe_dtype dtype);

// Of a name: "f32", "bool". TROUPE_INVALID and TROUPE_INVALID_ARGUMENT for other text. Threads: any.
TROUPE_API troupe_dtype troupe_dtype_named(const char* name, troupe_status* status);

// Bytes of an element; 0 for TROUPE_STRING and those without elements. Threads: any.
TROUPE_API size_t troupe_dtype_size(troupe_dtype dtype);

// ---------------------------------------------------------------- Tensors

// A value: dtype, shape and memory, which handles, graphs and steps share.
typedef struct troupe_tensor troupe_tensor;

// Allocates memory, not initialised (strings are empty): write to troupe_tensor_mutable_data(). TROUPE_INVALID_ARGUMENT
// for dimensions that are not known, TROUPE_RESOURCE_EXHAUSTED without memory. Threads: any.
TROUPE_API troupe_tensor* troupe_tensor_new(troupe_dtype dtype, const int64_t* dims, int32_t rank,
                                            troupe_status* status);

// Called once, on any thread, when nothing uses the memory any more.
typedef void (*troupe_deleter)(void* data, void* argument);

// A tensor in the caller's memory of `bytes` bytes, without a copy. The memory must be aligned to its elements and stay
// as it is until `deleter` (null: none) is called with `data` and `argument`; nothing writes to it. If the call fails,
// the deleter is not called. TROUPE_INVALID_ARGUMENT for strings, and unless `bytes` are those of the shape.
// Threads: any.
TROUPE_API troupe_tensor* troupe_tensor_from_memory(troupe_dtype dtype, const int64_t* dims, int32_t rank, void* data,
                                                    size_t bytes, troupe_deleter deleter, void* argument,
                                                    troupe_status* status);

// A copy of `bytes` bytes. TROUPE_INVALID_ARGUMENT as above. Threads: any.
TROUPE_API troupe_tensor* troupe_tensor_from_copy(troupe_dtype dtype, const int64_t* dims, int32_t rank,
                                                  const void* data, size_t bytes, troupe_status* status);

// A tensor of strings, copied. `lengths` in bytes; null: they end with a zero byte. Threads: any.
TROUPE_API troupe_tensor* troupe_tensor_from_strings(const int64_t* dims, int32_t rank, const char* const* strings,
                                                     const size_t* lengths, troupe_status* status);

// Another handle of the same memory. Threads: any.
TROUPE_API troupe_tensor* troupe_tensor_share(const troupe_tensor* tensor, troupe_status* status);

// The same memory with another shape of as many elements. Threads: any.
TROUPE_API troupe_tensor* troupe_tensor_reshape(const troupe_tensor* tensor, const int64_t* dims, int32_t rank,
                                                troupe_status* status);

// Frees the memory with its last handle. Threads: one per tensor.
TROUPE_API void troupe_tensor_delete(troupe_tensor* tensor);

// The dtype; the number of dimensions; dimension `axis` (negative: from the end; -1 if there is none); elements; bytes
// (0 for strings). Of null: TROUPE_INVALID, -1, -1, 0 and 0. Threads: any.
TROUPE_API troupe_dtype troupe_tensor_dtype(const troupe_tensor* tensor);
TROUPE_API int32_t troupe_tensor_rank(const troupe_tensor* tensor);
TROUPE_API int64_t troupe_tensor_dim(const troupe_tensor* tensor, int32_t axis);
TROUPE_API int64_t troupe_tensor_num_elements(const troupe_tensor* tensor);
TROUPE_API size_t troupe_tensor_num_bytes(const troupe_tensor* tensor);

// The elements, to be read; valid as long as the handle. May be null without elements. TROUPE_INVALID_ARGUMENT for
// strings. Threads: any.
TROUPE_API const void* troupe_tensor_data(const troupe_tensor* tensor, troupe_status* status);

// The elements, to be written. TROUPE_FAILED_PRECONDITION if anything else uses the memory: another handle, a graph, a
// variable, the caller (troupe_tensor_from_memory). Threads: one per tensor.
TROUPE_API void* troupe_tensor_mutable_data(troupe_tensor* tensor, troupe_status* status);

// String `index` in row-major order, which may have zero bytes within and has one behind; `length` (may be null) gets
// its bytes. Valid as long as the handle. TROUPE_OUT_OF_RANGE without such an index. Threads: any.
TROUPE_API const char* troupe_tensor_string(const troupe_tensor* tensor, int64_t index, size_t* length,
                                            troupe_status* status);

// "f32[2,3] = 1 2 3 4 5 6", with at most `limit` elements. Threads: any.
TROUPE_API char* troupe_tensor_to_text(const troupe_tensor* tensor, int32_t limit, troupe_status* status);

// ---------------------------------------------------------------- Attributes

// Values by name that an op takes when it is added or called: troupe_op_signature() tells their names and types. The
// setters copy what they are given, except tensors, whose memory is shared: do not write to it any more.
typedef struct troupe_attributes troupe_attributes;

// Threads: any.
TROUPE_API troupe_attributes* troupe_attributes_new(troupe_status* status);

// Threads: one per attributes.
TROUPE_API void troupe_attributes_delete(troupe_attributes* attributes);

// Types i64, real (f64), boolean and string. Threads: one per attributes.
TROUPE_API troupe_code troupe_attributes_set_int(troupe_attributes* attributes, const char* name, int64_t value,
                                                 troupe_status* status);
TROUPE_API troupe_code troupe_attributes_set_real(troupe_attributes* attributes, const char* name, double value,
                                                  troupe_status* status);
TROUPE_API troupe_code troupe_attributes_set_bool(troupe_attributes* attributes, const char* name, bool value,
                                                  troupe_status* status);
TROUPE_API troupe_code troupe_attributes_set_string(troupe_attributes* attributes, const char* name, const char* value,
                                                    size_t length, troupe_status* status);

// Types dtype, shape (which may be partly unknown), tensor, and function: its name. Threads: one per attributes.
TROUPE_API troupe_code troupe_attributes_set_dtype(troupe_attributes* attributes, const char* name, troupe_dtype value,
                                                   troupe_status* status);
TROUPE_API troupe_code troupe_attributes_set_shape(troupe_attributes* attributes, const char* name, const int64_t* dims,
                                                   int32_t rank, troupe_status* status);
TROUPE_API troupe_code troupe_attributes_set_tensor(troupe_attributes* attributes, const char* name,
                                                    const troupe_tensor* value, troupe_status* status);
TROUPE_API troupe_code troupe_attributes_set_function(troupe_attributes* attributes, const char* name,
                                                      const char* value, troupe_status* status);

// Lists of `count` values; strings end with a zero byte. Threads: one per attributes.
TROUPE_API troupe_code troupe_attributes_set_ints(troupe_attributes* attributes, const char* name,
                                                  const int64_t* values, size_t count, troupe_status* status);
TROUPE_API troupe_code troupe_attributes_set_reals(troupe_attributes* attributes, const char* name,
                                                   const double* values, size_t count, troupe_status* status);
TROUPE_API troupe_code troupe_attributes_set_strings(troupe_attributes* attributes, const char* name,
                                                     const char* const* values, size_t count, troupe_status* status);
TROUPE_API troupe_code troupe_attributes_set_dtypes(troupe_attributes* attributes, const char* name,
                                                    const troupe_dtype* values, size_t count, troupe_status* status);

// ---------------------------------------------------------------- Ops

// The ops that graphs and eager mode have (docs/reference/ops.md), in alphabetical order: their number, and the name of
// each, which lives as long as the library (null beyond the last). Threads: any.
TROUPE_API size_t troupe_num_ops(void);
TROUPE_API const char* troupe_op_name(size_t index);

// "CumSum(x: T, axis: i64) -> (y: T), reverse: boolean = false, exclusive: boolean = false": inputs, outputs, and
// attributes with types and defaults. TROUPE_NOT_FOUND, with similar names, for no op. Threads: any.
TROUPE_API char* troupe_op_signature(const char* op, troupe_status* status);

// ---------------------------------------------------------------- Graphs

// Nodes, joined by tensors. Nodes are checked when they are added, and never removed.
typedef struct troupe_graph troupe_graph;

// A tensor of a graph: output `index` of a node. Also names the node itself, where an order of nodes is meant. After an
// error `graph` is null. Valid as long as the graph's handle.
typedef struct troupe_output {
  troupe_graph* graph;
  int32_t node;
  int32_t index;
} troupe_output;

// An empty graph. Threads: any.
TROUPE_API troupe_graph* troupe_graph_new(troupe_status* status);

// Reads a graph from text (the format of troupe_graph_to_text; `length` in bytes). Nothing is trusted. Threads: any.
TROUPE_API troupe_graph* troupe_graph_from_text(const char* text, size_t length, troupe_status* status);

// Reads an ONNX model; weights become constants. troupe_graph_output() finds its inputs and outputs by the model's
// names. TROUPE_UNIMPLEMENTED lists every op that is not known. Threads: any.
TROUPE_API troupe_graph* troupe_graph_from_onnx(const char* path, troupe_status* status);

// Sessions keep what they need of the graph; its outputs must not be used any more. Threads: one per graph.
TROUPE_API void troupe_graph_delete(troupe_graph* graph);

// The graph as text, one line for each node, which troupe_graph_from_text() reads back. Threads: one per graph.
TROUPE_API char* troupe_graph_to_text(const troupe_graph* graph, troupe_status* status);

// Its number of nodes; 0 for null. Threads: one per graph.
TROUPE_API int32_t troupe_graph_num_nodes(const troupe_graph* graph);

// A value to be fed. `name` may be null. Threads: one per graph.
TROUPE_API troupe_output troupe_graph_placeholder(troupe_graph* graph, troupe_dtype dtype, const int64_t* dims,
                                                  int32_t rank, const char* name, troupe_status* status);

// A constant, which shares the tensor's memory: do not write to it any more. `name` may be null. Threads: one per
// graph.
TROUPE_API troupe_output troupe_graph_constant(troupe_graph* graph, const troupe_tensor* value, const char* name,
                                               troupe_status* status);

// Of a node that is added.
typedef struct troupe_node_options {
  size_t size;
  const char* name;               // null: made of the op's
  const char* device;             // "/job:worker/task:1/device:CPU:0", or a part of it; null: any
  const troupe_output* controls;  // nodes that run before this one
  size_t num_controls;
} troupe_node_options;

// Adds a node of any op, and returns its first output; the others have the next indices. `attributes` and `options` may
// be null. A node without outputs is returned with index 0, to be a control or a target. Errors name op and node.
// Threads: one per graph.
TROUPE_API troupe_output troupe_graph_op(troupe_graph* graph, const char* op, const troupe_output* inputs,
                                         size_t num_inputs, const troupe_attributes* attributes,
                                         const troupe_node_options* options, troupe_status* status);

// By name: "node" or "node:1". Threads: one per graph.
TROUPE_API troupe_output troupe_graph_output(troupe_graph* graph, const char* name, troupe_status* status);

// The number of outputs of its node, -1 after an error. Threads: one per graph.
TROUPE_API int32_t troupe_output_count(troupe_output output, troupe_status* status);

// "node" or "node:1". Threads: one per graph.
TROUPE_API char* troupe_output_name(troupe_output output, troupe_status* status);

// Threads: one per graph.
TROUPE_API troupe_dtype troupe_output_dtype(troupe_output output, troupe_status* status);

// Writes as many dimensions as `capacity` allows (-1: not known) and returns the rank; -1 if it is not known, -2 after
// an error. Threads: one per graph.
TROUPE_API int32_t troupe_output_shape(troupe_output output, int64_t* dims, int32_t capacity, troupe_status* status);

// ---------------------------------------------------------------- Variables and gradients of graphs

// Adds a variable with an initial value, and returns its handle, an output of dtype TROUPE_RESOURCE: with its name
// (made unique), it is what the functions below take. Threads: one per graph.
TROUPE_API troupe_output troupe_graph_variable(troupe_graph* graph, const char* name, troupe_output initial_value,
                                               bool trainable, troupe_status* status);

// Its value at any time of the step. Threads: one per graph.
TROUPE_API troupe_output troupe_variable_read(troupe_output variable, troupe_status* status);

// Adds a node that sets the variable, or adds to it, and gives the new value. Threads: one per graph.
TROUPE_API troupe_output troupe_variable_assign(troupe_output variable, troupe_output value, troupe_status* status);
TROUPE_API troupe_output troupe_variable_assign_add(troupe_output variable, troupe_output value, troupe_status* status);

// The variables of a graph by name, in alphabetical order: their number (-1 after an error), and the handle of one.
// Threads: one per graph.
TROUPE_API int32_t troupe_graph_num_variables(troupe_graph* graph, troupe_status* status);
TROUPE_API troupe_output troupe_graph_variable_at(troupe_graph* graph, int32_t index, troupe_status* status);

// A node that gives their initial values to all variables that exist now: run it as a target. Threads: one per graph.
//
TROUPE_API troupe_output troupe_graph_initializer(troupe_graph* graph, troupe_status* status);

// The gradient of the sum of `ys` for each of `xs`, into `gradients`, of which the graph is null where no y depends on
// the x. `grad_ys`: gradients of the ys; null: ones. TROUPE_UNIMPLEMENTED names a node that has no gradient.
// Threads: one per graph.
TROUPE_API troupe_code troupe_graph_gradients(const troupe_output* ys, size_t num_ys, const troupe_output* xs,
                                              size_t num_xs, const troupe_output* grad_ys, troupe_output* gradients,
                                              troupe_status* status);

// Adds gradients and updates of all trainable variables, and returns the node that makes them: a target of each step.
// `optimizer`: "adam", "sgd(learning_rate=0.1)" (graph/optimizers/optimizer_options.hpp). Add it before the
// initializer: it adds variables. Threads: one per graph.
TROUPE_API troupe_output troupe_graph_minimize(troupe_output loss, const char* optimizer, troupe_status* status);

// ---------------------------------------------------------------- Sessions

// A process's part in a cluster, or a runtime by itself: see "Tasks" below.
typedef struct troupe_task troupe_task;

// Runs a graph, and keeps its variables.
typedef struct troupe_session troupe_session;

typedef struct troupe_session_options {
  size_t size;
  uint64_t seed;           // of random ops
  double timeout_seconds;  // of steps; 0: none
  troupe_dtype precision;  // of products: TROUPE_BF16 or TROUPE_F16; TROUPE_INVALID: that of the graph
  bool check_numerics;     // fails a step at the first node that makes a NaN or an infinity
  bool inference;          // the graph only predicts: passes that change bits make it faster
  const char* container;   // sessions of a cluster with the same one share variables; null: none
} troupe_session_options;

// `task`: where it runs, with the devices of its cluster; null: a task of its own, with one CPU device. `options` may
// be null. Threads: one per graph.
TROUPE_API troupe_session* troupe_session_new(troupe_graph* graph, troupe_task* task,
                                              const troupe_session_options* options, troupe_status* status);

// Cancels what runs, and frees variables. Threads: one per session.
TROUPE_API void troupe_session_delete(troupe_session* session);

// Ends the session on all tasks: calls that run fail with TROUPE_CANCELLED or TROUPE_FAILED_PRECONDITION. May be called
// twice. Threads: any.
TROUPE_API troupe_code troupe_session_close(troupe_session* session, troupe_status* status);

// Adopts the nodes that were added to the graph since. Threads: one per session and graph.
TROUPE_API troupe_code troupe_session_extend(troupe_session* session, troupe_status* status);

typedef struct troupe_run_options {
  size_t size;
  double timeout_seconds;  // 0: the session's
} troupe_run_options;

// Runs one step: feeds any tensors, and writes a new handle for each fetch to `results`; targets run without a result.
// Feeds share their memory until the step ends. If it fails, `results` are null. The first run of the same feeds,
// fetches and targets compiles them. Threads: any.
TROUPE_API troupe_code troupe_session_run(troupe_session* session, const troupe_run_options* options,
                                          const troupe_output* feeds, troupe_tensor* const* values, size_t num_feeds,
                                          const troupe_output* fetches, troupe_tensor** results, size_t num_fetches,
                                          const troupe_output* targets, size_t num_targets, troupe_status* status);

// How a call is compiled and run: passes, devices, plans. Threads: any.
TROUPE_API char* troupe_session_explain(troupe_session* session, const troupe_output* feeds, size_t num_feeds,
                                        const troupe_output* fetches, size_t num_fetches, const troupe_output* targets,
                                        size_t num_targets, troupe_status* status);

// A compiled call: faster than troupe_session_run(), which looks it up.
typedef struct troupe_callable troupe_callable;

// Threads: any.
TROUPE_API troupe_callable* troupe_callable_new(troupe_session* session, const troupe_output* feeds, size_t num_feeds,
                                                const troupe_output* fetches, size_t num_fetches,
                                                const troupe_output* targets, size_t num_targets,
                                                troupe_status* status);

// Threads: one per callable.
TROUPE_API void troupe_callable_delete(troupe_callable* callable);

// As troupe_session_run(), by position: as many values and results as it has feeds and fetches. Threads: any.
TROUPE_API troupe_code troupe_callable_run(troupe_callable* callable, const troupe_run_options* options,
                                           troupe_tensor* const* values, size_t num_values, troupe_tensor** results,
                                           size_t num_results, troupe_status* status);

// MORE
#ifdef __cplusplus
}
#endif

#endif  // TROUPE_H_
