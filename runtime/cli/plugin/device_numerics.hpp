// runtime/cli/plugin/device_numerics.hpp: the numerics ids of a device, which it knows only once it is open.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "loader/part_instance.hpp"

namespace mortise {

// Returns an instance with default options. Throws an Error if the device cannot be used on this machine.
PartInstance open_device(const Component& component);

// Returns pairs of a numerics id and the data type that it is for: {"cpu-bf16/1", "bf16"}.
std::vector<std::pair<std::string, const char*>> device_numerics(const PartInstance& device);

}  // namespace mortise
