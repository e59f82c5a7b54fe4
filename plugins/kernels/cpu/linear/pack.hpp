// linear/pack.hpp: brings weights into the order that the linear kernels read, once, when a model is loaded.
// One order per type for all instruction sets, so packed weights do not depend on the machine:
//   bf16  [ceil(N/16)][ceil(K/32)][16 pairs of k][16 n][2]   1 KiB per 16 columns and 32 k: an AMX B tile;
//                                                           to AVX-512 each 64-byte line is 16 columns' (even, odd) k
//   f32   [ceil(N/16)][ceil(K/32)][32 k][16 n]
// What lies beyond N and K is zero.
#pragma once

#include "kernels/cpu/types.hpp"

namespace mortise::cpu {

constexpr std::size_t kPanelColumns = 16;
constexpr std::size_t kTileDepth = 32;

std::size_t packed_bytes_bf16(std::size_t n, std::size_t k);
std::size_t packed_bytes_f32(std::size_t n, std::size_t k);

// Packs one panel: the 16 rows of w (columns of the product) that `rows` points to, k elements each, into
// packed_bytes_...(16, k) bytes at `panel`. A null row is zeros: what lies beyond N. Rows need not belong to one matrix
// (q, k and v packed as one weight). Panels are independent: threads may pack different ones at once.
// REQUIRES: `panel` is 64-byte aligned.
void pack_panel_bf16(const Bf16* const (&rows)[kPanelColumns], std::size_t k, void* panel);
void pack_panel_f32(const float* const (&rows)[kPanelColumns], std::size_t k, void* panel);
// Widened to f32: exact. bf16 checkpoints in class cpu-f32/1, and f16 ones, whose weights have no other class.
void pack_panel_f32_from_bf16(const Bf16* const (&rows)[kPanelColumns], std::size_t k, void* panel);
void pack_panel_f32_from_f16(const F16* const (&rows)[kPanelColumns], std::size_t k, void* panel);

// Row n of w [N, K] again, from what the above packed: the embedding of a model with tied weights.
void unpack_row_bf16(const void* packed, std::size_t k, std::size_t n, Bf16* row);
void unpack_row_f32(const void* packed, std::size_t k, std::size_t n, float* row);

}  // namespace mortise::cpu
