#include "assembly/default_script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "assembly/default_parts.hpp"
#include "checkpoint/checkpoint.hpp"
#include "error.hpp"
#include "pipeline/lua_text.hpp"

namespace mortise {
namespace {

namespace fs = std::filesystem;

struct Served {
  fs::path folder;
  DefaultParts parts;
};

// Returns a path that can serve as a model's name: no "." and no "/" at the end.
fs::path clean(const fs::path& folder) {
  fs::path path = fs::absolute(folder).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

std::string last_names(const fs::path& folder, std::size_t count) {
  const std::vector<fs::path> names(folder.begin(), folder.end());
  fs::path path;
  for (std::size_t i = names.size() - std::min(count, names.size()); i < names.size(); ++i) path /= names[i];
  return path.string();
}

std::vector<std::string> unique_names(std::span<const Served> models) {
  std::vector<std::string> names;
  for (const Served& model : models) {
    std::size_t count = 1;
    const auto is_shared = [&](const Served& other) {
      return &other != &model && last_names(other.folder, count) == last_names(model.folder, count);
    };
    while (std::any_of(models.begin(), models.end(), is_shared)) ++count;
    names.push_back(last_names(model.folder, count));
  }
  return names;
}

// Returns the `kv_cache.memory` for each of `models`. On a GPU, "auto" would give all free memory to the first of
// several models.
std::string kv_memory(std::span<const Served> models) {
  const auto& free = models.front().parts.device_bytes;
  if (models.size() == 1 || !free) return "auto";
  constexpr std::uint64_t kKept = std::uint64_t{2} << 30;  // per model: buffers, workspaces and captured graphs
  std::uint64_t taken = 0;
  for (const Served& model : models) taken += model.parts.weight_bytes + kKept;
  if (taken >= *free) return "auto";  // opening the pipelines then reports what does not fit
  return fmt::format("{}MiB", std::max<std::uint64_t>(1, (*free - taken) / models.size() >> 20));
}

std::string pipeline_text(const Served& model, const std::string& memory, const std::string& indent) {
  const DefaultParts& parts = model.parts;
  const std::string path = fmt::format("path = {}", lua_quoted(model.folder.string()));
  std::string text = "pipeline {\n";
  const auto add = [&](const char* key, const std::string& part, const std::string& options) {
    text += fmt::format("{}  {:<9} = {} {{{}{}{}}},\n", indent, key, part, options.empty() ? "" : " ", options,
                        options.empty() ? "" : " ");
  };
  add("device", parts.device, "");
  add("model", parts.model,
      parts.model_dtype.empty() ? path : fmt::format("{}, dtype = {}", path, lua_quoted(parts.model_dtype)));
  add("attention", parts.attention, "block_size = 16");
  add("scheduler", parts.scheduler, "max_num_seqs = 64, max_batched_tokens = 2048");
  if (!parts.proposer.empty()) add("proposer", parts.proposer, "");
  text += fmt::format("{}  kv_cache  = {{ memory = {} }},\n", indent, lua_quoted(memory));
  return text + indent + "}";
}

// The folders are written into a comment, so line ends are replaced: they would end it.
std::string folder_list(std::span<const Served> models) {
  std::string list;
  for (const Served& model : models) list += (list.empty() ? "" : " ") + model.folder.string();
  std::replace_if(
      list.begin(), list.end(), [](unsigned char c) { return c < 0x20; }, '?');
  return list;
}

// Whether the name is a folder or a GGUF file, and not a script.
bool is_checkpoint(const std::string& name) {
  std::error_code ignored;
  return fs::is_directory(name, ignored) || Checkpoint::is_gguf(name);
}

// A file of weights in place of a script would otherwise be reported as a syntax error in line 1.
void check_is_no_weights(const std::string& file) {
  const std::string extension = fs::path(file).extension().string();
  if (extension == ".bin" || extension == ".pth" || extension == ".pt") {
    fail(
        "{}: weights in pickle files (.bin, .pth, .pt) are not supported; load the model with transformers, save it "
        "with save_pretrained, which writes safetensors, and give its folder",
        file);
  }
  if (extension == ".safetensors" || extension == ".json") {
    fail("{}: is a file of a checkpoint; give the folder that contains it", file);
  }
}

PipelineScript load_folders(std::span<const std::string> names, const PluginCatalog& catalog) {
  std::vector<fs::path> folders;
  for (const std::string& name : names) folders.push_back(clean(name));
  const std::string text = default_script(folders, catalog);
  // A single pipeline gets the name of its script: the part after the last "/".
  const std::string what = names.size() == 1 ? folders.front().string() : "several checkpoints";
  return PipelineScript::from_text(text, "default pipeline of " + what, fs::current_path(), catalog);
}

}  // namespace

std::string default_script(std::span<const fs::path> folders, const PluginCatalog& catalog) {
  std::vector<Served> models;
  for (const fs::path& folder : folders) {
    const fs::path path = clean(folder);
    const auto is_same = [&](const Served& model) { return model.folder == path; };
    if (std::any_of(models.begin(), models.end(), is_same)) {
      fail("{}: is given twice; give each checkpoint once", path.string());
    }
    models.push_back({path, choose_default_parts(path, catalog)});
  }
  const std::string memory = kv_memory(models);
  std::string text =
      fmt::format("-- Written by `mortise run --print-script {}`: the default pipeline{}, as a starting point.\n",
                  folder_list(models), models.size() == 1 ? "" : "s");
  if (models.size() == 1) return text + "return " + pipeline_text(models.front(), memory, "") + "\n";
  const std::vector<std::string> pipeline_names = unique_names(models);
  text += "return {\n";
  for (std::size_t i = 0; i < models.size(); ++i) {
    text += fmt::format("  [{}] = {},\n", lua_quoted(pipeline_names[i]), pipeline_text(models[i], memory, "  "));
  }
  return text + "}\n";
}

PipelineScript load_pipelines(std::span<const std::string> names, const PluginCatalog& catalog) {
  if (names.empty()) return PipelineScript::load_demo(catalog);
  if (std::all_of(names.begin(), names.end(), is_checkpoint)) return load_folders(names, catalog);
  if (names.size() > 1) {
    const auto file = std::find_if_not(names.begin(), names.end(), is_checkpoint);
    fail("{}: is no checkpoint (a folder, or a GGUF file); give one script, or only checkpoints", *file);
  }
  check_is_no_weights(names.front());
  return PipelineScript::load(names.front(), catalog);
}

}  // namespace mortise
