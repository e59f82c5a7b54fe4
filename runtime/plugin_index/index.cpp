#include "plugin_index/index.hpp"

#include <cstring>

#include <algorithm>
#include <boost/algorithm/string/predicate.hpp>
#include <set>
#include <tuple>

#include "error.hpp"
#include "json/bounded_json.hpp"
#include "loader/nearest.hpp"

namespace mortise {
namespace {

constexpr const char* kIndexFormat = "mortise-index/1";

// 1.10 is newer than 1.9.
bool is_newer(const IndexLine& a, const IndexLine& b) {
  return ::strverscmp(a.version.c_str(), b.version.c_str()) > 0;
}

bool has_part(const IndexLine& line, const std::string& name) {
  return std::ranges::find(line.parts, name, &IndexedPart::name) != line.parts.end();
}

bool has_word(const IndexLine& line, const std::string& word) {
  if (boost::algorithm::icontains(line.id, word)) return true;
  return std::ranges::any_of(line.parts, [&](const IndexedPart& part) {
    return boost::algorithm::icontains(part.name, word) || boost::algorithm::icontains(part.summary, word) ||
           boost::algorithm::iequals(kind_name(part.kind), word) ||
           std::ranges::any_of(part.numerics, [&](const auto& id) { return boost::algorithm::icontains(id, word); });
  });
}

}  // namespace

std::vector<IndexLine> parse_index(std::string_view text) {
  const nlohmann::json json = parse_json(text);
  if (!json.is_object() || json.value("format", nlohmann::json()) != kIndexFormat) {
    fail("this is not an index of plugins: it has no \"format\": \"{}\"", kIndexFormat);
  }
  const auto plugins = json.find("plugins");
  if (plugins == json.end() || !plugins->is_array()) fail("'plugins' is not a list");
  std::vector<IndexLine> lines;
  for (const nlohmann::json& object : *plugins) {
    try {
      if (!object.is_object()) fail("it is not an object");
      IndexLine line;
      line.entry = name_field(object, "entry");
      line.id = text_field(object, "id", 200);
      line.version = name_field(object, "version");
      std::tie(line.abi_major, line.abi_minor) = abi_field(object);
      line.platform = name_field(object, "platform");
      line.parts = parse_parts(object);
      lines.push_back(std::move(line));
    } catch (const Error& error) {
      fail("plugin {} of the index: {}", lines.size() + 1, error.what());
    }
  }
  return lines;
}

std::string to_text(const std::vector<IndexLine>& lines) {
  nlohmann::ordered_json json;
  json["format"] = kIndexFormat;
  json["plugins"] = nlohmann::ordered_json::array();
  for (const IndexLine& line : lines) {
    nlohmann::ordered_json object;
    object["entry"] = line.entry;
    object["id"] = line.id;
    object["version"] = line.version;
    object["abi"] = fmt::format("{}.{}", line.abi_major, line.abi_minor);
    object["platform"] = line.platform;
    object["parts"] = parts_to_json(line.parts);
    json["plugins"].push_back(std::move(object));
  }
  return json.dump(2) + "\n";
}

IndexLine line_of(const IndexEntry& entry) {
  return {.entry = entry_stem(entry) + ".json",
          .id = entry.id,
          .version = entry.version,
          .abi_major = entry.abi_major,
          .abi_minor = entry.abi_minor,
          .platform = entry.platform,
          .parts = entry.parts};
}

std::vector<IndexLine> search(const std::vector<IndexLine>& lines, const std::vector<std::string>& words) {
  std::vector<IndexLine> found;
  for (const IndexLine& line : lines) {
    if (std::ranges::all_of(words, [&](const std::string& word) { return has_word(line, word); }))
      found.push_back(line);
  }
  std::ranges::stable_sort(found, [](const IndexLine& a, const IndexLine& b) {
    const std::string& name = a.parts.front().name;
    const std::string& other = b.parts.front().name;
    return name != other ? name < other : is_newer(a, b);
  });
  return found;
}

const IndexLine& find_line(const std::vector<IndexLine>& lines, const std::string& name, const std::string& version) {
  const IndexLine* best = nullptr;
  std::string versions, unusable;
  std::set<std::string> names;
  for (const IndexLine& line : lines) {
    for (const IndexedPart& part : line.parts) names.insert(part.name);
    if (!has_part(line, name)) continue;
    versions += (versions.empty() ? "" : ", ") + line.version;
    if (!version.empty()) {
      if (line.version == version) return line;
      continue;
    }
    const std::string reason = unusable_here(line.abi_major, line.abi_minor, line.platform);
    if (!reason.empty()) unusable += fmt::format("{}{}: {}", unusable.empty() ? "" : "; ", line.version, reason);
    if (reason.empty() && (best == nullptr || is_newer(line, *best))) best = &line;
  }
  if (best != nullptr) return *best;
  if (versions.empty()) {
    const std::vector<std::string> all(names.begin(), names.end());
    fail(ErrorCode::kNotFound, "the index has no plugin '{}'{} (`mortise plugin search` lists its plugins)", name,
         did_you_mean(name, all));
  }
  if (!version.empty()) {
    fail(ErrorCode::kNotFound, "the index has no version {} of '{}', but it has {}", version, name, versions);
  }
  fail("no version of '{}' in the index can be used here: {}", name, unusable);
}

}  // namespace mortise
