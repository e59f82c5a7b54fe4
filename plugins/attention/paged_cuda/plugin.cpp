// plugins/attention/paged_cuda/plugin.cpp: the component table of paged.
#include "attention/span_cuda/component.hpp"

namespace mortise::span_cuda {
namespace {

mortise_status create_paged(const mortise_host*, const mortise_create_args* args, void** instance,
                            mortise_error* error) {
  return create(Sharing::kNone, args, instance, error);
}

constexpr mortise_component kPaged = {
    sizeof(mortise_component),
    0,
    MORTISE_KIND_ATTENTION,
    0,
    MORTISE_CAP_EXACT | MORTISE_CAP_CAPTURE | MORTISE_CAP_MULTI_QUERY | MORTISE_CAP_SLIDING_WINDOW,
    "paged",
    "paged KV cache in bf16, attention in spans of 128 keys on tensor cores",
    kOptionsSchema,
    kNumericsId,
    &kAttentionTable,
    supports,
    create_paged,
    destroy,
    activate,
    deactivate,
    nullptr,
};

}  // namespace
}  // namespace mortise::span_cuda

MORTISE_PLUGIN("mortise.paged-cuda", "Mortise", "0.1.0", "Apache-2.0", &mortise::span_cuda::kPaged)
