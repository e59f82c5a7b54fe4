// plugins/attention/span_cpu/component.hpp: the components of paged and cascade on the CPU; each plugin.cpp names one.
#pragma once

#include "attention/span_cpu/attention.hpp"

namespace mortise::span_cpu {

// The attention `paged`: no prefix groups. SpanAttention says on which threads it is used.
struct Paged : SpanAttention {
  Paged(const mortise_host* host, const mortise_create_args& args) : SpanAttention(host, args, Sharing::kNone) {}
};
// The attention `cascade`: reads the blocks of a prefix group once.
struct Cascade : SpanAttention {
  Cascade(const mortise_host* host, const mortise_create_args& args)
      : SpanAttention(host, args, Sharing::kPrefixGroups) {}
};

inline constexpr uint64_t kCapabilities =
    MORTISE_CAP_EXACT | MORTISE_CAP_MULTI_QUERY | MORTISE_CAP_SLIDING_WINDOW | MORTISE_CAP_PAIRS;
inline constexpr const char* kNumericsId = "attention-span256/1";  // or -pairs, see MORTISE_CAP_PAIRS

inline constexpr mortise_component kPaged = AttentionComponent<Paged>::component(
    "paged", "paged KV cache in bf16, f32, int8 or fp8, attention in spans of 256 keys", kBlockSizeSchema, kNumericsId,
    kCapabilities);
inline constexpr mortise_component kCascade = AttentionComponent<Cascade>::component(
    "cascade", "as paged; a prefix that sequences share is read once for all of them", kBlockSizeSchema, kNumericsId,
    kCapabilities | MORTISE_CAP_CASCADE);

}  // namespace mortise::span_cpu
