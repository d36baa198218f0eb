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
// per graph." - calls for the same graph must not overlap, nor with calls that take its outputs. Never use a handle
// while another thread deletes it. After fork() only the parent may call the library.
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
#define TROUPE_ABI_MINOR 2
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
// strings and lists. Threads: any.
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

// Values of the types integer, real, boolean and string. Threads: one per attributes.
TROUPE_API troupe_code troupe_attributes_set_int(troupe_attributes* attributes, const char* name, int64_t value,
                                                 troupe_status* status);
TROUPE_API troupe_code troupe_attributes_set_real(troupe_attributes* attributes, const char* name, double value,
                                                  troupe_status* status);
TROUPE_API troupe_code troupe_attributes_set_bool(troupe_attributes* attributes, const char* name, bool value,
                                                  troupe_status* status);
TROUPE_API troupe_code troupe_attributes_set_string(troupe_attributes* attributes, const char* name, const char* value,
                                                    size_t length, troupe_status* status);

// Of the types dtype, shape (which may be partly unknown), tensor, and function: its name. Threads: one per attributes.
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

// Loads a shared library of ops (docs/guide/op-libraries.md) into this process, for good: graphs and eager mode have
// its ops, which troupe_op_name() does not list. The same file again changes nothing. TROUPE_NOT_FOUND if there is no
// such file, TROUPE_INVALID_ARGUMENT if it is no library of ops, TROUPE_FAILED_PRECONDITION if it was built for another
// Troupe, TROUPE_ALREADY_EXISTS if one of its names is taken. Threads: any.
TROUPE_API troupe_code troupe_load_op_library(const char* path, troupe_status* status);

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

typedef struct troupe_variable_options {
  size_t size;
  const char* device;  // where it lives; null: any. In eager mode that of troupe_eager_options
  bool not_trainable;  // optimizers and tapes leave it out
} troupe_variable_options;

// Adds a variable with an initial value, and returns its handle, an output of dtype TROUPE_RESOURCE: with its name
// (made unique), it is what the functions below take. `options` may be null. Threads: one per graph.
TROUPE_API troupe_output troupe_graph_variable(troupe_graph* graph, const char* name, troupe_output initial_value,
                                               const troupe_variable_options* options, troupe_status* status);

// Its value at any time of the step. Threads: one per graph.
TROUPE_API troupe_output troupe_variable_read(troupe_output variable, troupe_status* status);

// Adds a node that sets the variable, or adds to it, and gives the new value. Threads: one per graph.
TROUPE_API troupe_output troupe_variable_assign(troupe_output variable, troupe_output value, troupe_status* status);
TROUPE_API troupe_output troupe_variable_assign_add(troupe_output variable, troupe_output value, troupe_status* status);

// The variables of a graph by name, in alphabetical order: their number (-1 after an error), and the handle of one.
// Threads: one per graph.
TROUPE_API int32_t troupe_graph_num_variables(troupe_graph* graph, troupe_status* status);
TROUPE_API troupe_output troupe_graph_variable_at(troupe_graph* graph, int32_t index, troupe_status* status);

// A node that gives their initial values to all variables that exist now: run it as a target. The second: only to those
// that have none yet, for variables that several clients share (troupe_session_options.container). Threads: one per
// graph.
TROUPE_API troupe_output troupe_graph_initializer(troupe_graph* graph, troupe_status* status);
TROUPE_API troupe_output troupe_graph_initialize_once(troupe_graph* graph, troupe_status* status);

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

// ---------------------------------------------------------------- Eager mode

// Ops run when they are called, with the kernels and gradients of graphs.
typedef struct troupe_eager troupe_eager;

// A tensor or a variable of eager mode. Keeps what it needs: handles may be deleted in any order.
typedef struct troupe_value troupe_value;

typedef struct troupe_eager_options {
  size_t size;
  uint64_t seed;       // of random ops
  const char* device;  // of ops that name none; null: the task's first CPU
} troupe_eager_options;

