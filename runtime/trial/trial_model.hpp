// runtime/trial/trial_model.hpp: the model that a trial runs.
#pragma once

#include <cstdint>
#include <filesystem>

#include "execution/model_stack.hpp"

namespace mortise {

struct TrialModel {
  ModelFiles files;
  bool is_small = false;  // TrialRequests
};

// The checkpoint in the folder with its weights, which are mapped and not read; of a large one the first layers alone,
// so that a second copy of it, in the layout that its device computes with, costs little. Each layer does the same, so
// the plugins' code runs all the same. Its fingerprint is not the checkpoint's. Throws an Error that names the file.
TrialModel open_trial_model(const std::filesystem::path& folder);

}  // namespace mortise
