// write_golden DIRECTORY: writes small files of each format (README.md).
#include <fmt/core.h>

#include "tests/golden/golden.hpp"
#include <troupe/messages/error.hpp>

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: write_golden DIRECTORY\n");
    return 2;
  }
  try {
    troupe::golden::write_all(argv[1]);
  } catch (const troupe::Error& error) {
    fmt::print(stderr, "write_golden: {}\n", error.to_string());
    return 1;
  }
}
