// Vocabularies of the texts of a pipeline, learnt by going through it once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <troupe/graph/data/pipeline.hpp>
#include <troupe/graph/words.hpp>

namespace troupe::texts {

struct VocabularyOptions {
  std::size_t most = 0;  // words; 0: all
  WordOptions words{};
};

// The distinct words of epoch 0, by number of occurrences; of equally frequent ones the greater first, byte by byte, as
// in Keras and VocabularyBuilder. `component`: strings of any shape. Memory is in proportion to the distinct words.
// Throws invalid_argument for another component, and what the pipeline's stages throw.
std::vector<std::string> learn_vocabulary(const data::Pipeline& pipeline, const std::string& component,
                                          const VocabularyOptions& options = {});

}  // namespace troupe::texts
