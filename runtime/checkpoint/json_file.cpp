#include "checkpoint/json_file.hpp"

#include <algorithm>
#include <limits>

#include "checkpoint/mapped_file.hpp"
#include "error.hpp"

namespace mortise {
namespace {

constexpr std::size_t kMaxJsonBytes = std::size_t{64} << 20;  // the index of the largest models has 20 MB
// No configuration nests deeper than 6; nlohmann writes JSON recursively, so a deep one would end the stack.
constexpr int kMaxJsonDepth = 64;
constexpr std::size_t kMaxQuotedBytes = 120;

// ASCII alone: an error travels into terminals and JSON answers, and what is damaged is seldom valid UTF-8.
std::string printable(std::string_view text) {
  std::string out(text.substr(0, kMaxQuotedBytes));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  if (text.size() > kMaxQuotedBytes) out += "...";
  return out;
}

std::optional<std::int32_t> id_of(const nlohmann::json& value, const char* key, std::string_view where) {
  if (!value.is_number_integer()) {
    fail("{}: {} is {}; expected a token id or a list of them", where, key, quote(value.dump()));
  }
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto id = value.get<std::uint64_t>();
  if (id > std::numeric_limits<std::int32_t>::max()) fail("{}: {} is {}; that is no token id", where, key, id);
  return static_cast<std::int32_t>(id);
}

}  // namespace

std::string quote(std::string_view text) {
  return fmt::format("'{}'", printable(text));
}

std::string json_error_text(const nlohmann::json::exception& error) {
  const std::string_view text = error.what();
  const auto tag = text.find("] ");
  return printable(tag == text.npos ? text : text.substr(tag + 2));
}

nlohmann::json read_json_object(const std::filesystem::path& path) {
  const MappedFile file(path);
  if (file.bytes().size() > kMaxJsonBytes) {
    fail("{}: {} bytes; the limit is {}: this is no file of a checkpoint", path.native(), file.bytes().size(),
         kMaxJsonBytes);
  }
  const auto check_depth = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > kMaxJsonDepth) fail("{}: nested deeper than {} levels", path.native(), kMaxJsonDepth);
    return true;
  };
  const auto* text = reinterpret_cast<const char*>(file.bytes().data());
  try {
    auto document = nlohmann::json::parse(text, text + file.bytes().size(), check_depth);
    if (!document.is_object()) fail("{}: is a JSON {}; expected an object", path.native(), document.type_name());
    return document;
  } catch (const nlohmann::json::exception& error) {
    fail("{}: {}; download the file again", path.native(), json_error_text(error));
  }
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
