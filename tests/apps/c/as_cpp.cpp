// troupe.h is C++, too.
#include <troupe.h>

extern "C" uint32_t abi_version_of_cpp(void);
uint32_t abi_version_of_cpp(void) { return troupe_abi_version(); }
