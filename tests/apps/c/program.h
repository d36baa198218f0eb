// The tests of the C API: one function for each, which the program runs by name.
#ifndef TESTS_APPS_C_PROGRAM_H_
#define TESTS_APPS_C_PROGRAM_H_

void test_status(void);
void test_tensors(void);
void test_memory(void);
void test_graphs(void);
void test_sessions(void);
void test_gradients(void);
void test_threads(void);
void test_misuse(void);
void test_leaks(void);

#endif
