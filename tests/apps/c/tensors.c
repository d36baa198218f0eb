// Statuses, dtypes and tensors.
#include "check.h"
#include "program.h"

void test_status(void) {
  CHECK(troupe_abi_version() == TROUPE_ABI_VERSION);
  CHECK(strcmp(troupe_version(), "0.1.0") == 0);
  troupe_status* status = troupe_status_new();
  CHECK(troupe_status_code(status) == TROUPE_OK && strcmp(troupe_status_message(status), "") == 0);
  CHECK(troupe_dtype_named("f33", status) == TROUPE_INVALID);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "'f33' is no dtype");
  CHECK(troupe_dtype_named("bf16", status) == TROUPE_BF16);  // a call resets the status
  CHECK_OK(status);
  CHECK(strcmp(troupe_status_message(status), "") == 0);
  CHECK(strcmp(troupe_code_name(TROUPE_DATA_LOSS), "data_loss") == 0);
  CHECK(strcmp(troupe_code_name((troupe_code)99), "unknown") == 0);
  CHECK(strcmp(troupe_dtype_name(TROUPE_BOOL), "bool") == 0);
  CHECK(strcmp(troupe_dtype_name((troupe_dtype)99), "invalid") == 0);
  CHECK(troupe_dtype_size(TROUPE_F64) == 8 && troupe_dtype_size(TROUPE_STRING) == 0);
  CHECK(troupe_dtype_size((troupe_dtype)99) == 0);
  troupe_dtype_named("f33", NULL);  // the message is lost
  CHECK(troupe_status_code(NULL) == TROUPE_OK);
  troupe_status_delete(status);
  troupe_status_delete(NULL);
}

void test_tensors(void) {
  troupe_status* status = troupe_status_new();
  const int64_t dims[] = {2, 3};
  troupe_tensor* made = troupe_tensor_new(TROUPE_F32, dims, 2, status);
  CHECK_OK(status);
  float* to = troupe_tensor_mutable_data(made, status);
  CHECK_OK(status);
  for (int i = 0; i < 6; ++i) to[i] = (float)i;
  CHECK(troupe_tensor_dtype(made) == TROUPE_F32 && troupe_tensor_rank(made) == 2);
  CHECK(troupe_tensor_dim(made, 0) == 2 && troupe_tensor_dim(made, -1) == 3 && troupe_tensor_dim(made, 2) == -1);
  CHECK(troupe_tensor_num_elements(made) == 6 && troupe_tensor_num_bytes(made) == 24);
  check_text(troupe_tensor_to_text(made, 3, status), "f32[2,3] = 0 1 2");

  troupe_tensor* shared = troupe_tensor_share(made, status);
  CHECK(troupe_tensor_data(shared, status) == (void*)to);
  CHECK(troupe_tensor_mutable_data(made, status) == NULL);
  CHECK_ERROR(status, TROUPE_FAILED_PRECONDITION, "others use the tensor's memory");
  const int64_t flat[] = {6}, wrong[] = {7}, open[] = {-1};
  troupe_tensor* reshaped = troupe_tensor_reshape(made, flat, 1, status);
  CHECK(float_at(reshaped, 5) == 5 && troupe_tensor_rank(reshaped) == 1);
  CHECK(troupe_tensor_reshape(made, wrong, 1, status) == NULL);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "[7]");
  troupe_tensor_delete(made);
  CHECK(float_at(shared, 5) == 5);
  troupe_tensor_delete(shared);
  CHECK(troupe_tensor_mutable_data(reshaped, status) != NULL);
  troupe_tensor_delete(reshaped);

  CHECK(troupe_tensor_new(TROUPE_F32, open, 1, status) == NULL);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "all must be known");
  CHECK(troupe_tensor_new(TROUPE_RESOURCE, flat, 1, status) == NULL);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "resource");
  CHECK(troupe_tensor_new((troupe_dtype)77, flat, 1, status) == NULL);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "is 77, which is no dtype");
  CHECK(troupe_tensor_new(TROUPE_F32, flat, 9, status) == NULL);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "'rank' is 9");
  CHECK(troupe_tensor_from_copy(TROUPE_F32, flat, 1, to, 23, status) == NULL);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "'bytes' is 23, but f32[6] has 24");
  const int64_t huge[] = {INT64_MAX / 8}, beyond[] = {INT64_MAX, INT64_MAX};
  CHECK(troupe_tensor_new(TROUPE_F32, huge, 1, status) == NULL);
  CHECK_ERROR(status, TROUPE_RESOURCE_EXHAUSTED, "");
  CHECK(troupe_tensor_new(TROUPE_F32, beyond, 2, status) == NULL);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "");

  const char* const words[] = {"red", "", "a\0b"};
  const size_t lengths[] = {3, 0, 3};
  const int64_t three[] = {3};
  size_t length = 9;
  troupe_tensor* strings = troupe_tensor_from_strings(three, 1, words, lengths, status);
  CHECK_OK(status);
  CHECK(strcmp(troupe_tensor_string(strings, 0, NULL, status), "red") == 0);
  CHECK(memcmp(troupe_tensor_string(strings, 2, &length, status), "a\0b", 4) == 0 && length == 3);
  CHECK(troupe_tensor_string(strings, 3, NULL, status) == NULL);
  CHECK_ERROR(status, TROUPE_OUT_OF_RANGE, "there is no string 3");
  CHECK(troupe_tensor_data(strings, status) == NULL);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "use troupe_tensor_string()");
  CHECK(troupe_tensor_num_bytes(strings) == 0);
  troupe_tensor_delete(strings);
  strings = troupe_tensor_from_strings(three, 1, words, NULL, status);
  CHECK(strcmp(troupe_tensor_string(strings, 2, &length, status), "a") == 0 && length == 1);
  troupe_tensor_delete(strings);
  troupe_status_delete(status);
}

