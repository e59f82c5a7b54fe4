// runtime/checkpoint/json_file.hpp: reads the small JSON files of a checkpoint. They are not trusted, so size and depth
// are limited. Internal to this library, because it exposes nlohmann's type.
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

// Reads the JSON object in `path`. Throws an Error if the file is missing, larger than 64 MiB, nested too deeply, or
// not a JSON object.
nlohmann::json read_json_object(const std::filesystem::path& path);

// Returns the member `key`; null if it is absent. (Checkpoints write null for absent values.)
const nlohmann::json& member(const nlohmann::json& object, const char* key);

// Reads token ids as checkpoints write them: an integer, a list of integers, or null. Negative ids mean none (early
// Llamas have -1).
// Errors begin with `where`, the name of the file.
std::vector<std::int32_t> token_ids(const nlohmann::json& object, const char* key, std::string_view where);
std::optional<std::int32_t> token_id(const nlohmann::json& object, const char* key, std::string_view where);

}  // namespace mortise
