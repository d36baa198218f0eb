// Update rules of optimizers on the CPU, dense and sparse.
//
// Every element is updated only from its own value, slots and gradient, with IEEE operations only: updating a whole
// variable and updating it in arbitrary pieces give the same bits.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include <troupe/devices/device.hpp>
#include <troupe/graph/optimizers/updates.hpp>
#include <troupe/kernels/cpu/update_loops.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// Updates `state` in place: the variable followed by its slots, all of one shape, floating, each in separate memory.
// lr: one element; grad: shaped like the variable. Throws invalid_argument, before any change, if they do not match.
// `number`: of the update, starting at 1; used by rules that count updates.
void apply_update(Parallelism& parallelism, const OptimizerRule& rule, std::span<Tensor* const> state, const Tensor& lr,
                  const Tensor& grad, std::int64_t number = 1);

// One of several updates by the same rule.
struct VariableUpdate {
  std::array<Tensor*, kMaxState> state{};  // the variable and its slots
  const Tensor* grad = nullptr;
};

// apply_update() for each, all of one dtype, in one sweep over their elements, with the same bits. Throws the errors of
// apply_update(), before any change.
void apply_updates(Parallelism& parallelism, const OptimizerRule& rule, std::span<const VariableUpdate> updates,
                   const Tensor& lr, std::int64_t number = 1);

// Like apply_update(), for rows `indices` (i64 [n]) of the variable with gradients `values` ([n, rest of the variable's
// shape]). Values of a row listed several times are first summed in order. Other rows and their slots do not change,
// or, with SlotUpdates::exact, as by a gradient of 0. Throws out_of_range for an index outside the variable, before any
// change.
void apply_sparse_update(Parallelism& parallelism, const OptimizerRule& rule, std::span<Tensor* const> state,
                         const Tensor& lr, const Tensor& indices, const Tensor& values, std::int64_t number = 1,
                         SlotUpdates slot_updates = SlotUpdates::lazy);

// The same checks without the update, so that callers do not copy a variable in vain.
void check_update(const OptimizerRule& rule, std::span<const Tensor* const> state, const Tensor& lr, const Tensor& grad,
                  std::int64_t number = 1);
void check_sparse_update(const OptimizerRule& rule, std::span<const Tensor* const> state, const Tensor& lr,
                         const Tensor& indices, const Tensor& values, std::int64_t number = 1);

}  // namespace troupe
