#include "attention/span_cpu/component.hpp"

MORTISE_PLUGIN("mortise.paged-cpu", "Mortise", "0.1.0", "Apache-2.0", &mortise::span_cpu::kPaged)
