// The library of docs/guide/op-libraries.md.
#include <pages/op_library.inc>