// `task`: where ops run; null: a task of its own. `options` may be null. Threads: any.
TROUPE_API troupe_eager* troupe_eager_new(troupe_task* task, const troupe_eager_options* options,
                                          troupe_status* status);

// Threads: one per eager.
TROUPE_API void troupe_eager_delete(troupe_eager* eager);

// Random ops begin again, as after troupe_eager_new() with this seed. Threads: any.
TROUPE_API troupe_code troupe_eager_set_seed(troupe_eager* eager, uint64_t seed, troupe_status* status);

// A value that shares the tensor's memory: do not write to it any more. Threads: any.
TROUPE_API troupe_value* troupe_eager_constant(troupe_eager* eager, const troupe_tensor* tensor, troupe_status* status);

// Runs any op, and returns the number of its outputs, -1 after an error: writes as many new handles as `capacity`
// allows, and null to the others. `attributes` and `options` may be null; nothing is controlled here. Errors name the
// op and its inputs. Threads: any.
TROUPE_API int32_t troupe_eager_op(troupe_eager* eager, const char* op, troupe_value* const* inputs, size_t num_inputs,
                                   const troupe_attributes* attributes, const troupe_node_options* options,
                                   troupe_value** outputs, int32_t capacity, troupe_status* status);

// A variable with a copy of the tensor as its value; it ends with its last handle. `options` may be null. Threads: any.
TROUPE_API troupe_value* troupe_eager_variable(troupe_eager* eager, const char* name,
                                               const troupe_tensor* initial_value,
                                               const troupe_variable_options* options, troupe_status* status);

// The value that a variable has now. Threads: any.
TROUPE_API troupe_value* troupe_value_read(troupe_value* variable, troupe_status* status);

// Set a variable, or add to it. Values that were read stay as they were. Threads: any.
TROUPE_API troupe_code troupe_value_assign(troupe_value* variable, const troupe_value* value, troupe_status* status);
TROUPE_API troupe_code troupe_value_assign_add(troupe_value* variable, const troupe_value* value,
                                               troupe_status* status);

// The tensor, which shares the value's memory. TROUPE_FAILED_PRECONDITION for a variable: read it. Threads: any.
TROUPE_API troupe_tensor* troupe_value_tensor(const troupe_value* value, troupe_status* status);

// Another handle of the same value or variable. Threads: any.
TROUPE_API troupe_value* troupe_value_share(const troupe_value* value, troupe_status* status);

// Threads: one per value.
TROUPE_API void troupe_value_delete(troupe_value* value);

// Records the ops that its thread runs, from its beginning to its deletion, as far as they depend on trainable
// variables and on values that it watches. Only the thread that has made it may use it; tapes may lie within each
// other.
typedef struct troupe_tape troupe_tape;

// `persistent`: troupe_tape_gradients() may be called again; else the first call frees what was recorded. Threads: any.
TROUPE_API troupe_tape* troupe_tape_new(troupe_eager* eager, bool persistent, troupe_status* status);

// Watches a floating value, or a variable that is not trainable. Threads: the tape's own.
TROUPE_API troupe_code troupe_tape_watch(troupe_tape* tape, const troupe_value* value, troupe_status* status);

// Records no more. Threads: the tape's own.
TROUPE_API troupe_code troupe_tape_stop(troupe_tape* tape, troupe_status* status);

// The gradient of the sum of `ys` for each of `xs`, values or variables: new handles in `gradients`, null where no y
// depends on the x. `grad_ys`: gradients of the ys; null: ones. TROUPE_FAILED_PRECONDITION in a second call unless
// persistent, and on another thread. Threads: the tape's own.
TROUPE_API troupe_code troupe_tape_gradients(troupe_tape* tape, troupe_value* const* ys, size_t num_ys,
                                             troupe_value* const* xs, size_t num_xs, troupe_value* const* grad_ys,
                                             troupe_value** gradients, troupe_status* status);

// Before a tape within it, or on another thread: freed later, by the tape's thread, at whose end its tapes end, too.
// Threads: one per tape.
TROUPE_API void troupe_tape_delete(troupe_tape* tape);

// Updates variables by gradients, and keeps what it needs from one update to the next.
typedef struct troupe_optimizer troupe_optimizer;

