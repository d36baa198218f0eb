// TROUPE_IVDEP, before a loop: no iteration reads what another one writes, so the loop may be vectorised without
// checking operands for overlap. (An iteration may write where it reads itself.)
#pragma once

#ifdef __clang__
#define TROUPE_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define TROUPE_IVDEP _Pragma("GCC ivdep")
#endif
