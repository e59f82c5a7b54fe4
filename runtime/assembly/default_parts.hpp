// runtime/assembly/default_parts.hpp: which parts serve a checkpoint when no script says so.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "loader/catalog.hpp"

namespace mortise {

struct DefaultParts {
  std::string device, model, attention, scheduler;
  std::string proposer;     // needs no second model; "": there is none
  std::string model_dtype;  // "bf16" when the device computes in no other type that the checkpoint could have; else ""
  std::uint64_t weight_bytes = 0;
  std::optional<std::uint64_t> device_bytes;  // that a device with memory of its own has free
};

// The checkpoint's weights are not read: the model is made and asked for its dimensions. The device is started, because
// nothing else tells whether there is a GPU. Throws an Error that says what is wrong with the folder (no config.json,
// no tokenizer.json, weights in another format), or which architectures the model plugins have when none serves it.
DefaultParts choose_default_parts(const std::filesystem::path& folder, const PluginCatalog& catalog);

}  // namespace mortise
