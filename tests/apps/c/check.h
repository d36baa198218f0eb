// Checks of the C programs: the first that fails ends the program with 1 and says where.
#ifndef TESTS_APPS_C_CHECK_H_
#define TESTS_APPS_C_CHECK_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

// The last call succeeded.
#define CHECK_OK(status)                                                                                   \
  do {                                                                                                     \
    if (troupe_status_code(status) != TROUPE_OK) {                                                         \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, troupe_code_name(troupe_status_code(status)), \
              troupe_status_message(status));                                                              \
      exit(1);                                                                                             \
    }                                                                                                      \
  } while (0)

// The last call failed with this code, and a message that has this text.
#define CHECK_ERROR(status, expected, text)                                                                \
  do {                                                                                                     \
    if (troupe_status_code(status) != (expected) || !strstr(troupe_status_message(status), text)) {        \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, troupe_code_name(troupe_status_code(status)), \
              troupe_status_message(status));                                                              \
      exit(1);                                                                                             \
    }                                                                                                      \
  } while (0)

// A copy of floats.
static inline troupe_tensor* floats(const int64_t* dims, int32_t rank, const float* values) {
  size_t bytes = sizeof(float);
  for (int32_t i = 0; i < rank; ++i) bytes *= (size_t)dims[i];
  troupe_tensor* out = troupe_tensor_from_copy(TROUPE_F32, dims, rank, values, bytes, NULL);
  CHECK(out != NULL);
  return out;
}
static inline troupe_tensor* scalar(float value) { return floats(NULL, 0, &value); }
static inline float float_at(const troupe_tensor* tensor, int index) {
  const float* data = troupe_tensor_data(tensor, NULL);
  CHECK(data != NULL && troupe_tensor_dtype(tensor) == TROUPE_F32 && index < troupe_tensor_num_elements(tensor));
  return data[index];
}

// A text that a function returned has this part. Frees it.
static inline void check_text(char* text, const char* part) {
  if (!text || !strstr(text, part)) {
    fprintf(stderr, "'%s' has no '%s'\n", text ? text : "(null)", part);
    exit(1);
  }
  troupe_text_delete(text);
}

#endif
