// runtime/cli/check.cpp: `mortise check script.lua`: checks a pipeline as far as possible without loading its weights.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "assembly/default_script.hpp"
#include "assembly/memory_check.hpp"
#include "chat_template/checkpoint_template.hpp"
#include "checkpoint/checkpoint.hpp"
#include "cli/commands.hpp"
#include "counted.hpp"
#include "error.hpp"
#include "execution/device_memory.hpp"
#include "execution/model_stack.hpp"
#include "execution/weight_reader.hpp"
#include "loader/part_instance.hpp"
#include "mortise/attention.h"
#include "mortise/model.h"
#include "mortise/scheduler.h"
#include "pipeline/pipeline_script.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {
namespace {

void print_part(const char* key, const PartChoice& choice) {
  fmt::print("  {:10} {} ({}) {}\n", key, choice.component->name, choice.component->file.filename().string(),
             choice.options.dump());
}

// Asks the attention for the size of the model's KV cache, and prints how much fits. Returns the size in bytes, or 0 if
// the cache takes all device memory that the weights leave.
std::uint64_t check_attention(const PipelineDescription& pipeline, const PartInstance& attention,
                              const mortise_model_dims& dims, bool fills_device) {
  mortise_kv_layout layout{};
  layout.struct_size = sizeof layout;
  attention.perform("kv_layout", [&](mortise_error* error) {
    return attention.table<mortise_attention_table>()->kv_layout(attention.handle<mortise_attention>(), &dims,
                                                                 kv_dtype(pipeline.kv_cache.dtype, dims),
                                                                 pipeline.block_size, &layout, error);
  });
  const std::string id = plugin_text(layout.layout_id, sizeof layout.layout_id);
  if (fills_device) {
    fmt::print(
        "  {:10} fills the device's memory that weights and buffers leave free: blocks of {} tokens in {:.2f} MiB, "
        "{}\n",
        "kv_cache", pipeline.block_size, static_cast<double>(layout.bytes_per_block) / (1 << 20), id);
    return 0;
  }
  const std::uint64_t blocks =
      layout.bytes_per_block == 0
          ? 0
          : static_cast<std::uint64_t>(
                useful_blocks(pipeline, dims.max_model_len, pipeline.kv_cache.memory_bytes / layout.bytes_per_block));
  if (blocks == 0) {
    fail("{}: kv_cache.memory of {} bytes holds no block of {} bytes; raise it", pipeline.where,
         pipeline.kv_cache.memory_bytes, layout.bytes_per_block);
  }
  fmt::print("  {:10} {} blocks of {} tokens in {:.0f} MiB, {}\n", "kv_cache", blocks, pipeline.block_size,
             static_cast<double>(pipeline.kv_cache.memory_bytes) / (1 << 20), id);
  return blocks * layout.bytes_per_block;
}

// Returns the total memory of the device; nullopt if it does not know that before it is active.
std::optional<std::uint64_t> memory_of(const PartInstance& device) {
  std::uint64_t free_bytes = 0, total_bytes = 0;
  const auto* table = device.table<mortise_device_table>();
  const mortise_status status = table->memory_info(device.handle<mortise_device>(), &free_bytes, &total_bytes);
  return status == MORTISE_OK ? std::optional(total_bytes) : std::nullopt;
}

mortise_model_dims dims_of(const PartInstance& model) {
  mortise_model_dims dims{};
  dims.struct_size = sizeof dims;
  model.perform("dims", [&](mortise_error* error) {
    return model.table<mortise_model_table>()->dims(model.handle<mortise_model>(), &dims, error);
  });
  return dims;
}

// Checks a draft model that one of the pipeline's model plugins accepts: the device must compute in its type, and the
// attention must serve its heads. Does nothing for another checkpoint, which may be in the proposer's own format, or
// for which a start may find a plugin among all that are installed.
void check_draft_model(const PipelineDescription& pipeline, const PartInstance& device, const nlohmann::json& options,
                       const Checkpoint& checkpoint) {
  CreateContext context;
  context.device = device.handle<mortise_device>();
  context.device_table = device.table<mortise_device_table>();
  context.model_config = checkpoint.config().json;
  mortise_query query = pipeline.query();
  query.model_config = {context.model_config.data(), context.model_config.size()};
  nlohmann::json model_options = {{"path", checkpoint.path().string()}};
  const auto dtype = options.find("dtype");
  if (dtype != options.end() && *dtype != "auto") model_options["dtype"] = *dtype;
  for (const PartChoice& choice : pipeline.model.choices) {
    const Component& component = *choice.component;
    if (component.refusal(query)) continue;
    const PartInstance model(component, component.schema.complete(model_options, component.label()), context);
    const mortise_model_dims dims = dims_of(model);
    require_numerics(device.active_part<mortise_device, mortise_device_table>(), "the draft model", dims.dtype);
    query.dims = &dims;
    query.kv_dtype = in_bytes(pipeline.kv_cache.dtype) ? kv_dtype(pipeline.kv_cache.dtype, dims) : dims.dtype;
    pipeline.attention.select(query);
    return;
  }
}

// Checks a proposer's checkpoint, so that a missing, damaged or unsupported one is reported here instead of when its
// weights are loaded. A folder without config.json, or a file that is no GGUF
// file, is the plugin's own format, which the plugin checks.
void check_draft_checkpoint(const PipelineDescription& pipeline, const PartInstance& device,
                            const PartInstance& proposer) {
  const auto path = proposer.options().find("path");
  if (path == proposer.options().end() || !path->is_string()) return;
  const std::filesystem::path folder = path->get<std::string>();
  std::error_code ignored;
  const bool is_checkpoint = Checkpoint::is_gguf(folder) || std::filesystem::exists(folder / "config.json", ignored);
  if (std::filesystem::exists(folder, ignored) && !is_checkpoint) return;
  try {
    check_draft_model(pipeline, device, proposer.options(), Checkpoint::open(folder));
  } catch (const Error& error) {
    fail("{}: {}", proposer.full_name(), error.what());
  }
}

// An unsupported template only gives a warning, because everything except chats works.
void check_chat_template(const Tokenizer& tokenizer) {
  try {
    checkpoint_template(tokenizer);
  } catch (const Error& error) {
    fmt::print("  {:10} refused: {}\n", "chat", error.what());
  }
}

// Checks the parts again with the model's configuration. Instances are created, but hold no weights.
void check_pipeline(const PipelineDescription& pipeline, bool has_own_chat) {
  mortise_query query = pipeline.query();
  const PartChoice& device_choice = pipeline.device.select(query);
  const PartInstance device(*device_choice.component, device_choice.options, {});
  print_part("device", device_choice);
  CreateContext context;
  context.device = device.handle<mortise_device>();
  context.device_table = device.table<mortise_device_table>();

  // A model without `path` has no checkpoint to check.
  const auto& model_options = pipeline.model.choices.front().options;
  std::optional<Checkpoint> checkpoint;
  if (model_options.contains("path") && model_options["path"].is_string()) {
    checkpoint = Checkpoint::open(model_options["path"].get<std::string>());
    context.model_config = checkpoint->config().json;
    query.model_config = {context.model_config.data(), context.model_config.size()};
  }
  const PartChoice& model_choice = pipeline.model.select(query);
  const PartInstance model(*model_choice.component, model_choice.options, context);
  const mortise_model_dims dims = dims_of(model);
  const auto active_device = device.active_part<mortise_device, mortise_device_table>();
  require_numerics(active_device, model.component().label(), dims.dtype);
  print_part("model", model_choice);
  fmt::print("  {:10} {} layers of {}, {} heads ({} kv) of {}, {} tokens, {} positions\n", "", dims.num_layers,
             dims.hidden_size, dims.num_heads, dims.num_kv_heads, dims.head_dim, dims.vocab_size, dims.max_model_len);

  query.dims = &dims;
  query.kv_dtype = kv_dtype(pipeline.kv_cache.dtype, dims);
  context.model_config = {};
  const PartChoice& attention_choice = pipeline.attention.select(query);
  const PartInstance attention(*attention_choice.component, attention_choice.options, context);
  print_part("attention", attention_choice);
  const PartChoice& scheduler_choice = pipeline.scheduler.select(query);
  const PartInstance scheduler(*scheduler_choice.component, scheduler_choice.options, {});
  print_part("scheduler", scheduler_choice);
  for (const PartDescription& part : pipeline.proposers) {
    const PartChoice& choice = part.select(query);
    const PartInstance proposer(*choice.component, choice.options, context);
    check_draft_checkpoint(pipeline, device, proposer);
    print_part("proposer", choice);
  }
  const bool fills_device = pipeline.kv_cache.fills_device && !shares_host_memory(active_device);
  const std::uint64_t kv_bytes = check_attention(pipeline, attention, dims, fills_device);
  const auto memory = memory_of(device);
  if (checkpoint) {
    const Tokenizer tokenizer = Tokenizer::load(checkpoint->path());
    if (!has_own_chat) check_chat_template(tokenizer);
  }
  if (checkpoint && memory) {
    check_memory(pipeline, kv_bytes, prepared_bytes(*checkpoint, dims), *memory, device.component().label());
  }
}

// Throws an Error if a function of the script names an unknown variable. The functions have not run yet.
void check_variables(const PipelineScript& script, const PluginCatalog& catalog) {
  const std::vector<std::string> unknown = script.unknown_variables(catalog);
  if (unknown.empty()) return;
  const std::string others =
      unknown.size() == 1 ? "" : fmt::format(" (and {})", counted(unknown.size() - 1, "more such line"));
  throw Error(unknown.front() + others);
}

void check_script(const std::string& file) {
  const PluginCatalog catalog = PluginCatalog::standard();
  const PipelineScript script = load_pipelines({&file, 1}, catalog);
  check_variables(script, catalog);
  const auto& pipelines = script.pipelines();
  for (std::size_t i = 0; i < pipelines.size(); ++i) {
    fmt::print("pipeline {}{}\n", pipelines[i].name, pipelines.size() > 1 && i == 0 ? " (default)" : "");
    check_pipeline(pipelines[i], script.has_chat_template());
  }
  fmt::print("{} is fine\n", file);
}

}  // namespace

void add_check_command(CLI::App& app) {
  CLI::App* check = app.add_subcommand("check", "validates a pipeline script without loading weights");
  auto file = std::make_shared<std::string>();
  check->add_option("script", *file, "pipeline script, or a checkpoint (its folder, or a GGUF file)")->required();
  check->callback([file] { check_script(*file); });
}

}  // namespace mortise
