// plugins/proposers/oracle/recorded_texts.hpp: the texts of a request log: prompt and output of each choice. Immutable
// once constructed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

namespace mortise::oracle {

// The texts of a log. Invariant: texts_ is sorted, and each text is in it once. Immutable: any thread may read it.
class RecordedTexts {
 public:
  // Reads prompts and tokens from a log of `--record` (format: runtime/replay/request_log.hpp). Throws a Failure that
  // names the file, and the line if there is one.
  explicit RecordedTexts(const std::filesystem::path& log);

  // Returns the number of a text that begins with these tokens and is longer; of several, the first in lexicographic
  // order. The same log gives the same numbers.
  std::optional<std::size_t> find(std::span<const int32_t> beginning) const;
  std::span<const int32_t> text(std::size_t number) const { return texts_[number]; }
  std::size_t size() const { return texts_.size(); }
  int32_t largest_token() const;

 private:
  std::vector<std::vector<int32_t>> texts_;  // in lexicographic order, each once
};

}  // namespace mortise::oracle
