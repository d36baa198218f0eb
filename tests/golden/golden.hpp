// What the files of each format hold: golden_test.cpp reads them with the newest code.
#pragma once

#include <string>

#include <troupe/actors/model/saved_model.hpp>

namespace troupe::golden {

// Models of layers alone, of a graph alone, and of texts; they have no training to go on with.
SavedModel layers_model();
SavedModel graph_model();
SavedModel text_model();

// The batches of the model that is trained: x f32[16,3], targets f32[16,2].
std::map<std::string, Tensor> training_data();

// Of ten numbers, by element, in files of several formats.
Parameters values_of_all_types();

inline constexpr const char* kRecords[] = {"first", "", "a record with more bytes"};

// Writes all files below a folder, which it makes.
void write_all(const std::string& directory);

}  // namespace troupe::golden