// "adam", "sgd(learning_rate=0.1)", as troupe_graph_minimize(). Threads: any.
TROUPE_API troupe_optimizer* troupe_optimizer_new(const char* optimizer, troupe_status* status);

// Threads: one per optimizer.
TROUPE_API void troupe_optimizer_delete(troupe_optimizer* optimizer);

// One update of `count` variables. Threads: one per optimizer.
TROUPE_API troupe_code troupe_optimizer_apply(troupe_optimizer* optimizer, troupe_value* const* gradients,
                                              troupe_value* const* variables, size_t count, troupe_status* status);

// ---------------------------------------------------------------- Models that were saved

// A model as functions: signatures, which take and return tensors by name.
typedef struct troupe_loaded_model troupe_loaded_model;
typedef struct troupe_signature troupe_signature;

typedef struct troupe_load_options {
  size_t size;
  bool exact;   // without passes that change bits
  bool verify;  // reads and hashes each byte of the values; else those that are mapped are read when they are used
} troupe_load_options;

// Reads a model: a directory that Troupe or TensorFlow saved, or a file of ONNX. `task`: where it runs; null: a task of
// its own. `options` may be null. TROUPE_NOT_FOUND, TROUPE_DATA_LOSS and TROUPE_UNIMPLEMENTED name the file and the
// ops. Threads: any.
TROUPE_API troupe_loaded_model* troupe_loaded_model_new(const char* path, troupe_task* task,
                                                        const troupe_load_options* options, troupe_status* status);

// Its signatures keep it. Threads: one per model.
TROUPE_API void troupe_loaded_model_delete(troupe_loaded_model* model);

// "troupe", "tensorflow" or "onnx"; and who wrote it, "" if that is not known. Threads: any.
TROUPE_API const char* troupe_loaded_model_format(const troupe_loaded_model* model);
TROUPE_API const char* troupe_loaded_model_producer(const troupe_loaded_model* model);

// The signatures in alphabetical order: their number, and the name of one, null beyond the last. Threads: any.
TROUPE_API int32_t troupe_loaded_model_num_signatures(const troupe_loaded_model* model);
TROUPE_API const char* troupe_loaded_model_signature_name(const troupe_loaded_model* model, int32_t index);

// `name`: null for the only one, "predict" or "serving_default". TROUPE_NOT_FOUND lists those that there are. Threads:
// any.
TROUPE_API troupe_signature* troupe_loaded_model_signature(const troupe_loaded_model* model, const char* name,
                                                           troupe_status* status);

// Threads: one per signature.
TROUPE_API void troupe_signature_delete(troupe_signature* signature);

// What a signature takes or returns. Set `size` to sizeof(troupe_tensor_spec) before the call; texts belong to the
// signature.
typedef struct troupe_tensor_spec {
  size_t size;
  const char* name;
  const char* description;  // for people; may be ""
  troupe_dtype dtype;
  int32_t rank;     // -1: not known
  int64_t dims[8];  // -1: not known
} troupe_tensor_spec;

// Inputs and outputs, each in alphabetical order: numbers, and one of them. TROUPE_OUT_OF_RANGE beyond the last.
// Threads: any.
TROUPE_API int32_t troupe_signature_num_inputs(const troupe_signature* signature);
TROUPE_API int32_t troupe_signature_num_outputs(const troupe_signature* signature);
TROUPE_API troupe_code troupe_signature_input(const troupe_signature* signature, int32_t index,
                                              troupe_tensor_spec* spec, troupe_status* status);
TROUPE_API troupe_code troupe_signature_output(const troupe_signature* signature, int32_t index,
                                               troupe_tensor_spec* spec, troupe_status* status);

// Calls it: all inputs in their order, a new handle for each output. Errors say what is expected. Threads: any.
TROUPE_API troupe_code troupe_signature_run(const troupe_signature* signature, const troupe_run_options* options,
                                            troupe_tensor* const* inputs, size_t num_inputs, troupe_tensor** outputs,
                                            size_t num_outputs, troupe_status* status);

