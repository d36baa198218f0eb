// Shared by the sources of troupe.keras.
#pragma once

#include "apps/python/bindings.hpp"

namespace troupe::python {

// An output of a graph that lives at least as long as the call of a layer, or a value of eager mode.
PyTensor output_of_graph(const Output& output);

void bind_keras_data(nanobind::module_& m);           // data sets
void bind_keras_eager(nanobind::module_& m);          // layers and losses of values
void bind_keras_layers(nanobind::module_& m);         // layers and networks
void bind_keras_measures(nanobind::module_& m);       // losses and metrics of Keras's targets
void bind_keras_model(nanobind::module_& m);          // training
void bind_keras_preprocessing(nanobind::module_& m);  // what layers learn before

}  // namespace troupe::python
