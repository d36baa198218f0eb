// The encoder of sentences as a model of tags, with weights of its own or those of a folder.
#pragma once

#include <string>
#include <vector>

#include "apps/tags/options.hpp"
#include <troupe/actors/model/pretrained_encoder.hpp>

namespace troupe {

// With --weights, what is there; otherwise the shape of the options, and a vocabulary of these words, of their
// characters and of punctuation, so that all words of the texts can be cut.
PretrainedEncoder tags_encoder(const TagsOptions& options, const std::vector<std::string>& words);

// Text -> a logit for each tag: a dense layer on the mean of the encoder's tokens.
Network tags_encoder_network(const PretrainedEncoder& encoder, const TagsOptions& options, std::int64_t tags);

}  // namespace troupe
