// runtime/assembly/default_parts.hpp: chooses the parts that serve a checkpoint without a script.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "loader/catalog.hpp"

namespace mortise {

struct DefaultParts {
  std::string device, model, attention, scheduler;
  std::string proposer;     // a proposer without a second model; "": none is installed
  std::string model_dtype;  // "bf16" if the device computes in no other type of the checkpoint; else ""
  std::uint64_t weight_bytes = 0;
  std::optional<std::uint64_t> device_bytes;  // free memory, of a device with memory of its own
};

// Creates the model to learn its dimensions, without reading the weights. Starts the device, because nothing else shows
// whether there is a GPU. Throws an Error that says what is wrong with the folder (no config.json, no tokenizer.json,
// weights in another format). If no model plugin serves the checkpoint, the Error lists the architectures that the
// plugins have.
DefaultParts choose_default_parts(const std::filesystem::path& folder, const PluginCatalog& catalog);

}  // namespace mortise
