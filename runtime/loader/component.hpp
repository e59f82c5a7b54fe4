// runtime/loader/component.hpp: a component of a plugin file, after it was checked and copied out of the plugin's
// memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
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

// Words for the MORTISE_CAP_* bits ("exact", "multi_query"). An unknown bit is "bit 17".
std::vector<std::string> capability_words(std::uint64_t capabilities);

// Returns the numerics ids that a component may have: none if `numerics_id` is empty, the one that it states, and with
// MORTISE_CAP_PAIRS the one in pairs after it.
std::vector<std::string> numerics_ids(const std::string& numerics_id, std::uint64_t capabilities);

// A component that a plugin file describes. A value; `abi` stays valid until the process ends.
struct Component {
  PartKind kind;
  std::string name;
  std::string summary;
  std::uint64_t capabilities = 0;
  std::string numerics_id;  // "" if it states none
  OptionsSchema schema;
  const mortise_component* abi =
      nullptr;                 // lives as long as the component; static in a plugin, as images are never unloaded
  std::filesystem::path file;  // its file, for messages
  std::string version = {};    // of the plugin
  std::string hash = {};       // PluginFile::hash of the file's bytes
  int image = -1;              // descriptor of a file with these bytes, never closed
  // For a component that stands between the host and another one (a recorder, a checker): makes an instance. C
  // functions get no context, so the component's own abi->create could not know which component it is of. Empty:
  // abi->create.
  std::function<mortise_status(const mortise_host* host, const mortise_create_args* args, void** instance,
                               mortise_error* error)>
      creator = {};

  // Returns the numerics id of an attention on a device whose numerics id for the model's type is `device_id`.
  std::string numerics_id_on(std::string_view device_id) const;

  mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                        mortise_error* error) const {
    return creator ? creator(host, args, instance, error) : abi->create(host, args, instance, error);
  }

  // Returns kind and name for messages: "attention 'paged'".
  std::string label() const;
  // The reason why this component cannot serve the query, or nullopt if it can.
  std::optional<std::string> refusal(const mortise_query& query) const;

  template <typename Table>  // mortise_attention_table for an attention, ...
  const Table* table() const {
    return static_cast<const Table*>(abi->table);
  }
};

// Checks everything that the host relies on: versions, sizes, kinds, names, required slots, the options' schema.
// Returns the module's components. Throws an Error whose text continues a sentence that begins with the file's name.
std::vector<Component> check_module(const mortise_module* module, const std::filesystem::path& file);

// The first of `candidates` that supports the query. Throws an Error with every reason if there is none; its text
// begins with `wanted` ("attention 'paged'").
// REQUIRES: at least one candidate.
const Component& select_component(std::span<const Component* const> candidates, const mortise_query& query,
                                  std::string_view wanted);

// Whether a part can have this name: lower-case letters, digits and '_', beginning with a letter.
bool is_part_name(std::string_view name);

// How many bytes of UTF-8 at text[i] are a control character, a line separator or a mark that changes the direction of
// writing; 0: none. Printed by a terminal, they could forge what the program says.
std::size_t control_bytes(std::string_view text, std::size_t i);

// Makes a plugin's text safe for a one-line message: cut at `limit` bytes, with spaces for what control_bytes() finds.
std::string plugin_text(const char* text, std::size_t limit);

}  // namespace mortise
