// tests/golden/write_gguf.hpp: writes GGUF files, for tests that need one to read: of parts that a test names, right or
// wrong, and of a Hugging Face checkpoint, as llama.cpp's converter does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace mortise::test {

// Collects the keys and tensors of a file. Nothing is checked, so a test can write any file.
class GgufWriter {
 public:
  GgufWriter& whole(const std::string& key, std::uint32_t value);
  GgufWriter& number(const std::string& key, float value);
  GgufWriter& truth(const std::string& key, bool value);
  GgufWriter& text(const std::string& key, const std::string& value);
  GgufWriter& texts(const std::string& key, const std::vector<std::string>& values);
  GgufWriter& wholes(const std::string& key, const std::vector<std::int32_t>& values);
  GgufWriter& numbers(const std::string& key, const std::vector<float>& values);
  // A key whose value is written already: its type and its bytes.
  GgufWriter& raw(const std::string& key, std::uint32_t type, const std::string& bytes);

  // `shape`: rows first; `type`: the number of the format.
  GgufWriter& tensor(const std::string& name, std::uint32_t type, const std::vector<std::int64_t>& shape,
                     const std::string& bytes);
  // Makes each matrix with `which` in its name one of another type, whose blocks of `elements` numbers have
  // `block_bytes` bytes; halves in them are finite. A matrix whose rows are no whole blocks stays as it is.
  GgufWriter& retype(const std::string& which, std::uint32_t type, std::int64_t elements, std::size_t block_bytes);
  // Tensors from here on begin at a multiple of this. The key general.alignment is the caller's.
  GgufWriter& alignment(std::uint64_t value);

  std::string bytes(std::uint32_t version = 3) const;

 private:
  struct Tensor {
    std::string name;
    std::uint32_t type;
    std::vector<std::int64_t> shape;
    std::string bytes;
  };
  std::string keys_;
  std::uint64_t num_keys_ = 0, alignment_ = 32;
  std::vector<Tensor> tensors_;
};

// The keys and tensors of the checkpoint in `folder` (of the families llama, mistral, qwen2, qwen3, gpt2), but for its
// tokenizer. Matrices keep their type, vectors become f32, as llama.cpp writes them.
GgufWriter gguf_of_checkpoint(const std::filesystem::path& folder);

// Adds the tokenizer.json of `folder`. `pre`: the name of its pre-tokenizer; empty: SentencePiece.
void add_tokenizer(GgufWriter& writer, const std::filesystem::path& folder, const std::string& pre);

}  // namespace mortise::test
