#include "models/gpt2/config.hpp"
#include "mortise/model.hpp"

namespace mortise::gpt2 {
namespace {

// A GPT-2 model: the common decoder with GPT-2's configuration and names. Used only by the thread that runs steps.
class Model : public models::PositionDecoder {
 public:
  explicit Model(const mortise_create_args& args)
      : PositionDecoder(args, parse_config(view(args.model_config)), tensor_names()) {}
  static void check_config(std::string_view config) { parse_config(config); }
};

constexpr mortise_component kGpt2 = ModelComponent<Model>::component(
    "gpt2", "GPT-2 checkpoints in bf16 or f32, with weights in bf16, f32, int8 or int4", models::kOptionsSchema);

}  // namespace
}  // namespace mortise::gpt2

MORTISE_PLUGIN("mortise.gpt2", "Mortise", "0.1.0", "Apache-2.0", &mortise::gpt2::kGpt2)
