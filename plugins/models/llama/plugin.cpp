#include "models/common/model_options.hpp"
#include "models/llama/model.hpp"
#include "mortise/model.hpp"

namespace mortise::llama {
namespace {

constexpr mortise_component kLlama = ModelComponent<Model>::component(
    "llama", "Llama, Mistral, Qwen2 and Qwen3 checkpoints in bf16 or f32, with weights in bf16, f32, int8 or int4",
    models::kOptionsSchema);

}  // namespace
}  // namespace mortise::llama

MORTISE_PLUGIN("mortise.llama", "Mortise", "0.1.0", "Apache-2.0", &mortise::llama::kLlama)
