// plugins/attention/cascade_cuda/plugin.cpp: the component table of cascade, which is paged that shares.
#include "attention/span_cuda/component.hpp"

namespace mortise::span_cuda {
namespace {

mortise_status create_cascade(const mortise_host*, const mortise_create_args* args, void** instance,
                              mortise_error* error) {
  return create(Sharing::kPrefixGroups, args, instance, error);
}

constexpr mortise_component kCascade = {
    sizeof(mortise_component),
    0,
    MORTISE_KIND_ATTENTION,
    0,
    MORTISE_CAP_EXACT | MORTISE_CAP_CAPTURE | MORTISE_CAP_MULTI_QUERY | MORTISE_CAP_CASCADE |
        MORTISE_CAP_SLIDING_WINDOW,
    "cascade",
    "as paged; what sequences share in whole spans of 128 keys is read once for all of them",
    kOptionsSchema,
    kNumericsId,
    &kAttentionTable,
    supports,
    create_cascade,
    destroy,
    activate,
    deactivate,
    nullptr,
};

}  // namespace
}  // namespace mortise::span_cuda

MORTISE_PLUGIN("mortise.cascade-cuda", "Mortise", "0.1.0", "Apache-2.0", &mortise::span_cuda::kCascade)
