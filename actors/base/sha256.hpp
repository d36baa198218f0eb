// SHA-256, of OpenSSL: the hashes of parameters and of the files of saved models.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace troupe {

class Sha256 {
 public:
  Sha256();
  void add(std::span<const std::byte> bytes);
  // The text, and a zero byte behind it.
  void add_text(std::string_view text);
  // The hash of all that was added, as 64 hex digits. Ends the object's use.
  std::string hex();

 private:
  std::unique_ptr<void, void (*)(void*)> context_;
};

}  // namespace troupe
