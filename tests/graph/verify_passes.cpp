// Linked into every test program of graph: passes are verified there in all builds.
#include <troupe/graph/verify.hpp>

namespace {

const bool kVerifying = (troupe::verify_passes(true), true);

}  // namespace