// ---------------------------------------------------------------- Tasks

typedef struct troupe_task_options {
  size_t size;
  int32_t cpu_devices;    // 0: 1
  int32_t threads;        // of each CPU device; 0: a share of the cores
  int32_t num_gpus;       // 0: all there are; -1: none
  uint64_t memory_limit;  // bytes of tensors per device; 0: none
  const char* cluster;    // path of a cluster file (docs/reference/cluster-file.md); null: a task by itself
  const char* job;        // its name in the cluster: "worker"; a job that the file does not have is a client's
  int32_t index;
  bool insecure;                // allows addresses that other machines reach without TLS
  double join_seconds;          // for the cluster to come up; 0: 60
  const char* tls_certificate;  // paths of PEM files; null: no TLS
  const char* tls_key;
  const char* tls_ca;
} troupe_task_options;

// Starts the runtime of this process, with its devices; with a cluster file, as one of its tasks: waits for the
// parameter servers (without any, and as a client, for all tasks). TROUPE_DEADLINE_EXCEEDED names the missing ones.
// `options` may be null. Threads: any.
TROUPE_API troupe_task* troupe_task_new(const troupe_task_options* options, troupe_status* status);

// The same from the arguments of main(): under troupe-launch, or with --job, --task and --cluster FILE, as a task of
// that cluster, else by itself. Takes its options out of the arguments, and leaves the program's. Call it once, before
// the program starts other processes. Threads: one per process.
TROUPE_API troupe_task* troupe_task_from_command_line(int* argc, char** argv, const troupe_task_options* options,
                                                      troupe_status* status);

// Ends the task, once the last session, model and value that use it are deleted. Threads: one per task.
TROUPE_API void troupe_task_delete(troupe_task* task);

// "/job:worker/task:1". Threads: any.
TROUPE_API char* troupe_task_name(const troupe_task* task, troupe_status* status);

// Devices of the task and of the tasks that it has joined: their number, and the name of one. Threads: any.
TROUPE_API int32_t troupe_task_num_devices(const troupe_task* task);
TROUPE_API char* troupe_task_device_name(const troupe_task* task, int32_t index, troupe_status* status);

// The number of tasks of a job (null: of all) in its cluster; 0 without a cluster. Threads: any.
TROUPE_API int32_t troupe_task_num_tasks(const troupe_task* task, const char* job);

// Waits until all tasks of a job (null: of all) are connected. TROUPE_DEADLINE_EXCEEDED names the missing ones.
// Threads: any.
TROUPE_API troupe_code troupe_task_await(troupe_task* task, const char* job, double timeout_seconds,
                                         troupe_status* status);

// Lets other tasks run steps here, as parameter servers do in clusters of sessions, until troupe_task_interrupt(): then
// TROUPE_OK. TROUPE_DEADLINE_EXCEEDED after the timeout (0: none), and the task's error if it fails. Threads: one per
// task.
TROUPE_API troupe_code troupe_task_serve(troupe_task* task, double timeout_seconds, troupe_status* status);

// Ends troupe_task_serve(). May be called by a signal handler. Threads: any.
TROUPE_API void troupe_task_interrupt(troupe_task* task);

// ---------------------------------------------------------------- Training

// Examples in memory: tensors with one row for each, by name.
typedef struct troupe_dataset troupe_dataset;

// Shares the tensors' memory: do not write to it any more. TROUPE_INVALID_ARGUMENT unless all have the same number of
// rows. Threads: any.
TROUPE_API troupe_dataset* troupe_dataset_new(const char* const* names, troupe_tensor* const* tensors, size_t count,
                                              troupe_status* status);

// Threads: one per dataset.
TROUPE_API void troupe_dataset_delete(troupe_dataset* dataset);

// Figures of a training by name, in order: "loss", "accuracy"; those of validation data begin with "val_".
typedef struct troupe_figures troupe_figures;

