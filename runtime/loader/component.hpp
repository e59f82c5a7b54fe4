// runtime/loader/component.hpp: one component of a plugin file, checked and copied out of the plugin's memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loader/options_schema.hpp"
#include "mortise/plugin.h"

namespace mortise {

enum class PartKind : std::int32_t {
  kDevice = MORTISE_KIND_DEVICE,
  kModel = MORTISE_KIND_MODEL,
  kAttention = MORTISE_KIND_ATTENTION,
  kProposer = MORTISE_KIND_PROPOSER,
  kScheduler = MORTISE_KIND_SCHEDULER,
};

inline constexpr PartKind kAllKinds[] = {PartKind::kDevice, PartKind::kModel, PartKind::kAttention, PartKind::kProposer,
                                         PartKind::kScheduler};

const char* kind_name(PartKind kind);  // "device", ...

// The words for MORTISE_CAP_* bits ("exact", "multi_query"); a bit that this host does not know is "bit 17".
std::vector<std::string> capability_words(std::uint64_t capabilities);

struct Component {
  PartKind kind;
  std::string name;
  std::string summary;
  std::uint64_t capabilities = 0;
  std::string numerics_id;  // "" when it states none
  OptionsSchema schema;
  const mortise_component* abi = nullptr;  // static: images stay for ever
  std::filesystem::path file;              // where it came from, for messages
  std::string version = {};                // of its plugin
  std::string hash = {};                   // of that file's bytes: PluginFile's
  int image = -1;                          // descriptor of a file with these bytes, open for ever

  // "attention 'paged'", for messages.
  std::string label() const;
  // Why this component cannot serve the query, or nullopt when it can.
  std::optional<std::string> refusal(const mortise_query& query) const;

  template <typename Table>  // mortise_attention_table for an attention, ...
  const Table* table() const {
    return static_cast<const Table*>(abi->table);
  }
};

// The components of a module after checking everything that the host relies on: versions, sizes, kinds, names, required
// slots, the options' schema. Throws an Error that reads on after the file's name.
std::vector<Component> check_module(const mortise_module* module, const std::filesystem::path& file);

// The first of `candidates` that supports the query. Throws an Error with every reason when none does; `wanted`
// ("attention 'paged'") opens it. REQUIRES: at least one candidate.
const Component& select_component(std::span<const Component* const> candidates, const mortise_query& query,
                                  std::string_view wanted);

// A text from a plugin: cut at `limit` bytes, control characters made spaces, so that it stays one line of a message.
std::string plugin_text(const char* text, std::size_t limit);

}  // namespace mortise
