// Whether AddressSanitizer watches, which makes kernels a hundred times as slow: large tables of cases are thinned.
#pragma once

namespace troupe::testing {

#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace troupe::testing
