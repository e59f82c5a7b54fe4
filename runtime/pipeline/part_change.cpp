#include "pipeline/part_change.hpp"

#include <algorithm>
#include <vector>

#include "error.hpp"
#include "loader/nearest.hpp"
#include "loader/options_schema.hpp"
#include "pipeline/constructors.hpp"
#include "pipeline/lua_table.hpp"

namespace mortise {
namespace {

constexpr const char* kChangeForm = "write KEY PLUGIN {option = value}, as in: attention cascade {block_size = 16}";

// Removes the first word from `text` and returns it.
std::string take_word(std::string_view& text) {
  constexpr std::string_view kSpace = " \t\n";
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  const std::size_t end = std::min(text.find_first_of(" \t\n{"), text.size());
  std::string word(text.substr(0, end));
  text.remove_prefix(end);
  return word;
}

bool is_table_key(std::string_view key) {
  return key == "kv_cache" || key == "speculation";
}

[[noreturn]] void fail_unknown_key(const std::string& key) {
  std::vector<std::string> known;
  for (const PartKind kind : kAllKinds) known.emplace_back(kind_name(kind));
  known.insert(known.end(), {"kv_cache", "speculation"});
  fail("'{}' is not a part of a pipeline that can be swapped{}; there are: {}", key, did_you_mean(key, known),
       join_names(known));
}

bool names_file(const std::string& plugin) {
  return plugin.find('/') != std::string::npos || plugin.ends_with(".so");
}

// Keeps the model's `path` unless the options have another one.
nlohmann::json model_options(nlohmann::json options, const PartDescription& running) {
  const nlohmann::json& known = running.choices.front().options;
  if (options.is_object() && !options.contains("path") && known.contains("path")) options["path"] = known["path"];
  return options;
}

// Reads the list of first_of. `find` makes a proposer from a plugin's name and options.
template <typename Find>
std::vector<PartDescription> alternatives(const nlohmann::json& options, const Find& find) {
  const auto list = options.find("proposers");
  if (list == options.end() || !list->is_array() || options.size() != 1) {
    fail(
        "first_of needs a list of proposers: write first_of {{ngram {{}}, draft_model {{path = ...}}}}, or as JSON "
        R"({{"proposers": [{{"plugin": "ngram", "options": {{}}}}]}})");
  }
  std::vector<PartDescription> proposers;
  for (const nlohmann::json& item : *list) {
    const std::size_t number = proposers.size() + 1;
    if (!item.is_object() || !item.contains("plugin") || !item["plugin"].is_string()) {
      fail("item {} of first_of is {}; expected a proposer, ngram {{}}", number, show_value(item));
    }
    nlohmann::json given = nlohmann::json::object();
    for (const auto& [name, value] : item.items()) {
      if (name == "plugin") continue;
      if (name != "options") fail("item {} of first_of has '{}'; expected plugin and options", number, name);
      if (!value.is_null()) given = value;
    }
    if (!given.is_object()) fail("item {} of first_of has the options {}; expected a table", number, show_value(given));
    proposers.push_back(find(item["plugin"].get<std::string>(), given));
    if (proposers.size() == kMaxAlternatives) break;
  }
  check_alternatives(list->size(), proposers);
  return proposers;
}

}  // namespace

PartChange parse_part_change(std::string_view text) {
  PartChange change;
  change.key = take_word(text);
  if (change.key.empty()) fail("the name of the part to swap is missing; {}", kChangeForm);
  change.plugin = take_word(text);
  if (is_table_key(change.key)) {
    if (!change.plugin.empty()) fail("{} needs a table only, {} {{memory = \"1GiB\"}}", change.key, change.key);
  } else if (change.plugin.empty()) {
    fail("a plugin's name is missing; {}", kChangeForm);
  }
  if (change.key == "proposer" && change.plugin == "first_of") {
    change.options = {{"proposers", evaluate_parts(text.empty() ? "{}" : text, "first_of")}};
    return change;
  }
  const bool has_options = text.find_first_not_of(" \t\n") != std::string_view::npos;
  if (has_options) change.options = evaluate_table(text, fmt::format("options of {}", change.key));
  return change;
}

PartDescription find_part(const PluginCatalog& catalog, PartKind kind, const std::string& plugin,
                          const nlohmann::json& options, const std::filesystem::path& folder) {
  if (!names_file(plugin)) return make_part(catalog, kind, plugin, options, folder);
  const PluginFile& file = load_plugin_file((folder / plugin).lexically_normal());
  std::vector<const Component*> components;
  for (const Component& component : file.components) components.push_back(&component);
  return part_of_kind(make_part(components, plugin, options, folder, ""), kind, kind_name(kind));
}

PipelineDescription with_change(PipelineDescription pipeline, const PartChange& change, const PluginCatalog& catalog,
                                const std::filesystem::path& folder) {
  const auto find_named = [&](PartKind kind, const std::string& plugin, const nlohmann::json& options) {
    PartDescription part = find_part(catalog, kind, plugin, options, folder);
    part.select(pipeline.query());
    return part;
  };
  const auto find = [&](PartKind kind, const nlohmann::json& options) {
    return find_named(kind, change.plugin, options);
  };
  if (change.key == "kv_cache") {
    const std::optional<bool> populate = pipeline.kv_cache.populate;
    pipeline.kv_cache = parse_kv_cache(change.options);
    if (!pipeline.kv_cache.populate) pipeline.kv_cache.populate = populate;
  } else if (change.key == "speculation") {
    pipeline.speculation = parse_speculation(change.options);
  } else if (change.key == "proposer") {
    const auto find_proposer = [&](const std::string& plugin, const nlohmann::json& options) {
      return find_named(PartKind::kProposer, plugin, options);
    };
    if (change.plugin == "first_of") {
      pipeline.proposers = alternatives(change.options, find_proposer);
    } else if (change.plugin == "none") {
      pipeline.proposers.clear();
    } else {
      pipeline.proposers = {find_proposer(change.plugin, change.options)};
    }
  } else if (change.key == "model") {
    pipeline.model = find(PartKind::kModel, model_options(change.options, pipeline.model));
  } else if (change.key == "device") {
    pipeline.device = find(PartKind::kDevice, change.options);
  } else if (change.key == "attention") {
    pipeline.attention = find(PartKind::kAttention, change.options);
  } else if (change.key == "scheduler") {
    pipeline.scheduler = find(PartKind::kScheduler, change.options);
  } else {
    fail_unknown_key(change.key);
  }
  read_shared_options(pipeline);
  check_calls(pipeline);
  return pipeline;
}

}  // namespace mortise