// Their number; the name of one, null beyond the last; and a value, NaN and TROUPE_NOT_FOUND (which lists those that
// there are) for another name. Threads: any.
TROUPE_API int32_t troupe_figures_count(const troupe_figures* figures);
TROUPE_API const char* troupe_figures_name(const troupe_figures* figures, int32_t index);
TROUPE_API double troupe_figures_get(const troupe_figures* figures, const char* name, troupe_status* status);

// Threads: one per figures.
TROUPE_API void troupe_figures_delete(troupe_figures* figures);

// The options of a kind of layer, with defaults: "dense(units=1, activation=\"none\", ...), weights kernel, bias".
// Null: all kinds, one a line. Layers are text: "dense(units=10, activation=relu, kernel=he_normal)"
// (graph/layers/layer_text.hpp). Threads: any.
TROUPE_API char* troupe_layer_signature(const char* kind, troupe_status* status);

// Layers that are called on numbered values.
typedef struct troupe_network troupe_network;

// Threads: any.
TROUPE_API troupe_network* troupe_network_new(troupe_status* status);

// Models keep what they need. Threads: one per network.
TROUPE_API void troupe_network_delete(troupe_network* network);

// Adds an input, whose shape is that of one example, and returns its number; -1 after an error. Threads: one per
// network.
TROUPE_API int32_t troupe_network_input(troupe_network* network, const char* name, troupe_dtype dtype,
                                        const int64_t* dims, int32_t rank, troupe_status* status);

// Calls a new layer on values, and returns the number of its first result (others have the next ones); -1 after an
// error. Threads: one per network.
TROUPE_API int32_t troupe_network_layer(troupe_network* network, const char* layer, const int32_t* inputs,
                                        size_t num_inputs, troupe_status* status);

// A network with losses and an optimizer.
typedef struct troupe_model troupe_model;

// The network from its inputs to `count` results. `names`: of the results; null: those of their layers. Threads: one
// per network.
TROUPE_API troupe_model* troupe_model_new(const troupe_network* network, const int32_t* results,
                                          const char* const* names, size_t count, troupe_status* status);

// Layers one after the other; dtype and shape are those of one example. Threads: any.
TROUPE_API troupe_model* troupe_model_sequential(const char* const* layers, size_t count, troupe_dtype dtype,
                                                 const int64_t* dims, int32_t rank, troupe_status* status);

// What troupe_model_save() wrote; compiled as it was, it continues its training. troupe_loaded_model_new() reads such
// directories to predict. Threads: any.
TROUPE_API troupe_model* troupe_model_load(const char* directory, troupe_status* status);

// Writes a directory, complete or not at all. Threads: one per model.
TROUPE_API troupe_code troupe_model_save(troupe_model* model, const char* directory, troupe_status* status);

// Threads: one per model.
TROUPE_API void troupe_model_delete(troupe_model* model);

// A table of the layers. Threads: one per model.
TROUPE_API char* troupe_model_summary(const troupe_model* model, troupe_status* status);

// What an output learns.
typedef struct troupe_output_training {
  size_t size;
  const char* output;          // its name; null: the only one
  const char* loss;            // "mean_squared_error", "huber(delta=2)"; null: it learns nothing
  double weight;               // of the loss; 0: 1
  const char* target;          // the component of the data; null: that of the output's name, or the usual one
  const char* sample_weights;  // the component that scales the losses of examples; null: none
  const double* class_weights;
  size_t num_class_weights;
  const char* const* metrics;  // "accuracy", "auc(curve=pr)"
  size_t num_metrics;
} troupe_output_training;

typedef struct troupe_compile_options {
  size_t size;
  const char* optimizer;  // "adam(learning_rate=0.01)"; null: "adam"
  const char* loss;       // of a model with one output, and its metrics; else `outputs` has them
  const char* const* metrics;
  size_t num_metrics;
  const troupe_output_training* const* outputs;
  size_t num_outputs;
  troupe_dtype precision;   // of products: TROUPE_BF16 or TROUPE_F16; TROUPE_INVALID: TROUPE_F32
  double clip_global_norm;  // of gradients; 0: not
  troupe_task* task;        // where it computes; null: a task of its own. The model keeps it
} troupe_compile_options;

