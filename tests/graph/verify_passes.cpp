// Switches verification of passes on, in all builds, in the test programs that it is linked into.
#include <troupe/graph/verify.hpp>

namespace {

const bool kVerifying = (troupe::verify_passes(true), true);

}  // namespace
