// Tells why the process ends when libtroupe.so meets the Python module.
#include <cstdio>
#include <fstream>
#include <string>

namespace {

// Before protobuf registers the messages of this library, and ends a process that has them already. A wheel of the
// Python package carries a protobuf of its own.
[[gnu::constructor(101)]] void tell_of_python_module() {
  std::ifstream maps("/proc/self/maps");
  bool module = false, carries_protobuf = false;
  for (std::string line; std::getline(maps, line);) {
    module = module || line.find("/troupe/_troupe.") != line.npos;
    carries_protobuf = carries_protobuf || line.find("/troupe.libs/libprotobuf") != line.npos;
  }
  if (module && !carries_protobuf)
    std::fputs(
        "libtroupe.so: the Python module troupe is in this process, and has the same messages of protobuf, which ends "
        "the process. Use one of them, or a wheel made by tools/wheel.py, which carries its libraries\n",
        stderr);
}

}  // namespace
