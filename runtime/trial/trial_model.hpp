// runtime/trial/trial_model.hpp: opens the model that a trial runs.
#pragma once

#include <cstdint>
#include <filesystem>

#include "execution/model_stack.hpp"

namespace mortise {

struct TrialModel {
  ModelFiles files;
  bool is_small = false;  // TrialRequests
};

// The checkpoint in the folder with its weights, which are mapped but not read. A large model is reduced to its first
// layers, so that a second copy in the device's layout costs little memory. All layers are alike, so the plugins' code
// runs in the same way. Its fingerprint differs from the checkpoint's. Throws an Error that names the file.
TrialModel open_trial_model(const std::filesystem::path& folder);

}  // namespace mortise
