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
void test_eager(void);
void test_networks(void);
void test_tasks(void);
// Of the saved model: a directory.
void test_training(const char* directory);
// Of a file.
void test_onnx(const char* path);
void test_op_library(const char* path);
// These take the options of a task out of the arguments.
void test_cluster(int argc, char** argv);
void test_node(int argc, char** argv);
void test_client(const char* cluster, float first);

#endif
