// TROUPE_HOST_DEVICE before a function lets GPU kernels call it too.
#pragma once

#ifdef __CUDACC__
#define TROUPE_HOST_DEVICE __host__ __device__
#else
#define TROUPE_HOST_DEVICE
#endif
