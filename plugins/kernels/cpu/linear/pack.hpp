// plugins/kernels/cpu/linear/pack.hpp: packs weights for the linear kernels, once, when a model is loaded. The order
// depends on the type alone, so packed weights are the same on every machine:
//   bf16  [ceil(N/16)][ceil(K/32)][16 pairs of k][16 n][2]   1 KiB per 16 columns and 32 k: an AMX B tile;
//                                                           on AVX-512 each 64-byte line is 16 columns' (even, odd) k
//   f32   [ceil(N/16)][ceil(K/32)][32 k][16 n]
// Elements beyond N and K are zero.
// Order: elements are independent.
// Cost: memory bound, reads each row once.
// Errors: none. Source: Intel SDM, TDPBF16PS (the B tile). Oracle: unpacking gives the matrix again
// (linear/linear_test.cpp).
#pragma once

#include "kernels/cpu/types.hpp"

namespace mortise::cpu {

constexpr std::size_t kPanelColumns = 16;
constexpr std::size_t kTileDepth = 32;

std::size_t packed_bytes_bf16(std::size_t n, std::size_t k);
std::size_t packed_bytes_f32(std::size_t n, std::size_t k);

// Packs one panel: 16 rows of w (columns of the product) of k elements each, into packed_bytes_...(16, k) bytes at
// `panel`. A null row is zeros, for rows beyond N. Rows may come from several matrices (q, k and v packed as one
// weight). Panels are independent: threads may pack different panels at once. REQUIRES: `panel` is 64-byte aligned.
void pack_panel_bf16(const Bf16* const (&rows)[kPanelColumns], std::size_t k, void* panel);
void pack_panel_f32(const float* const (&rows)[kPanelColumns], std::size_t k, void* panel);
// The same, widened to f32, which is exact. For bf16 checkpoints in class cpu-f32/1, and for f16 checkpoints, which
// have no class of their own.
void pack_panel_f32_from_bf16(const Bf16* const (&rows)[kPanelColumns], std::size_t k, void* panel);
void pack_panel_f32_from_f16(const F16* const (&rows)[kPanelColumns], std::size_t k, void* panel);

// Unpacks row n of w [N, K]: the embedding of a model with tied weights.
void unpack_row_bf16(const void* packed, std::size_t k, std::size_t n, Bf16* row);
void unpack_row_f32(const void* packed, std::size_t k, std::size_t n, float* row);

}  // namespace mortise::cpu
