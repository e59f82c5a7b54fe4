// runtime/pipeline/description.hpp: what a pipeline script describes, checked: the parts and the pipeline's own keys.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loader/catalog.hpp"

namespace mortise {

inline constexpr std::size_t kMaxAlternatives = 8;  // proposers of a pipeline

// One component that a part may be, with its options complete and valid by that component's schema.
struct PartChoice {
  const Component* component = nullptr;
  nlohmann::json options;
};

// One component of one file with the same options: what an instance of the one does, one of the other does too.
bool same_part(const PartChoice& a, const PartChoice& b);

// A part as a script names it. Several components may register the name (paged for the CPU and for CUDA); which one it
// becomes is decided by what it is to serve.
struct PartDescription {
  std::string name;
  std::string where;                // "demo.lua:6", or "" when no script named it
  std::vector<PartChoice> choices;  // in search order, at least one; of one kind once it is in a description

  // The first choice that supports the query. Throws an Error with every reason when none does.
  const PartChoice& select(const mortise_query& query) const;
};
// Wherever a script has written them.
bool same_part(const PartDescription& a, const PartDescription& b);

enum class KvDtype { kAuto, kBf16, kF32, kInt8 };
enum class Verify { kCoupled, kRejection };
enum class DraftLengths { kAdaptive, kFixed };

struct KvCacheOptions {
  std::uint64_t memory_bytes;
  bool fills_device;  // "auto": a device with memory of its own gives what is left of it; others memory_bytes
  KvDtype dtype;
  bool prefix_cache;
  // Whether all memory is taken at the start, not as it is used; a device with memory of its own does so anyway. Not
  // set: the command decides.
  std::optional<bool> populate;
  // Blocks that are enough, whatever there is memory for. No script says so, but who runs a few requests.
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
  bool special_tokens_in_content;  // "<|im_end|>" in a message is the special token, not a text

  bool operator==(const ChatOptions&) const = default;
};

struct PipelineDescription {
  std::string name;   // its key in the table that the script returns; the script's name when it returns one pipeline
  std::string where;  // of pipeline { ... }
  std::vector<std::filesystem::path> plugin_folders;  // where its parts were found, for those that are looked for later
  PartDescription device, model, attention, scheduler;
  std::vector<PartDescription> proposers;  // in the order in which they are asked for drafts; may be none
  KvCacheOptions kv_cache;
  SpeculationOptions speculation;
  ChatOptions chat;
  // Read from the parts' options of these names, so that host and parts agree; a part without the option gets the
  // default.
  std::int32_t block_size = 16;            // attention
  std::int32_t max_num_seqs = 64;          // scheduler
  std::int32_t max_batched_tokens = 2048;  // scheduler

  // What is known of this pipeline before its model is; fields for dims, config and dtype are free for the caller.
  // Borrows from the description.
  mortise_query query() const;
};
// Reads block_size, max_num_seqs and max_batched_tokens from the parts. Throws an Error that names a wrong one.
void read_shared_options(PipelineDescription& pipeline);
// Whether both describe the same parts and sizes, whatever they are called and wherever they stand.
bool same_pipeline(const PipelineDescription& a, const PipelineDescription& b);

// A part from components that share a name. Options given as relative paths (a property of "format": "path") are taken
// from `folder`. Throws an Error that names the option when no component takes the options.
PartDescription make_part(std::span<const Component* const> components, std::string name, const nlohmann::json& options,
                          const std::filesystem::path& folder, std::string where);

// The same by name, for parts that no script named (a swap, a runner).
PartDescription make_part(const PluginCatalog& catalog, PartKind kind, const std::string& name,
                          const nlohmann::json& options, const std::filesystem::path& folder);

// Drops the choices of other kinds; throws an Error when none is left. `key` is the pipeline's ("attention").
PartDescription part_of_kind(PartDescription part, PartKind kind, std::string_view key);

// The sub-tables of pipeline { ... }, checked like options. Throw an Error that names the key.
KvCacheOptions parse_kv_cache(const nlohmann::json& table);
SpeculationOptions parse_speculation(const nlohmann::json& table);
ChatOptions parse_chat(const nlohmann::json& table);

// Bytes of "512MiB", "1.5GiB", "4096" or a number. nullopt for anything else, 0 and more than 2^60 included.
std::optional<std::uint64_t> parse_bytes(const nlohmann::json& value);

}  // namespace mortise
