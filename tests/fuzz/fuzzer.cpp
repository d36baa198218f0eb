// The main() of libFuzzer targets for what reads bytes of others. Built where clang is (cmake --preset fuzz);
// tools/test.sh runs each for a while.
//
//   fuzz_frame --seeds=DIR    writes inputs to begin with, and ends
//   fuzz_frame DIR -max_total_time=60
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/fuzz/fuzz_target.hpp"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr std::string_view kOption = "--seeds=";
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = (*argv)[i];
    if (!argument.starts_with(kOption)) continue;
    const std::filesystem::path directory(argument.substr(kOption.size()));
    std::filesystem::create_directories(directory);
    int number = 0;
    for (const std::string& seed : troupe::fuzz::seeds())
      std::ofstream(directory / ("seed" + std::to_string(number++)), std::ios::binary) << seed;
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  troupe::fuzz::run({reinterpret_cast<const char*>(data), size});
  return 0;
}
