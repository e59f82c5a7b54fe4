#include "checkpoint/json_file.hpp"

#include <algorithm>
#include <limits>

#include "checkpoint/mapped_file.hpp"
#include "error.hpp"

namespace mortise {
namespace {

constexpr std::size_t kMaxJsonBytes = std::size_t{64} << 20;  // the index of the largest models has 20 MB
constexpr std::size_t kMaxTokenIds = 1024;  // Llama 3 has 3; each drawn token is compared with all of them

std::optional<std::int32_t> id_of(const nlohmann::json& value, const char* key, std::string_view where) {
  if (!value.is_number_integer()) {
    fail("{}: {} is {}; expected a token id or a list of them", where, key, quote(value.dump()));
  }
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto id = value.get<std::uint64_t>();
  if (id > std::numeric_limits<std::int32_t>::max()) fail("{}: {} is {}; that is not a token id", where, key, id);
  return static_cast<std::int32_t>(id);
}

}  // namespace

nlohmann::json read_json_object(const std::filesystem::path& path) {
  const MappedFile file(path);
  if (file.bytes().size() > kMaxJsonBytes) {
    fail("{}: {} bytes; the limit is {}: this is not a file of a checkpoint", path.native(), file.bytes().size(),
         kMaxJsonBytes);
  }
  nlohmann::json document;
  try {
    document = parse_json({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
  } catch (const Error& error) {
    fail("{}: {}; download the file again", path.native(), error.what());
  }
  if (!document.is_object()) fail("{}: is a JSON {}; expected an object", path.native(), document.type_name());
  return document;
}

const nlohmann::json& member(const nlohmann::json& object, const char* key) {
  static const nlohmann::json kNull;
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

std::vector<std::int32_t> token_ids(const nlohmann::json& object, const char* key, std::string_view where) {
  const nlohmann::json& value = member(object, key);
  if (value.is_null()) return {};
  std::vector<std::int32_t> ids;
  if (!value.is_array()) {
    if (const auto id = id_of(value, key, where)) ids.push_back(*id);
    return ids;
  }
  if (value.size() > kMaxTokenIds) {
    fail("{}: {} lists {} token ids; at most {} are allowed", where, key, value.size(), kMaxTokenIds);
  }
  for (const nlohmann::json& entry : value) {
    const auto id = id_of(entry, key, where);
    if (id && std::find(ids.begin(), ids.end(), *id) == ids.end()) ids.push_back(*id);
  }
  return ids;
}

std::optional<std::int32_t> token_id(const nlohmann::json& object, const char* key, std::string_view where) {
  const nlohmann::json& value = member(object, key);
  if (value.is_null()) return std::nullopt;
  return id_of(value, key, where);
}

}  // namespace mortise
