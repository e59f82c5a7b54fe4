// linear_pack.hpp: brings weights into the order that the linear kernels read, once, when a model is loaded.
// One order per type for all instruction sets, so packed weights do not depend on the machine:
//   bf16  [ceil(N/16)][ceil(K/32)][16 pairs of k][16 n][2]   1 KiB per 16 columns and 32 k: an AMX B tile; to AVX-512
//   each
//                                                           64-byte line is 16 columns' (even, odd) k
//   f32   [ceil(N/16)][ceil(K/32)][32 k][16 n]
// What lies beyond N and K is zero.
#pragma once

#include "kernels/cpu/types.hpp"

namespace mortise::cpu {

constexpr std::size_t kPanelColumns = 16;
constexpr std::size_t kTileDepth = 32;

std::size_t packed_bytes_bf16(std::size_t n, std::size_t k);
std::size_t packed_bytes_f32(std::size_t n, std::size_t k);

// Packs the columns [n0, n1) of w [N, K] (rows w_stride elements apart) into `packed`, which holds all N columns.
// Threads may pack different ranges at once.
// REQUIRES: n0 is a multiple of 16; n1 is one too, or is N; `packed` is 64-byte aligned.
void pack_bf16(const Bf16* w, std::size_t w_stride, std::size_t k, std::size_t n0, std::size_t n1, void* packed);
void pack_f32(const float* w, std::size_t w_stride, std::size_t k, std::size_t n0, std::size_t n1, void* packed);
// Widened to f32: exact. bf16 checkpoints in class cpu-f32/1, and f16 ones, whose weights have no other class.
void pack_f32_from_bf16(const Bf16* w, std::size_t w_stride, std::size_t k, std::size_t n0, std::size_t n1,
                        void* packed);
void pack_f32_from_f16(const F16* w, std::size_t w_stride, std::size_t k, std::size_t n0, std::size_t n1, void* packed);

}  // namespace mortise::cpu
