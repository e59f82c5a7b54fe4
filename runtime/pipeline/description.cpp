#include "pipeline/description.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "abi_check/checked_component.hpp"
#include "environment.hpp"
#include "error.hpp"
#include "json/bounded_json.hpp"
#include "pipeline/table_schemas.hpp"

namespace mortise {
namespace {

using Json = nlohmann::json;

// The tables of a pipeline are described and checked like the options of plugins.
const OptionsSchema& chat_schema() {
  static const OptionsSchema schema(R"({
    "type": "object",
    "properties": {
      "special_tokens_in_content": {"title": "special tokens written in a message count as special tokens",
                                    "type": "boolean", "default": false}
    }})");
  return schema;
}

Json resolve_paths(Json options, const OptionsSchema& schema, const std::filesystem::path& folder) {
  for (const auto& option : schema.options()) {
    const auto value = options.find(option.name);
    if (!option.is_path || value == options.end() || !value->is_string() || folder.empty()) continue;
    const std::filesystem::path path = value->get<std::string>();
    if (!path.empty() && path.is_relative()) *value = (folder / path).lexically_normal().string();
  }
  return options;
}

// The value of an option that the engine needs, too; `fallback` if the part does not have the option.
std::int32_t shared_option(const PartDescription& part, const char* option, std::int32_t fallback) {
  const auto& options = part.choices.front().options;
  const auto value = options.find(option);
  if (value == options.end() || !value->is_number_integer()) return fallback;
  const auto number = value->get<std::int64_t>();
  if (number < 1 || number > INT32_MAX)
    fail("option '{}' of '{}' is {}; expected 1 to {}", option, part.name, number, INT32_MAX);
  return static_cast<std::int32_t>(number);
}

constexpr std::optional<std::uint64_t> kDefaultKvBytes = std::uint64_t{512} << 20;

std::string located(const std::string& where, const std::string& text) {
  return where.empty() ? text : where + ": " + text;
}

}  // namespace

bool same_part(const PartChoice& a, const PartChoice& b) {
  return a.component == b.component && a.options == b.options;
}

bool same_part(const PartDescription& a, const PartDescription& b) {
  return std::ranges::equal(a.choices, b.choices,
                            [](const PartChoice& x, const PartChoice& y) { return same_part(x, y); });
}

const PartChoice& PartDescription::select(const mortise_query& query) const {
  std::vector<const Component*> components;
  for (const auto& choice : choices) components.push_back(choice.component);
  const Component& selected = select_component(components, query, located(where, choices.front().component->label()));
  for (const auto& choice : choices) {
    if (choice.component == &selected) return choice;
  }
  return choices.front();  // not reached: `selected` is one of the choices
}

mortise_query PipelineDescription::query() const {
  mortise_query query{};
  query.struct_size = sizeof query;
  query.device = device.name.c_str();
  query.block_size = block_size;
  return query;
}

void read_shared_options(PipelineDescription& pipeline) {
  pipeline.block_size = shared_option(pipeline.attention, "block_size", 16);
  pipeline.max_num_seqs = shared_option(pipeline.scheduler, "max_num_seqs", 64);
  pipeline.max_batched_tokens = shared_option(pipeline.scheduler, "max_batched_tokens", 2048);
}

void replace_components(PipelineDescription& pipeline, const std::function<const Component&(const Component&)>& by) {
  const auto replace = [&](PartDescription& part) {
    for (PartChoice& choice : part.choices) choice.component = &by(*choice.component);
  };
  for (auto* part : {&pipeline.device, &pipeline.model, &pipeline.attention, &pipeline.scheduler}) replace(*part);
  for (PartDescription& proposer : pipeline.proposers) replace(proposer);
}

void check_calls(PipelineDescription& pipeline) {
  const std::string variable = environment::read(environment::kAbiCheck).value_or("0");
  if (variable != "0" && variable != "1") {
    fail("{}={}: expected 1, which checks every call of a plugin, or 0", environment::kAbiCheck, quote(variable));
  }
  pipeline.checked = pipeline.checked || variable == "1";
  if (pipeline.checked) replace_components(pipeline, checked_component);
}

bool same_pipeline(const PipelineDescription& a, const PipelineDescription& b) {
  return same_part(a.device, b.device) && same_part(a.model, b.model) && same_part(a.attention, b.attention) &&
         same_part(a.scheduler, b.scheduler) &&
         std::ranges::equal(a.proposers, b.proposers,
                            [](const PartDescription& x, const PartDescription& y) { return same_part(x, y); }) &&
         a.kv_cache == b.kv_cache && a.speculation == b.speculation && a.chat == b.chat;
}

PartDescription make_part(std::span<const Component* const> components, std::string name, const Json& options,
                          const std::filesystem::path& folder, std::string where) {
  PartDescription part{std::move(name), std::move(where), {}};
  std::string first_problem;
  for (const Component* component : components) {
    try {
      Json complete = component->schema.complete(resolve_paths(options, component->schema, folder), component->label());
      part.choices.push_back({component, std::move(complete)});
    } catch (const Error& error) {
      if (first_problem.empty()) first_problem = error.what();
    }
  }
  if (part.choices.empty()) throw Error(located(part.where, first_problem));
  return part;
}

