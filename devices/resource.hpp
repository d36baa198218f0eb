// Resources: state of a session, or of a container, that is no tensor, such as a queue or a hash table. To plans and
// kernels they are variables of dtype resource.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include <troupe/devices/kernel.hpp>

namespace troupe {

class Resource : public Variable {
 public:
  // `declaration`: the op and its attributes in words. Nodes of one name must agree on it.
  Resource(std::string name, std::string declaration)
      : Variable(std::move(name), DType::resource, Shape{}), declaration_(std::move(declaration)) {}
  Resource(const Resource&) = delete;
  Resource& operator=(const Resource&) = delete;
  virtual ~Resource() = default;

  const std::string& declaration() const { return declaration_; }
  virtual std::size_t num_bytes() const = 0;  // of the tensors that it holds

 private:
  const std::string declaration_;
};

// The resource of type R that a variable is. Throws invalid_argument for any other.
template <class R>
R& resource_of(Variable& variable) {
  R* found = variable.dtype() == DType::resource ? dynamic_cast<R*>(static_cast<Resource*>(&variable)) : nullptr;
  if (!found) invalid_argument("'{}' is another kind of variable than this op takes", variable.name());
  return *found;
}

}  // namespace troupe
