// tests/plugins/devices/cpu/draws.hpp: rows to draw tokens from, each with other options.
#pragma once

#include <cmath>

#include "device_fixture.hpp"
#include "kernels/cpu/reference/sample_token.hpp"

namespace mortise::cpu {

inline constexpr std::size_t kRows = 7, kVocab = 5000;

// The arrays of `sample` for kRows rows with different options.
struct Draws {
  std::vector<float> temperatures = {0, 1, 1, 0.7f, 2, 1, 1}, top_ps = {1, 1, 0.9f, 0.5f, 1, 1, 0.95f};
  std::vector<float> min_ps = {0, 0, 0, 0, 0.05f, 0, 0};
  std::vector<std::int32_t> top_ks = {0, 0, 0, 40, 0, 1, -1};
  std::vector<std::uint64_t> keys = {1, 2, 3, 4, 5, 6, 0xffffffffffffffff};
  std::vector<std::int64_t> positions = {0, 1, 77, 77, 1ll << 33, 5, 6};
  std::vector<mortise_logit_edit> edits = {
      {0, 0, 0.9f, 0.5f}, {}, {77, -INFINITY, 1, 0}, {5, 5, 1.2f, 0}, {4999, 2, 1, 1}};
  std::vector<std::int32_t> edit_begins = {0, 2, 0, 0, 4, 0, 0}, edit_counts = {0, 2, 0, 0, 1, 0, 1};
  std::vector<std::int32_t> allowed_index = {-1, -1, -1, 1, -1, 0, -1};
  std::vector<std::uint32_t> allowed_masks = std::vector<std::uint32_t>(2 * ((kVocab + 31) / 32), 0xf0f0f0f0u);
  std::vector<std::int32_t> tokens = std::vector<std::int32_t>(kRows, -9);
  std::vector<float> logprobs = std::vector<float>(kRows, 9);

  mortise_sample_args args(const mortise_tensor& logits) {
    auto a = sized<mortise_sample_args>();
    a.logits = &logits;
    a.temperatures = temperatures.data(), a.top_ks = top_ks.data(), a.top_ps = top_ps.data(), a.min_ps = min_ps.data();
    a.keys = keys.data(), a.positions = positions.data();
    a.edits = edits.data(), a.edit_begins = edit_begins.data(), a.edit_counts = edit_counts.data();
    a.allowed_index = allowed_index.data(), a.allowed_masks = allowed_masks.data();
    a.tokens = tokens.data(), a.processed_logprobs = logprobs.data();
    return a;
  }
  SampleRow row_of(const std::vector<float>& row, std::size_t r) const {
    SampleRow s = {};
    s.logits = row.data(), s.vocab_size = row.size();
    s.temperature = temperatures[r], s.top_k = top_ks[r], s.top_p = top_ps[r], s.min_p = min_ps[r];
    s.key = keys[r], s.position = static_cast<std::uint64_t>(positions[r]);
    s.num_edits = static_cast<std::size_t>(edit_counts[r]);
    s.edits = reinterpret_cast<const LogitEdit*>(edits.data()) + edit_begins[r];
    if (allowed_index[r] >= 0) s.allowed = &allowed_masks[0] + allowed_index[r] * ((kVocab + 31) / 32);
    return s;
  }
  reference::Sampled expected(const std::vector<float>& row, std::size_t r) const {
    return reference::sample_token(row_of(row, r));
  }
};

}  // namespace mortise::cpu
