#include "troupe/scheduler/data/vocabulary.hpp"

#include <algorithm>

#include <troupe/graph/layers/preprocessing.hpp>
#include <troupe/messages/error.hpp>
#include <troupe/scheduler/data/element_stream.hpp>

namespace troupe::texts {

std::vector<std::string> learn_vocabulary(const data::Pipeline& pipeline, const std::string& component,
                                          const VocabularyOptions& options) {
  const BatchSchema& schema = pipeline.schema();
  const auto found = std::ranges::find(schema, component, &BatchComponent::name);
  if (found == schema.end() || found->dtype != DType::string)
    invalid_argument("learn_vocabulary: '{}' is no component of strings: the elements are {}", component,
                     to_string(schema));
  const auto at = static_cast<std::size_t>(found - schema.begin());
  VocabularyBuilder builder;
  const auto stream = open_stream(pipeline.stage());
  stream->start(0);
  while (const auto element = stream->next())
    for (const std::string& text : (*element)[at].values<std::string>())
      each_word(text, options.words, [&](std::string_view word) { builder.add(word); });
  return builder.strings(options.most);
}

}  // namespace troupe::texts
