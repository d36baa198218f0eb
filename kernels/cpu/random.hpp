// Random values. Element i of a stream depends only on (stream, i), so any split of the work gives the same values. A
// block of PhiloxStream yields 4 floats or 2 doubles: element i is value i mod 4 (or 2) of block i / 4 (or 2).
#pragma once

#include <span>

#include <troupe/devices/device.hpp>
#include <troupe/messages/element_types.hpp>
#include <troupe/messages/philox.hpp>

namespace troupe {

// Uniform in [low, high), which are values of T. T: a floating type, as below; f16 and bf16 are drawn as floats.
template <class T>
void fill_uniform(Parallelism& parallelism, const PhiloxStream& stream, std::span<T> out, Compute<T> low,
                  Compute<T> high);

// Normal, by the Box-Muller transform of two neighbouring values of the block.
template <class T>
void fill_normal(Parallelism& parallelism, const PhiloxStream& stream, std::span<T> out, Compute<T> mean,
                 Compute<T> deviation);

// Normal, truncated to two deviations from the mean. A value j of block b beyond that is redrawn as value j of block b
// + k * 2^48, k = 1, 2, ...
template <class T>
void fill_truncated_normal(Parallelism& parallelism, const PhiloxStream& stream, std::span<T> out, Compute<T> mean,
                           Compute<T> deviation);

}  // namespace troupe
