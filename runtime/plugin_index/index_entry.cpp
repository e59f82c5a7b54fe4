#include "plugin_index/index_entry.hpp"

#include <algorithm>
#include <charconv>

#include "error.hpp"
#include "json/bounded_json.hpp"
#include "loader/plugin_file.hpp"

namespace mortise {
namespace {

constexpr const char* kEntryFormat = "mortise-plugin/1";
constexpr std::size_t kMaxParts = 64;
constexpr std::size_t kMaxNumerics = 16;

const nlohmann::json& field(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) fail("'{}' is missing", key);
  return *found;
}

std::uint64_t count_field(const nlohmann::json& object, const char* key) {
  const nlohmann::json& value = field(object, key);
  if (!value.is_number_unsigned()) fail("'{}' is not a whole number", key);
  return value.get<std::uint64_t>();
}

std::string sha256_field(const nlohmann::json& object) {
  const std::string text = text_field(object, "sha256", 64);
  if (is_sha256(text)) return text;
  fail("'sha256' is not 64 lower-case hexadecimal digits");
}

PartKind kind_field(const nlohmann::json& object) {
  const std::string name = text_field(object, "kind", 20);
  const auto* const kind = std::ranges::find(kAllKinds, name, kind_name);
  if (kind == std::end(kAllKinds)) fail("{} is not a kind of part", quote(name));
  return *kind;
}

std::vector<std::string> numerics_field(const nlohmann::json& object) {
  std::vector<std::string> ids;
  const nlohmann::json& list = field(object, "numerics");
  if (!list.is_array() || list.size() > kMaxNumerics) fail("'numerics' is not a list of up to {} ids", kMaxNumerics);
  for (const nlohmann::json& id : list) ids.push_back(text_field({{"numerics", id}}, "numerics", 200));
  return ids;
}

PublishedCheck parse_check(const nlohmann::json& check) {
  if (!check.is_object()) fail("'check' is not an object");
  PublishedCheck parsed{.mortise = name_field(check, "mortise"),
                        .level = name_field(check, "level"),
                        .passed = count_field(check, "passed"),
                        .not_applicable = count_field(check, "not_applicable")};
  parsed.options = field(check, "options");
  if (!parsed.options.is_object()) fail("'options' of 'check' is not an object");
  return parsed;
}

}  // namespace

std::string text_field(const nlohmann::json& object, const char* key, std::size_t limit) {
  const nlohmann::json& value = field(object, key);
  if (!value.is_string()) fail("'{}' is not a text", key);
  std::string text = value.get<std::string>();
  bool is_line = !text.empty() && text.size() <= limit;
  for (std::size_t i = 0; is_line && i < text.size(); ++i) is_line = control_bytes(text, i) == 0;
  if (!is_line) fail("'{}' is not a line of 1 to {} bytes without control characters", key, limit);
  return text;
}

std::string name_field(const nlohmann::json& object, const char* key) {
  std::string text = text_field(object, key, 100);
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_+";
  if (text.find_first_not_of(kAllowed) != std::string::npos || text.front() == '.' || text.front() == '-') {
    fail("'{}' is {}: letters, digits and '.-_+' are allowed, and a letter or digit begins it", key, quote(text));
  }
  return text;
}

std::pair<std::uint32_t, std::uint32_t> abi_field(const nlohmann::json& object) {
  const std::string text = text_field(object, "abi", 20);
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, major);
  if (first.ec == std::errc() && first.ptr != end && *first.ptr == '.') {
    const auto second = std::from_chars(first.ptr + 1, end, minor);
    if (second.ec == std::errc() && second.ptr == end) return {major, minor};
  }
  fail("'abi' is {}, not a version as \"{}.{}\"", quote(text), MORTISE_ABI_MAJOR, MORTISE_ABI_MINOR);
}

