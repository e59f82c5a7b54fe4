// runtime/tokenizer/file/tokenizer_file.hpp: reads tokenizer.json. The bulk of the file, model.vocab and model.merges
// (hundreds of thousands of strings), goes from the parser directly into flat tables and never becomes a JSON tree,
// which keeps loading fast.
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

// The merges as pairs of texts, in the order of the file. Invariant: the two texts of every merge are ranges of texts_.
// One thread adds; then it is immutable.
class MergeList {
 public:
  void add(std::string_view left, std::string_view right);

  std::size_t size() const { return merges_.size(); }
  std::string_view left(std::size_t i) const { return text(merges_[i].offset, merges_[i].left_length); }
  std::string_view right(std::size_t i) const {
    return text(merges_[i].offset + merges_[i].left_length, merges_[i].right_length);
  }
  // The concatenation of left and right.
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

// A tokenizer.json that was read. A value.
struct TokenizerFile {
  std::string path;
  std::string hash;         // of all bytes of the file
  nlohmann::json document;  // everything but model.vocab and model.merges
  Vocabulary vocabulary;    // of the model; added tokens are in the document
  MergeList merges;
  bool has_vocabulary = false;
  bool has_merges = false;

  ConfigNode root() const { return {document, path}; }
};

// Throws an Error if the file is missing, is not JSON, or has a vocabulary or merges in another form than BPE's.
TokenizerFile read_tokenizer_file(const std::filesystem::path& path);

// Reads a small JSON file (tokenizer_config.json). Throws an Error if it is missing, too large or not JSON.
nlohmann::json read_json_file(const std::filesystem::path& path);

// Reads a small file as bytes (a chat template). Throws an Error if it cannot be read or is too large.
std::string read_text_file(const std::filesystem::path& path);

}  // namespace mortise::tokenizer