PartDescription make_part(const PluginCatalog& catalog, PartKind kind, const std::string& name, const Json& options,
                          const std::filesystem::path& folder) {
  const auto found = catalog.find(name);
  if (found.components.empty()) catalog.fail_unknown(name, found);
  return part_of_kind(make_part(found.components, name, options, folder, ""), kind, kind_name(kind));
}

PartDescription part_of_kind(PartDescription part, PartKind kind, std::string_view key) {
  const Component* other = part.choices.front().component;
  std::erase_if(part.choices, [&](const PartChoice& choice) { return choice.component->kind != kind; });
  if (part.choices.empty()) {
    throw Error(
        located(part.where, fmt::format("{} must be {} {}, but '{}' is {} {}", key,
                                        kind == PartKind::kAttention ? "an" : "a", kind_name(kind), part.name,
                                        other->kind == PartKind::kAttention ? "an" : "a", kind_name(other->kind))));
  }
  for (const auto& choice : part.choices) {
    if (choice.component->name == part.choices.front().component->name) continue;
    throw Error(located(part.where, fmt::format("{} has several components of kind {} ('{}', '{}'); put its folder on "
                                                "MORTISE_PLUGIN_PATH and use the component's name",
                                                part.name, kind_name(kind), part.choices.front().component->name,
                                                choice.component->name)));
  }
  part.name = part.choices.front().component->name;
  return part;
}

std::optional<std::uint64_t> parse_bytes(const Json& value) {
  constexpr std::uint64_t kMax = std::uint64_t{1} << 60;
  if (value.is_number_integer()) {
    const bool positive = value.is_number_unsigned() || value.get<std::int64_t>() > 0;
    if (!positive || value.get<std::uint64_t>() == 0 || value.get<std::uint64_t>() > kMax) return std::nullopt;
    return value.get<std::uint64_t>();
  }
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  static constexpr std::pair<std::string_view, int> kUnits[] = {
      {"", 0}, {"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}};
  for (const auto& [name, shift] : kUnits) {
    if (unit != name) continue;
    const double bytes = std::ldexp(number, shift);
    if (!(bytes >= 1) || bytes > static_cast<double>(kMax)) return std::nullopt;
    return static_cast<std::uint64_t>(bytes);
  }
  return std::nullopt;
}

const OptionsSchema& kv_cache_schema() {
  static const OptionsSchema schema(R"({
    "type": "object",
    "properties": {
      "memory": {"title": "memory for KV blocks: bytes, a text such as \"512MiB\" with KiB, MiB or GiB, or auto: all free memory of a GPU, 512MiB on the CPU",
                 "type": ["integer", "string"], "default": "auto"},
      "dtype": {"title": "type of keys and values; auto is the model's type", "default": "auto",
                "enum": ["auto", "bf16", "f32", "int8", "fp8"]},
      "prefix_cache": {"title": "requests with an equal prefix share its blocks", "type": "boolean", "default": true},
      "populate": {"title": "take all of the memory at the start instead of as it is used; the default for a server on the CPU",
                   "type": ["boolean", "null"], "default": null}
    }})");
  return schema;
}

const OptionsSchema& speculation_schema() {
  static const OptionsSchema schema(R"({
    "type": "object",
    "properties": {
      "verify": {"title": "how drafts are verified", "default": "coupled", "enum": ["coupled", "rejection"]},
      "lengths": {"title": "how draft lengths are chosen; auto is fixed for rejection, else adaptive", "default": "auto",
                  "enum": ["auto", "adaptive", "fixed"]},
      "batch_expansion": {"title": "verify each draft position as a row of its own sequence", "type": "boolean",
                          "default": false}
    }})");
  return schema;
}

KvCacheOptions parse_kv_cache(const Json& table) {
  const Json options = kv_cache_schema().complete(table, "kv_cache");
  const bool automatic = options["memory"] == "auto";
  const auto memory = automatic ? kDefaultKvBytes : parse_bytes(options["memory"]);
  if (!memory) {
    fail("option 'memory' of kv_cache is {}; expected bytes, or a text such as \"512MiB\" with KiB, MiB or GiB",
         show_value(options["memory"]));
  }
  const std::string dtype = options["dtype"];
  return {.memory_bytes = *memory,
          .fills_device = automatic,
          .dtype = dtype == "bf16"   ? KvDtype::kBf16
                   : dtype == "f32"  ? KvDtype::kF32
                   : dtype == "int8" ? KvDtype::kInt8
                   : dtype == "fp8"  ? KvDtype::kFp8
                                     : KvDtype::kAuto,
          .prefix_cache = options["prefix_cache"],
          .populate = options["populate"].is_null() ? std::nullopt : std::optional<bool>(options["populate"])};
}

ChatOptions parse_chat(const Json& table) {
  return {.special_tokens_in_content = chat_schema().complete(table, "chat")["special_tokens_in_content"]};
}

SpeculationOptions parse_speculation(const Json& table) {
  const Json options = speculation_schema().complete(table, "speculation");
  const bool rejection = options["verify"] == "rejection";
  if (rejection && options["lengths"] == "adaptive") {
    fail(
        "speculation: verify = \"rejection\" needs lengths = \"fixed\": adaptive lengths depend on measured times, and "
        "the tokens would depend on the lengths");
  }
  return {.verify = rejection ? Verify::kRejection : Verify::kCoupled,
          .lengths = rejection || options["lengths"] == "fixed" ? DraftLengths::kFixed : DraftLengths::kAdaptive,
          .batch_expansion = options["batch_expansion"]};
}

}  // namespace mortise