std::vector<IndexedPart> parse_parts(const nlohmann::json& object) {
  const nlohmann::json& list = field(object, "parts");
  if (!list.is_array() || list.empty() || list.size() > kMaxParts) fail("'parts' is not a list of 1 to {}", kMaxParts);
  std::vector<IndexedPart> parts;
  for (const nlohmann::json& part : list) {
    if (!part.is_object()) fail("'parts' has an element that is not an object");
    IndexedPart parsed{text_field(part, "name", 64), kind_field(part), text_field(part, "summary", 400),
                       numerics_field(part)};
    if (!is_part_name(parsed.name)) fail("{} is not the name of a part", quote(parsed.name));
    parts.push_back(std::move(parsed));
  }
  return parts;
}

nlohmann::ordered_json parts_to_json(const std::vector<IndexedPart>& parts) {
  auto list = nlohmann::ordered_json::array();
  for (const IndexedPart& part : parts) {
    nlohmann::ordered_json object;
    object["name"] = part.name;
    object["kind"] = kind_name(part.kind);
    object["summary"] = part.summary;
    object["numerics"] = part.numerics;
    list.push_back(std::move(object));
  }
  return list;
}

IndexEntry parse_index_entry(std::string_view text) {
  const nlohmann::json json = parse_json(text);
  if (!json.is_object() || json.value("format", nlohmann::json()) != kEntryFormat) {
    fail("this is not an entry of a plugin index: it has no \"format\": \"{}\"", kEntryFormat);
  }
  IndexEntry entry;
  entry.id = text_field(json, "id", 200);
  entry.version = name_field(json, "version");
  entry.vendor = text_field(json, "vendor", 200);
  entry.license = text_field(json, "license", 200);
  std::tie(entry.abi_major, entry.abi_minor) = abi_field(json);
  entry.platform = name_field(json, "platform");
  entry.file = name_field(json, "file");
  entry.size = count_field(json, "size");
  if (entry.size > kMaxPluginFileBytes)
    fail("'size' is {}, and at most {} is allowed", entry.size, kMaxPluginFileBytes);
  entry.sha256 = sha256_field(json);
  entry.parts = parse_parts(json);
  entry.check = parse_check(field(json, "check"));
  if (!entry.file.ends_with(".so")) fail("'file' is {}, which is not a .so file", quote(entry.file));
  return entry;
}

nlohmann::ordered_json to_json(const IndexEntry& entry) {
  nlohmann::ordered_json json;
  json["format"] = kEntryFormat;
  json["id"] = entry.id;
  json["version"] = entry.version;
  json["vendor"] = entry.vendor;
  json["license"] = entry.license;
  json["abi"] = fmt::format("{}.{}", entry.abi_major, entry.abi_minor);
  json["platform"] = entry.platform;
  json["file"] = entry.file;
  json["size"] = entry.size;
  json["sha256"] = entry.sha256;
  json["parts"] = parts_to_json(entry.parts);
  json["check"] = {{"mortise", entry.check.mortise},
                   {"level", entry.check.level},
                   {"passed", entry.check.passed},
                   {"not_applicable", entry.check.not_applicable},
                   {"options", entry.check.options}};
  return json;
}

std::string entry_stem(const IndexEntry& entry) {
  return entry.parts.front().name + "-" + entry.version;
}

std::string this_platform() {
#if defined(__x86_64__)
  return "linux-x86_64";
#elif defined(__aarch64__)
  return "linux-aarch64";
#else
  return "linux-unknown";
#endif
}

std::string unusable_here(std::uint32_t abi_major, std::uint32_t abi_minor, std::string_view platform) {
  if (platform != this_platform()) return fmt::format("it is for {}, and this is {}", platform, this_platform());
  if (abi_major == MORTISE_ABI_MAJOR && abi_minor >= MORTISE_ABI_OLDEST_MINOR && abi_minor <= MORTISE_ABI_MINOR) {
    return "";
  }
  return fmt::format("it is built for plugin ABI {}.{}, and this mortise loads {}.{} to {}.{}", abi_major, abi_minor,
                     MORTISE_ABI_MAJOR, MORTISE_ABI_OLDEST_MINOR, MORTISE_ABI_MAJOR, MORTISE_ABI_MINOR);
}

}  // namespace mortise
