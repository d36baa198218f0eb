// Encoders of sentences that were trained elsewhere: a folder as Hugging Face's Hub has it for models of type
// BertModel, like sentence-transformers/all-MiniLM-L6-v2.
//
//   DIR/model.safetensors  f32, by the names of Hugging Face's Transformers (modeling_bert.py):
//                          "encoder.layer.0.attention.self.query.weight" [out, in], ...
//   DIR/vocab.txt          a piece in each line
//
//   const PretrainedEncoder pretrained = read_pretrained_encoder(posix_file_system(), "all-MiniLM-L6-v2");
//   const Symbol text = input("text", Shape{}, DType::string);
//   const Symbols tokens = layers::word_piece(pretrained.vocabulary, 128, false).call({text});
//   Model model(Network({text}, {{"embedding", sentence_encoder(tokens, pretrained.options)}}));
//   model.load_values(pretrained.file, pretrained.values);
#pragma once

#include <string>
#include <vector>

#include <troupe/actors/model/values.hpp>
#include <troupe/graph/layers/sentence_encoder.hpp>

namespace troupe {

struct PretrainedEncoder {
  std::vector<std::string> vocabulary{};
  SentenceEncoderOptions options{};  // its shape
  std::string file{};                // of weights
  ValueChoice values{};              // of that file, as sentence_encoder() names them; others of it, a pooler, are left
};

// Reads the vocabulary, and the header of the weights, which says all of the shape but the number of heads. Throws
// FileSystem's errors, data_loss for a malformed file; not_found for a weight that is missing, and invalid_argument for
// one of another shape or dtype than the others require: both name the file, the weight and what was expected.
PretrainedEncoder read_pretrained_encoder(FileSystem& files, const std::string& directory, std::int64_t heads = 12);

}  // namespace troupe
