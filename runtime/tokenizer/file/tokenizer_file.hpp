// runtime/tokenizer/file/tokenizer_file.hpp: tokenizer.json as read from disk.
// The file's bulk, model.vocab and model.merges (hundreds of thousands of strings), goes straight from the parser into
// flat tables and never becomes a JSON tree: that is what keeps loading within the time to the first token.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/file/config_node.hpp"
#include "tokenizer/model/vocabulary.hpp"

namespace mortise::tokenizer {

// The merges in the order of the file, as pairs of texts.
class MergeList {
 public:
  void add(std::string_view left, std::string_view right);

  std::size_t size() const { return merges_.size(); }
  std::string_view left(std::size_t i) const { return text(merges_[i].offset, merges_[i].left_length); }
  std::string_view right(std::size_t i) const {
    return text(merges_[i].offset + merges_[i].left_length, merges_[i].right_length);
  }
  // Left and right as one text.
  std::string_view merged(std::size_t i) const {
    return text(merges_[i].offset, std::size_t{merges_[i].left_length} + merges_[i].right_length);
  }

 private:
  struct Merge {
    std::size_t offset;
    std::uint32_t left_length;
    std::uint32_t right_length;
  };
  std::string_view text(std::size_t offset, std::size_t length) const {
    return std::string_view(texts_).substr(offset, length);
  }

  std::string texts_;
  std::vector<Merge> merges_;
};

struct TokenizerFile {
  std::string path;
  std::string hash;         // of all its bytes
  nlohmann::json document;  // everything but model.vocab and model.merges
  Vocabulary vocabulary;    // of the model; the added tokens are in the document
  MergeList merges;
  bool has_vocabulary = false;
  bool has_merges = false;

  ConfigNode root() const { return {document, path}; }
};

// Throws Error when the file is missing, is no JSON, or has a vocabulary or merges of another form than BPE's.
TokenizerFile read_tokenizer_file(const std::filesystem::path& path);

// Reads a small JSON file (tokenizer_config.json). Throws Error when it is missing, too large or no JSON.
nlohmann::json read_json_file(const std::filesystem::path& path);

// A whole small file as bytes (a chat template). Throws Error when it cannot be read or is too large.
std::string read_text_file(const std::filesystem::path& path);

}  // namespace mortise::tokenizer
