#include "troupe/actors/serving/loader_actor.hpp"

#include <malloc.h>

#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <utility>

#include <troupe/actors/base/spawn.hpp>
#include <troupe/actors/serving/batcher_actor.hpp>
#include <troupe/actors/serving/low_priority.hpp>
#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/messages/caf/instances.hpp>

namespace troupe {

LoaderActorImpl::behavior_type LoaderActorImpl::make_behavior() {
  set_down_handler([this](caf::down_msg& down) { replace_batcher(down.source); });
  return {
      [this](const LoadServable& message) {
        ServableLoaded out{.id = id_};
        try {
          load(message.version);
          out.bytes = message.version.bytes + servable_->bytes();
          out.servable = servable_;
        } catch (...) {
          end_batchers();
          servable_ = nullptr;
          const std::string& path = message.version.path;
          const Error why = current_error().within(path.empty() ? id_.to_string() : path);
          out.error = Error(why.code(), without_secrets(why.message(), path));
        }
        tell(message.answer, std::move(out));
      },
      [this](const UnloadServable& message) {
        end_batchers();
        at_low_priority([this] {
          servable_ = nullptr;  // the model ends here
          malloc_trim(0);
        });
        tell(message.answer, ServableUnloaded{id_});
        quit();
      },
      [this](const Stop&) {
        end_batchers();
        servable_ = nullptr;
        quit();
      },
  };
}

void LoaderActorImpl::load(const FoundVersion& version) {
  auto device = std::make_shared<PrivateDevice>(task_, PrivateDeviceOptions{.threads = threads_});
  device->use_helpers(false);  // their priority is not low
  at_low_priority([&] {
    servable_ = std::make_shared<LoadedServable>(task_, id_, shared_->loader->load(id_.model, version), device,
                                                 sizes_of_batches(), *shared_);
  });
  device->use_helpers(true);
  if (!batching_) return;
  for (const auto& [name, signature] : servable_->signatures())
    if (servable_->can_batch(name)) make_batcher(name);
}

void LoaderActorImpl::make_batcher(const std::string& signature) {
  BatcherActor& batcher = batchers_[signature];
  batcher = spawn_actor<ActorKind::batcher, BatcherActorImpl>(
      system(), record().registry, id_.to_string() + ":" + signature, servable_->callable(signature), *batching_,
      servable_->shared_statistics());
  monitor(batcher);
  servable_->batch_by(signature, batcher, batching_->above);
}

// Requests that the failed one had have been answered with unavailable, as are those that come before this.
void LoaderActorImpl::replace_batcher(const caf::actor_addr& failed) {
  for (const auto& [signature, batcher] : batchers_)
    if (batcher.address() == failed) return make_batcher(signature);
}

// Handles may keep this object: the model is let go, of a loader that has failed by whoever serves it.
void LoaderActorImpl::on_exit() {
  batchers_.clear();
  servable_ = nullptr;
  Counted::on_exit();
}

std::vector<std::int64_t> LoaderActorImpl::sizes_of_batches() const {
  if (!batching_) return {};
  return batching_->allowed_sizes.empty() ? std::vector{batching_->most_rows} : batching_->allowed_sizes;
}

void LoaderActorImpl::end_batchers() {
  std::vector<BatcherActor> ending;
  for (const auto& [signature, batcher] : batchers_) ending.push_back(batcher);
  batchers_.clear();  // none is made again
  for (const BatcherActor& batcher : ending) tell(batcher, Stop{});
  caf::scoped_actor self(system());
  self->wait_for(ending);
}

}  // namespace troupe
