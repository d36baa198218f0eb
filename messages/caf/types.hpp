// Ties our message types to CAF: which may cross a network, how they are serialised, and which must stay local. Nothing
// else in Troupe depends on CAF's serialisation.
#pragma once

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/meta/type_name.hpp>

#include <troupe/messages/control.hpp>
#include <troupe/messages/frames.hpp>
#include <troupe/messages/local_messages.hpp>

namespace caf {
class actor_system_config;
}

namespace troupe {

// Registers the types that cross CAF's network with a configuration.
void register_message_types(caf::actor_system_config& config);

// Members are strings and integers: CAF writes strings as one block of raw bytes.
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, HelloRequest& x) {
  return f(caf::meta::type_name("troupe::HelloRequest"), x.welcome);
}
// `tensors` stay within a process.
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, RegisterGraphRequest& x) {
  return f(caf::meta::type_name("troupe::RegisterGraphRequest"), x.body);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, CloseSessionRequest& x) {
  return f(caf::meta::type_name("troupe::CloseSessionRequest"), x.session);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, ResetContainerRequest& x) {
  return f(caf::meta::type_name("troupe::ResetContainerRequest"), x.container);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, Reply& x) {
  return f(caf::meta::type_name("troupe::Reply"), x.code, x.message, x.body);
}

}  // namespace troupe

// Messages that stay inside a process: CAF would refuse them on a network.
template <class T>
requires requires { typename T::local_message; }
struct caf::allowed_unsafe_message_type<T> : std::true_type {};
template <>
struct caf::allowed_unsafe_message_type<troupe::Put> : std::true_type {};
