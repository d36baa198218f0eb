// Makes a resource as the node of its handle declares it.
#pragma once

#include <memory>
#include <string>

#include <troupe/devices/resource.hpp>
#include <troupe/messages/attributes.hpp>

namespace troupe {

// Throws invalid_argument for attributes without a sense, and unimplemented for an op that makes no resource.
std::shared_ptr<Resource> make_resource(const std::string& name, const std::string& op, const Attributes& attributes);

}  // namespace troupe
