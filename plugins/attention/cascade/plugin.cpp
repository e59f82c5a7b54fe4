#include "attention/common_cpu/component.hpp"
#include "mortise/plugin.hpp"

MORTISE_PLUGIN("mortise.cascade-cpu", "Mortise", "0.1.0", "Apache-2.0", &mortise::span_attention::kCascade)
