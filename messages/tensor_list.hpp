// Lists of tensors as values: the value of one tensor of dtype list and shape []. Copying one copies a reference.
// Lists are not part of messages and files: they stay on their device's task.
#pragma once

#include <span>
#include <vector>

#include <troupe/messages/tensor.hpp>

namespace troupe {

Tensor make_list(std::vector<Tensor> items);

// The items of a list. Throws invalid_argument for another tensor.
std::span<const Tensor> list_items(const Tensor& list);

// The same, to be changed: copied first if another handle shares the list.
std::vector<Tensor>& mutable_list_items(Tensor& list);

}  // namespace troupe
