// plugins/attention/span_cuda/component.hpp: the components of paged and cascade on CUDA; each plugin.cpp names one.
#pragma once

#include "attention/span_cuda/attention.hpp"

namespace mortise::span_cuda {

// The attention `paged`: no prefix groups. SpanAttention says on which threads it is used.
struct Paged : SpanAttention {
  Paged(const mortise_host*, const mortise_create_args& args) : SpanAttention(args, Sharing::kNone) {}
};
// The attention `cascade`: reads the blocks of a prefix group once.
struct Cascade : SpanAttention {
  Cascade(const mortise_host*, const mortise_create_args& args) : SpanAttention(args, Sharing::kPrefixGroups) {}
};

inline constexpr uint64_t kCapabilities =
    MORTISE_CAP_EXACT | MORTISE_CAP_CAPTURE | MORTISE_CAP_MULTI_QUERY | MORTISE_CAP_SLIDING_WINDOW;
static_assert(cuda::kSpan == 128, "the numerics id names the span");
inline constexpr const char* kNumericsId = "cuda-span128/2";

inline constexpr mortise_component kPaged = AttentionComponent<Paged>::component(
    "paged", "paged KV cache in bf16, int8 or fp8, attention in spans of 128 keys on tensor cores", kBlockSizeSchema,
    kNumericsId, kCapabilities);
inline constexpr mortise_component kCascade = AttentionComponent<Cascade>::component(
    "cascade", "as paged; whole spans of 128 keys that sequences share are read once for all of them", kBlockSizeSchema,
    kNumericsId, kCapabilities | MORTISE_CAP_CASCADE);

}  // namespace mortise::span_cuda
