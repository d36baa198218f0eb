#include "apps/serve/model_tokens.hpp"

#include <troupe/actors/wire/authentication.hpp>

namespace troupe {

void ModelTokens::check(const std::string& model, std::string_view authorization) const {
  auto wanted = tokens_.find(model);
  if (wanted == tokens_.end()) wanted = tokens_.find("");
  if (wanted == tokens_.end()) return;
  constexpr std::string_view kBearer = "Bearer ";
  if (!authorization.starts_with(kBearer) ||
      !wire::equal_secrets(std::string(authorization.substr(kBearer.size())), wanted->second))
    fail(Code::unauthenticated, "{} needs a token: authorization: Bearer TOKEN",
         model.empty() ? "this" : fmt::format("model '{}'", model));
}

}  // namespace troupe
