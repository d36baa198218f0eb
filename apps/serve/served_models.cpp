#include "apps/serve/served_models.hpp"

#include <troupe/actors/serving/router.hpp>

namespace troupe {
namespace {

constexpr std::size_t kSmall = 16 << 10;  // bytes: some ten microseconds of printing
constexpr std::size_t kText = 32;         // of a string

}  // namespace

ServedModels ServedModels::of(const ModelServer& server) {
  return {.find = [&server](std::string_view model, const auto& wanted) { return server.find(model, wanted); },
          .status = [&server](const std::string& model) { return server.status(model); },
          .ready = [&server] { return server.ready(); }};
}

ServedModels ServedModels::of(Router& router) {
  return {.find = [&router](std::string_view model, const auto& wanted) { return router.find(model, wanted); },
          .status = [&router](const std::string& model) { return router.status(model); },
          .ready = [&router] { return router.ready(); },
          .configure = [&router](const std::vector<ServedModel>& models,
                                 auto done) { router.configure(models, std::move(done)); }};
}

std::vector<ServableManager::Status> ServedModels::status_of(const std::string& model,
                                                             const VersionLabels::Wanted& wanted) const {
  std::vector<ServableManager::Status> out = status(model);
  std::optional<std::int64_t> version = wanted.version;
  if (!wanted.label.empty()) version = find(model, wanted)->id().version;
  if (!version) return out;
  std::erase_if(out, [&](const ServableManager::Status& one) { return one.id.version != *version; });
  if (out.empty()) fail(Code::not_found, "model '{}' has no version {}", model, *version);
  return out;
}

bool small(const std::map<std::string, Tensor>& outputs) {
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : outputs)
    bytes +=
        tensor.dtype() == DType::string ? static_cast<std::size_t>(tensor.num_elements()) * kText : tensor.num_bytes();
  return bytes <= kSmall;
}

}  // namespace troupe
