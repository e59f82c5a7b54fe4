// runtime/pipeline/description.hpp: a pipeline script's description of a pipeline after all checks: the parts and the
// other keys.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loader/catalog.hpp"

namespace mortise {

inline constexpr std::size_t kMaxAlternatives = 8;  // the most proposers of a pipeline

// A component that a part can become, with options that are complete and valid by the component's schema.
struct PartChoice {
  const Component* component = nullptr;
  nlohmann::json options;
};

// Whether both are the same component of the same file with the same options, so that their instances behave alike.
bool same_part(const PartChoice& a, const PartChoice& b);

// A part as a script names it. Several components may have the name (paged for the CPU and for CUDA); the device and
// the model decide which of them the part becomes. A value.
struct PartDescription {
  std::string name;
  std::string where;                // "demo.lua:6"; "" if no script named the part
  std::vector<PartChoice> choices;  // in search order, at least one; in a pipeline's description all have one kind

  // The first choice that supports the query. Throws an Error with every reason if there is none.
  const PartChoice& select(const mortise_query& query) const;
};
// Whether both are equal, wherever they were written.
bool same_part(const PartDescription& a, const PartDescription& b);

enum class KvDtype { kAuto, kBf16, kF32, kInt8, kFp8 };
// Whether the cache has a byte for each number, and scales. Any model can have such a cache.
constexpr bool in_bytes(KvDtype dtype) {
  return dtype == KvDtype::kInt8 || dtype == KvDtype::kFp8;
}
enum class Verify { kCoupled, kRejection };
enum class DraftLengths { kAdaptive, kFixed };

struct KvCacheOptions {
  std::uint64_t memory_bytes;
  bool fills_device;  // "auto": a device with its own memory uses everything that is left, another one memory_bytes
  KvDtype dtype;
  bool prefix_cache;
  // Whether to take all memory at the start instead of as it is used. A device with its own memory always does. Unset:
  // the command decides.
  std::optional<bool> populate;
  // Blocks beyond this number are useless, even if there is memory. Not set by scripts, but by commands that run few
  // requests.
  std::int32_t most_blocks = INT32_MAX;

  bool operator==(const KvCacheOptions&) const = default;
};

struct SpeculationOptions {
  Verify verify;
  DraftLengths lengths;  // kFixed whenever verify is kRejection
  bool batch_expansion;

  bool operator==(const SpeculationOptions&) const = default;
};

struct ChatOptions {
  bool special_tokens_in_content;  // "<|im_end|>" in a message means the special token instead of its text

  bool operator==(const ChatOptions&) const = default;
};

// A pipeline as a script describes it, checked. A value.
struct PipelineDescription {
  std::string name;   // its key in the script's table; the script's name if the script returns a single pipeline
  std::string where;  // location of pipeline { ... }
  std::vector<std::filesystem::path> plugin_folders;  // where its parts were found, for parts that are looked up later
  PartDescription device, model, attention, scheduler;
  std::vector<PartDescription> proposers;  // in the order in which they are asked for drafts; may be empty
  KvCacheOptions kv_cache;
  SpeculationOptions speculation;
  ChatOptions chat;
  // Whether the calls of all parts are checked (runtime/abi_check); their choices then name checked components.
  bool checked = false;
  // Copied from the options of parts, so that host and parts agree. If the part does not have the option, this default
  // applies.
  std::int32_t block_size = 16;            // attention
  std::int32_t max_num_seqs = 64;          // scheduler
  std::int32_t max_batched_tokens = 2048;  // scheduler

  // The fields that are known before the model is open; the caller sets dims, config and dtype. Points into the
  // description.
  mortise_query query() const;
};
// Reads block_size, max_num_seqs and max_batched_tokens from the parts. Throws an Error that names an invalid one.
void read_shared_options(PipelineDescription& pipeline);
// Replaces the component of each choice of each part, by one that stands between the host and it.
void replace_components(PipelineDescription& pipeline, const std::function<const Component&(const Component&)>& by);
// If the pipeline or MORTISE_ABI_CHECK=1 asks for it, sets `checked` and puts checked components in all places.
void check_calls(PipelineDescription& pipeline);
// Whether both describe the same parts and sizes, whatever their names and locations.
bool same_pipeline(const PipelineDescription& a, const PipelineDescription& b);

// Makes a part from the components of one name. Relative paths among the options (a property of "format": "path") are
// resolved against `folder`. Throws an Error that names the option if no component accepts the options.
PartDescription make_part(std::span<const Component* const> components, std::string name, const nlohmann::json& options,
                          const std::filesystem::path& folder, std::string where);

// The same by name, for parts that are not from a script (a swap, a runner).
PartDescription make_part(const PluginCatalog& catalog, PartKind kind, const std::string& name,
                          const nlohmann::json& options, const std::filesystem::path& folder);

// Drops choices of other kinds. Throws an Error if none is left. `key` is the pipeline's key ("attention").
PartDescription part_of_kind(PartDescription part, PartKind kind, std::string_view key);

// Parse and check the sub-tables of pipeline { ... }. Throw an Error that names the key.
KvCacheOptions parse_kv_cache(const nlohmann::json& table);
SpeculationOptions parse_speculation(const nlohmann::json& table);
ChatOptions parse_chat(const nlohmann::json& table);

// Returns the number of bytes in "512MiB", "1.5GiB", "4096" or a number. nullopt for anything else, including 0 and
// more than 2^60.
std::optional<std::uint64_t> parse_bytes(const nlohmann::json& value);

}  // namespace mortise
