#include "attention/span_cuda/component.hpp"

MORTISE_PLUGIN("mortise.paged-cuda", "Mortise", "0.1.0", "Apache-2.0", &mortise::span_cuda::kPaged)
