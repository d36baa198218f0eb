// Tokens that requests for models must show.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include <troupe/messages/error.hpp>

namespace troupe {

class ModelTokens {
 public:
  // By model; "": of all others, and of what is said of the whole server.
  explicit ModelTokens(std::map<std::string, std::string> tokens) : tokens_(std::move(tokens)) {}
  // `authorization`: of the request, "Bearer TOKEN"; "": none. Throws unauthenticated.
  void check(const std::string& model, std::string_view authorization) const;

 private:
  const std::map<std::string, std::string> tokens_;
};

}  // namespace troupe