static void count_deletion(void* data, void* argument) {
  CHECK(data != NULL);
  ++*(int*)argument;
}

void test_memory(void) {
  troupe_status* status = troupe_status_new();
  float own[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  int deleted = 0;
  const int64_t dims[] = {8};
  // Not at a multiple of 64 bytes.
  troupe_tensor* in = troupe_tensor_from_memory(TROUPE_F32, dims, 1, own + 1, 32, count_deletion, &deleted, status);
  CHECK_OK(status);
  CHECK(troupe_tensor_data(in, status) == own + 1);
  CHECK(troupe_tensor_mutable_data(in, status) == NULL);
  CHECK_ERROR(status, TROUPE_FAILED_PRECONDITION, "must not see it change");

  troupe_graph* graph = troupe_graph_new(status);
  troupe_output x = troupe_graph_placeholder(graph, TROUPE_F32, dims, 1, NULL, status);
  troupe_output y = troupe_graph_op(graph, "Neg", &x, 1, NULL, NULL, status);
  troupe_output same = troupe_graph_op(graph, "Identity", &x, 1, NULL, NULL, status);
  CHECK_OK(status);
  troupe_session* session = troupe_session_new(graph, NULL, NULL, status);
  CHECK_OK(status);
  const troupe_output fetches[] = {y, same};
  troupe_tensor* results[2];
  troupe_session_run(session, NULL, &x, &in, 1, fetches, results, 2, NULL, 0, status);
  CHECK_OK(status);
  CHECK(float_at(results[0], 7) == -8 && own[8] == 8);       // nobody writes to the caller's memory
  CHECK(troupe_tensor_data(results[1], status) == own + 1);  // nor copies it
  troupe_tensor_delete(in);
  CHECK(deleted == 0);
  troupe_tensor_delete(results[1]);
  troupe_tensor_delete(results[0]);
  troupe_session_delete(session);
  CHECK(deleted == 1);

  // A constant keeps the memory for as long as its graph.
  in = troupe_tensor_from_memory(TROUPE_F32, dims, 1, own, 32, count_deletion, &deleted, status);
  troupe_graph_constant(graph, in, "kept", status);
  troupe_tensor_delete(in);
  CHECK(deleted == 1);
  troupe_graph_delete(graph);
  CHECK(deleted == 2);

  const int64_t none[] = {0};
  in = troupe_tensor_from_memory(TROUPE_F32, none, 1, own, 0, count_deletion, &deleted, status);
  CHECK(deleted == 3 && troupe_tensor_num_elements(in) == 0);
  troupe_tensor_delete(in);
  CHECK(troupe_tensor_from_memory(TROUPE_F32, dims, 1, (char*)own + 1, 32, count_deletion, &deleted, status) == NULL);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "not aligned to elements of 4 bytes");
  CHECK(deleted == 3);
  troupe_status_delete(status);
}
