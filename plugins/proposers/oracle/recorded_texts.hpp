// plugins/proposers/oracle/recorded_texts.hpp: the texts of a request log: what each choice had as prompt and output.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

namespace mortise::oracle {

class RecordedTexts {
 public:
  // Reads a log of `--record` (runtime/replay/request_log.hpp has the format), of which only prompt and tokens count.
  // Throws a Failure that names the file, and the line where there is one.
  explicit RecordedTexts(const std::filesystem::path& log);

  // A text that begins with these tokens and goes on, by its number: the same log, the same numbers. With several of
  // them, the first in lexicographic order.
  std::optional<std::size_t> find(std::span<const int32_t> beginning) const;
  std::span<const int32_t> text(std::size_t number) const { return texts_[number]; }
  std::size_t size() const { return texts_.size(); }
  int32_t largest_token() const;

 private:
  std::vector<std::vector<int32_t>> texts_;  // in lexicographic order, each once
};

}  // namespace mortise::oracle
