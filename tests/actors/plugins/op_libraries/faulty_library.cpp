// The name and version of a library, and what it adds (faulty_ops.cpp).
namespace troupe {
class OpLibrary;
namespace testing {

void ADD_OPS(OpLibrary&);
extern const char *const kLibraryName, *const kLibraryVersion;
extern void (*const kAddOps)(OpLibrary&);
const char* const kLibraryName = LIBRARY_NAME;
const char* const kLibraryVersion = LIBRARY_VERSION;
void (*const kAddOps)(OpLibrary&) = ADD_OPS;

}  // namespace testing
}  // namespace troupe
