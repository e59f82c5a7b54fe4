#include "loader/component.hpp"

#include <cstring>

#include "error.hpp"
#include "loader/active_part.hpp"
#include "mortise/attention.h"
#include "mortise/device.h"
#include "mortise/model.h"
#include "mortise/proposer.h"
#include "mortise/scheduler.h"
#include "mortise/struct_sizes.h"

namespace mortise {
namespace {

constexpr std::int32_t kMaxComponents = 64;  // a larger number is taken for a wild pointer
constexpr std::size_t kMaxSchemaBytes = 1 << 20;
constexpr std::size_t kTableHeader = 8;  // struct_size and flags, before the functions

// A required slot of a table: its offset and its name.
struct Slot {
  std::size_t offset;
  const char* name;
};

#define SLOT(table, name)        \
  Slot {                         \
    offsetof(table, name), #name \
  }

constexpr Slot kDeviceSlots[] = {
    SLOT(mortise_device_table, describe),
    SLOT(mortise_device_table, numerics_id),
    SLOT(mortise_device_table, memory_info),
    SLOT(mortise_device_table, allocate),
    SLOT(mortise_device_table, free),
    SLOT(mortise_device_table, copy),
    SLOT(mortise_device_table, fill),
    SLOT(mortise_device_table, stream_create),
    SLOT(mortise_device_table, stream_destroy),
    SLOT(mortise_device_table, stream_synchronize),
    SLOT(mortise_device_table, stream_native),
    SLOT(mortise_device_table, event_create),
    SLOT(mortise_device_table, event_destroy),
    SLOT(mortise_device_table, event_record),
    SLOT(mortise_device_table, event_wait),
    SLOT(mortise_device_table, event_synchronize),
    SLOT(mortise_device_table, prepare_weight),
    SLOT(mortise_device_table, free_weight),
    SLOT(mortise_device_table, linear),
    SLOT(mortise_device_table, embed),
    SLOT(mortise_device_table, rms_norm),
    SLOT(mortise_device_table, layer_norm),
    SLOT(mortise_device_table, gated_activation),
    SLOT(mortise_device_table, activation),
    SLOT(mortise_device_table, add),
    SLOT(mortise_device_table, gather_rows),
    SLOT(mortise_device_table, head_reduce),
    SLOT(mortise_device_table, sample),
    SLOT(mortise_device_table, vocab_slice),
    SLOT(mortise_device_table, get_ext),
    SLOT(mortise_device_table, scatter_rows),
    SLOT(mortise_device_table, host_allocate),
    SLOT(mortise_device_table, host_free),
};
constexpr Slot kModelSlots[] = {SLOT(mortise_model_table, dims), SLOT(mortise_model_table, load),
                                SLOT(mortise_model_table, forward), SLOT(mortise_model_table, head)};
constexpr Slot kAttentionSlots[] = {
    SLOT(mortise_attention_table, kv_layout), SLOT(mortise_attention_table, bind),
    SLOT(mortise_attention_table, plan),      SLOT(mortise_attention_table, append),
    SLOT(mortise_attention_table, run),       SLOT(mortise_attention_table, copy_blocks)};
constexpr Slot kProposerSlots[] = {SLOT(mortise_proposer_table, bind), SLOT(mortise_proposer_table, observe),
                                   SLOT(mortise_proposer_table, propose)};
constexpr Slot kSchedulerSlots[] = {SLOT(mortise_scheduler_table, events), SLOT(mortise_scheduler_table, plan)};

#undef SLOT

std::span<const Slot> required_slots(PartKind kind) {
  switch (kind) {
    case PartKind::kDevice:
      return kDeviceSlots;
    case PartKind::kModel:
      return kModelSlots;
    case PartKind::kAttention:
      return kAttentionSlots;
    case PartKind::kProposer:
      return kProposerSlots;
    case PartKind::kScheduler:
      return kSchedulerSlots;
  }
  return {};
}

// The pointer at `offset` of a table with `size` bytes; NULL if it is beyond the size.
const void* slot_at(const void* table, std::uint32_t size, std::size_t offset) {
  if (size < offset + sizeof(void*)) return nullptr;
  const void* slot;
  std::memcpy(&slot, static_cast<const char*>(table) + offset, sizeof slot);
  return slot;
}

void check_table(const mortise_component& component, PartKind kind, const std::string& label) {
  if (component.table == nullptr) fail("{} has no table", label);
  std::uint32_t size;
  std::memcpy(&size, component.table, sizeof size);
  if (size < kTableHeader + sizeof(void*)) {
    fail("{} has a table with a struct_size of {}; set it to sizeof(mortise_{}_table)", label, size, kind_name(kind));
  }
  for (const Slot& slot : required_slots(kind)) {
    if (slot_at(component.table, size, slot.offset) == nullptr) {
      fail("{} lacks the function '{}' of its table; every {} needs it", label, slot.name, kind_name(kind));
    }
  }
}

OptionsSchema read_schema(const mortise_component& component, const std::string& label) {
  if (component.options_schema == nullptr) {
    fail("{} has no options schema; one without options is {{\"type\": \"object\"}}", label);
  }
  const std::size_t size = strnlen(component.options_schema, kMaxSchemaBytes);
  if (size == kMaxSchemaBytes) fail("{} has an options schema of more than 1 MiB", label);
  try {
    return OptionsSchema({component.options_schema, size});
  } catch (const Error& error) {
    fail("the options schema of {} {}", label, error.what());
  }
}

Component check_component(const mortise_component* abi, std::int32_t index, const std::filesystem::path& file) {
  if (abi == nullptr) fail("component {} is NULL", index);
  if (abi->struct_size < MORTISE_SIZE_0_5(mortise_component)) {
    fail("component {} has a struct_size of {}, but at least {} is needed; set it to sizeof(mortise_component)", index,
         abi->struct_size, static_cast<std::size_t>(MORTISE_SIZE_0_5(mortise_component)));
  }
  const auto kind = static_cast<PartKind>(abi->kind);
  if (required_slots(kind).empty()) fail("component {} is of the unknown kind {}", index, abi->kind);
  if (abi->name == nullptr) fail("component {} ({}) has no name", index, kind_name(kind));
  const std::string name = plugin_text(abi->name, 64);
  const std::string label = fmt::format("{} '{}'", kind_name(kind), name);
  if (!is_part_name(name))
    fail("{}: a name must begin with a letter, and can have only lower-case letters, digits and '_'", label);
  if (abi->summary == nullptr || *abi->summary == '\0') fail("{} has no summary; describe it in one line", label);
  if (abi->supports == nullptr || abi->create == nullptr || abi->destroy == nullptr) {
    fail("{} lacks supports, create or destroy", label);
  }
  if ((abi->activate == nullptr) != (abi->deactivate == nullptr)) {
    fail("{} has only one of activate and deactivate", label);
  }
  check_table(*abi, kind, label);
  return Component{.kind = kind,
                   .name = name,
                   .summary = plugin_text(abi->summary, 400),
                   .capabilities = abi->capabilities,
                   .numerics_id = plugin_text(abi->numerics_id, 200),
                   .schema = read_schema(*abi, label),
                   .abi = abi,
                   .file = file};
}

}  // namespace

const char* kind_name(PartKind kind) {
  switch (kind) {
    case PartKind::kDevice:
      return "device";
    case PartKind::kModel:
      return "model";
    case PartKind::kAttention:
      return "attention";
    case PartKind::kProposer:
      return "proposer";
    case PartKind::kScheduler:
      return "scheduler";
  }
  return "part";
}

std::string Component::numerics_id_on(std::string_view device_id) const {
  const std::vector<std::string> ids = numerics_ids(numerics_id, capabilities);
  if (ids.empty()) return "";
  return device_id.find("-pairs/") == std::string_view::npos ? ids.front() : ids.back();
}

std::vector<std::string> numerics_ids(const std::string& numerics_id, std::uint64_t capabilities) {
  if (numerics_id.empty()) return {};
  std::vector<std::string> ids = {numerics_id};
  if ((capabilities & MORTISE_CAP_PAIRS) != 0) {
    const std::size_t version = std::min(numerics_id.rfind('/'), numerics_id.size());
    ids.push_back(std::string(numerics_id).insert(version, "-pairs"));
  }
  return ids;
}

std::vector<std::string> capability_words(std::uint64_t capabilities) {
  static constexpr const char* kWords[] = {"exact",        "capture", "multi_query",  "cascade",       "sliding_window",
                                           "needs_hidden", "tree",    "distribution", "prefix_groups", "pairs"};
  std::vector<std::string> words;
  for (std::size_t bit = 0; bit < 64; ++bit) {
    if ((capabilities >> bit & 1) == 0) continue;
    words.push_back(bit < std::size(kWords) ? kWords[bit] : fmt::format("bit {}", bit));
  }
  return words;
}

bool is_part_name(std::string_view name) {
  const auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
  if (name.empty() || !lower(name[0])) return false;
  for (const char c : name) {
    if (!lower(c) && !(c >= '0' && c <= '9') && c != '_') return false;
  }
  return true;
}

std::size_t control_bytes(std::string_view text, std::size_t i) {
  const auto byte = [&](std::size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u; };
  const auto between = [](unsigned value, unsigned low, unsigned high) { return low <= value && value <= high; };
  if (byte(i) < ' ' || byte(i) == 0x7f) return 1;
  if (byte(i) == 0xc2 && between(byte(i + 1), 0x80, 0x9f)) return 2;  // U+0080 .. U+009F
  if (byte(i) != 0xe2) return 0;
  const bool is_format =
      (byte(i + 1) == 0x80 && (between(byte(i + 2), 0xa8, 0xae) || between(byte(i + 2), 0x8e, 0x8f))) ||
      (byte(i + 1) == 0x81 && between(byte(i + 2), 0xa6, 0xa9));
  return is_format ? 3 : 0;  // U+200E, U+200F, U+2028 .. U+202E, U+2066 .. U+2069
}

std::string plugin_text(const char* text, std::size_t limit) {
  if (text == nullptr) return "";
  std::string copy(text, strnlen(text, limit));
  for (std::size_t i = 0; i < copy.size(); ++i) {
    if (const std::size_t bytes = control_bytes(copy, i)) copy.replace(i, bytes, bytes, ' ');
  }
  return copy;
}

std::string Component::label() const {
  return fmt::format("{} '{}'", kind_name(kind), name);
}

std::optional<std::string> Component::refusal(const mortise_query& query) const {
  mortise_error reason = empty_error();
  const RunningCall running(lasting_text(fmt::format("{} ({})", label(), file.filename().string())), "supports",
                            CallKind::kControl);
  const mortise_status status = contain_exceptions(reason, [&] { return abi->supports(&query, &reason); });
  if (status == MORTISE_OK) return std::nullopt;
  const std::string message = plugin_text(reason.message, sizeof reason.message);
  return message.empty() ? fmt::format("supports gave no reason ({})", status_name(status)) : message;
}

std::vector<Component> check_module(const mortise_module* module, const std::filesystem::path& file) {
  if (module == nullptr) fail("describes no module: its entry function returned NULL");
  if (module->struct_size < offsetof(mortise_module, abi_minor) + sizeof module->abi_minor) {
    fail("describes a module of {} bytes, which is too short to hold a version", module->struct_size);
  }
  if (module->abi_minor < MORTISE_ABI_OLDEST_MINOR) {
    fail(
        "is built for plugin ABI {0}.{1}, but this mortise accepts {0}.{2} to {0}.{3}; rebuild it with this release's "
        "plugin_api",
        MORTISE_ABI_MAJOR, module->abi_minor, MORTISE_ABI_OLDEST_MINOR, MORTISE_ABI_MINOR);
  }
  if (module->abi_minor > MORTISE_ABI_MINOR) {
    fail(
        "is built for plugin ABI {0}.{1}, but this mortise accepts {0}.{2} to {0}.{3}; install a newer mortise, or "
        "rebuild the plugin with this release's plugin_api",
        MORTISE_ABI_MAJOR, module->abi_minor, MORTISE_ABI_OLDEST_MINOR, MORTISE_ABI_MINOR);
  }
  if (module->struct_size < MORTISE_SIZE_0_5(mortise_module)) {
    fail("describes a module of {} bytes, but at least {} are needed; set struct_size to sizeof(mortise_module)",
         module->struct_size, static_cast<std::size_t>(MORTISE_SIZE_0_5(mortise_module)));
  }
  if (module->id == nullptr || module->vendor == nullptr || module->version == nullptr || module->license == nullptr) {
    fail("describes a module without id, vendor, version or license");
  }
  if (module->num_components < 1 || module->num_components > kMaxComponents || module->components == nullptr) {
    fail("describes a module with {} components; 1 to {} are allowed", module->num_components, kMaxComponents);
  }
  std::vector<Component> components;
  for (std::int32_t i = 0; i < module->num_components; ++i) {
    components.push_back(check_component(module->components[i], i, file));
    components.back().version = plugin_text(module->version, 64);
    const Component& added = components.back();
    for (std::size_t earlier = 0; earlier + 1 < components.size(); ++earlier) {
      if (components[earlier].kind == added.kind && components[earlier].name == added.name) {
        fail("registers {} twice", added.label());
      }
    }
  }
  return components;
}

const Component& select_component(std::span<const Component* const> candidates, const mortise_query& query,
                                  std::string_view wanted) {
  std::string reasons;
  for (const Component* candidate : candidates) {
    const auto refusal = candidate->refusal(query);
    if (!refusal) return *candidate;
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", candidate->file.string(), *refusal);
  }
  fail("{} cannot serve this pipeline: {}", wanted, reasons);
}

}  // namespace mortise