// Sets how the model learns and where it computes. Losses, metrics and optimizers are text: names and options are those
// of graph/training/measure_text.hpp and graph/optimizers/optimizer_options.hpp. Threads: one per model.
TROUPE_API troupe_code troupe_model_compile(troupe_model* model, const troupe_compile_options* options,
                                            troupe_status* status);

// The figures of an epoch; ends with the call that is given it.
typedef struct troupe_epoch {
  size_t size;
  uint32_t epoch;  // from 0
  uint64_t steps;  // so far
  double seconds;  // so far
  double examples_per_second;
  const troupe_figures* figures;
} troupe_epoch;

typedef struct troupe_fit_options {
  size_t size;
  // "local", "local(slots=2)", "sync(slots=4, backups=1)", "ssp(staleness=1)", "async(aggregate=2)", "allreduce"; modes
  // with servers also have min_workers, on_loss="fail", "shrink" or "wait", join_seconds, step_seconds, rejoin_seconds
  // (docs/guide/training-modes.md). Null: "local".
  const char* mode;
  int32_t epochs;         // 0: 5
  int32_t batch;          // examples of a slot; 0: 32
  int32_t micro_batches;  // parts of a batch, computed one after the other; 0: 1
  bool quiet;             // prints no progress on stderr
  uint64_t seed;
  const char* checkpoint;     // a directory from which it resumes, and where it saves; null: none
  uint64_t checkpoint_every;  // steps; 0: about one epoch
  const char* publish;        // a directory for servers, which gets the model as its next version; null: none
  const char* tensorboard;    // a directory for curves; null: none
  // "early_stopping(figure=\"val_loss\", patience=3)", "reduce_on_plateau(factor=0.5)", "stop_on_nan",
  // "csv_log(path=\"epochs.csv\")", "json_log(path=\"...\")" (actors/training/callback.hpp).
  const char* const* callbacks;
  size_t num_callbacks;
  // Called after each epoch on the task that reports, on the thread of troupe_model_fit(); the model may be evaluated,
  // saved and stopped there.
  void (*on_epoch)(const troupe_epoch* epoch, void* argument);
  void* argument;
} troupe_fit_options;

// Trains, evaluates `validation` (may be null) after each epoch, and returns the figures of the last epoch; on tasks
// that do not report there are none. A second call continues. In modes other than local this process is a task of a
// cluster: all of them call it with the same options and data; a parameter server serves until the job ends.
// TROUPE_CANCELLED after troupe_model_stop(): the model keeps its parameters. Threads: one per model.
TROUPE_API troupe_figures* troupe_model_fit(troupe_model* model, const troupe_dataset* train,
                                            const troupe_dataset* validation, const troupe_fit_options* options,
                                            troupe_status* status);

// Ends the training that runs, or else the next one, after its step. May be called by a signal handler. Threads: any.
TROUPE_API void troupe_model_stop(troupe_model* model);

// The figures of all examples. Threads: one per model.
TROUPE_API troupe_figures* troupe_model_evaluate(troupe_model* model, const troupe_dataset* data,
                                                 troupe_status* status);

// The output of a model with one input and one output, for examples [n,...]. Threads: one per model.
TROUPE_API troupe_tensor* troupe_model_predict(troupe_model* model, const troupe_tensor* examples,
                                               troupe_status* status);

// New handles for `count` outputs by name. Threads: one per model.
TROUPE_API troupe_code troupe_model_predict_outputs(troupe_model* model, const troupe_dataset* data,
                                                    const char* const* names, troupe_tensor** results, size_t count,
                                                    troupe_status* status);

// The names of all parameters, one a line; one of them; and the hash of all. TROUPE_FAILED_PRECONDITION before the
// first training. Threads: one per model.
TROUPE_API char* troupe_model_parameter_names(troupe_model* model, troupe_status* status);
TROUPE_API troupe_tensor* troupe_model_parameter(troupe_model* model, const char* name, troupe_status* status);
TROUPE_API char* troupe_model_params_sha256(troupe_model* model, troupe_status* status);

#ifdef __cplusplus
}
#endif

#endif  // TROUPE_H_
