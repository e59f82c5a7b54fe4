#include "models/opt/config.hpp"
#include "mortise/model.hpp"

namespace mortise::opt {
namespace {

// An OPT model: the common decoder with OPT's configuration and names. Used only by the thread that runs steps.
class Model : public models::PositionDecoder {
 public:
  explicit Model(const mortise_create_args& args)
      : PositionDecoder(args, parse_config(view(args.model_config)), tensor_names()) {}
  static void check_config(std::string_view config) { parse_config(config); }
};

constexpr mortise_component kOpt = ModelComponent<Model>::component(
    "opt", "OPT checkpoints in bf16 or f32, with weights in bf16, f32, int8 or int4", models::kOptionsSchema);

}  // namespace
}  // namespace mortise::opt

MORTISE_PLUGIN("mortise.opt", "Mortise", "0.1.0", "Apache-2.0", &mortise::opt::kOpt)
