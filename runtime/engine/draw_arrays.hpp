// runtime/engine/draw_arrays.hpp: the sampling arguments of the rows that draw a token, struct of arrays, as a device's
// `sample` takes them.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "engine/sequence.hpp"
#include "engine/step_rows.hpp"
#include "sampling/distribution.hpp"

namespace mortise {

struct DrawArrays {
  explicit DrawArrays(std::int32_t vocab_size) : mask_words((static_cast<std::size_t>(vocab_size) + 31) / 32) {}

  const std::size_t mask_words;
  std::vector<float> temperatures, top_ps, min_ps, biases, repetitions, subtracts;
  std::vector<std::int32_t> top_ks, edit_offsets{0}, edit_ids, allowed_index;
  std::vector<std::uint32_t> allowed_masks;  // none as long as no row is guided
  std::vector<std::uint64_t> keys;
  std::vector<std::int64_t> positions;

  void add(const Sequence& sequence, const LogitRow& row);
  // Of the i-th row that was added; borrows.
  RowSampling row(std::size_t i) const;

 private:
  std::int32_t allowed_set(const Sequence& sequence, std::span<const std::int32_t> drafts);

  std::map<std::pair<const ChoiceTrie*, ChoiceTrie::Node>, std::int32_t> mask_of_;
};

// Drafts of the row's sequence that lie before the row.
inline std::size_t num_drafts_before(const Sequence& sequence, const LogitRow& row) {
  return static_cast<std::size_t>(row.position - (sequence.num_tokens() - 1));
}

}  // namespace mortise
