// runtime/checkpoint/json_file.hpp: reads the small JSON files of a checkpoint, which come from strangers: the size and
// the depth are limited. Internal to this library (it shows nlohmann's type).
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "json/bounded_json.hpp"

namespace mortise {

// The object in `path`. Error when the file is missing, larger than 64 MiB, nested too deep, or no JSON object.
nlohmann::json read_json_object(const std::filesystem::path& path);

// The member `key`, or null when it is absent. Checkpoints write null for absent, so callers need no third case.
const nlohmann::json& member(const nlohmann::json& object, const char* key);

// Token ids as checkpoints write them: an integer, a list of them, or null. Negative ids mean "none" (early Llamas
// write -1). `where` begins the error: the file's name.
std::vector<std::int32_t> token_ids(const nlohmann::json& object, const char* key, std::string_view where);
std::optional<std::int32_t> token_id(const nlohmann::json& object, const char* key, std::string_view where);

}  // namespace mortise
