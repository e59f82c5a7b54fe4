#include "checkpoint/checkpoint.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "checkpoint/gguf/translation.hpp"
#include "checkpoint/json_file.hpp"
#include "error.hpp"
#include "json/is_there.hpp"

namespace mortise {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

// Gives a better message for a folder that lacks a file, but has a GGUF file.
void check_has_no_gguf(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().native();
    if (!name.ends_with(".gguf")) continue;
    fail("{}: is no Hugging Face checkpoint, but has {}; give the path of that file (of a split model the first part)",
         folder.native(), quote(name));
  }
}

void check_folder(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) {
    fail(
        "{}: no such folder; give the folder of a Hugging Face checkpoint (config.json and model.safetensors), or a "
        "GGUF "
        "file",
        folder.native());
  }
  if (!fs::is_directory(folder, ignored)) {
    fail(
        "{}: is a file, but no GGUF file; give the folder of a Hugging Face checkpoint (config.json and "
        "model.safetensors), or a GGUF file",
        folder.native());
  }
  if (!is_there(folder / "config.json")) {
    check_has_no_gguf(folder);
    fail("{}: has no config.json, so it is not a Hugging Face checkpoint; check the path or download it again",
         folder.native());
  }
}

[[noreturn]] void fail_without_weights(const fs::path& folder) {
  check_has_no_gguf(folder);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().native();
    if (name.ends_with(".safetensors")) {
      fail("{}: has {} but neither {} nor {}; download the checkpoint again", folder.native(), quote(name), kSingleFile,
           kIndexFile);
    }
    if (name.ends_with(".bin") || name.ends_with(".pth") || name.ends_with(".pt")) {
      fail(
          "{}: has {} but no {}; weights in pickle files (.bin, .pth, .pt) are not supported: load the model with "
          "transformers and save it with save_pretrained, which writes safetensors",
          folder.native(), quote(name), kSingleFile);
    }
  }
  fail("{}: has no weights ({} or {}); download the checkpoint again", folder.native(), kSingleFile, kIndexFile);
}

// The index is not trusted: a shard must be a plain file name, so that it cannot lead out of the folder.
void check_shard_name(const std::string& shard, const std::string& where) {
  const bool plain = shard.find('/') == shard.npos && shard.find('\\') == shard.npos && shard.find('\0') == shard.npos;
  if (!plain || shard.starts_with('.') || !shard.ends_with(".safetensors")) {
    fail("{}: names the shard {}; expected the name of a .safetensors file in the same folder", where, quote(shard));
  }
}

// Maps each shard to the names of its tensors.
std::map<std::string, std::vector<std::string>> read_index(const fs::path& path) {
  const std::string& where = path.native();
  const nlohmann::json index = read_json_object(path);
  const nlohmann::json& weight_map = member(index, "weight_map");
  if (!weight_map.is_object()) fail("{}: has no weight_map; download the file again", where);
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto& [name, shard] : weight_map.items()) {
    if (!shard.is_string()) fail("{}: tensor {} has no shard; download the file again", where, quote(name));
    shards[shard.get<std::string>()].push_back(name);
  }
  for (const auto& [shard, names] : shards) check_shard_name(shard, where);
  return shards;
}

std::string_view config_spelling(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBf16:
      return "bfloat16";
    case Dtype::kF16:
      return "float16";
    case Dtype::kF64:
      return "float64";
    default:
      return "float32";
  }
}

// The floating-point dtype of most bytes. (A bf16 model may keep a few norms in f32.)
std::string_view prevailing_dtype(const TensorMap& tensors) {
  std::map<Dtype, std::size_t> bytes;
  for (const auto& [name, view] : tensors) {
    const bool is_float = view.dtype == Dtype::kBf16 || view.dtype == Dtype::kF16 || view.dtype == Dtype::kF32 ||
                          view.dtype == Dtype::kF64;
    if (is_float) bytes[view.dtype] += view.bytes.size();
  }
  const auto most = std::max_element(bytes.begin(), bytes.end(), [](auto& a, auto& b) { return a.second < b.second; });
  return config_spelling(most == bytes.end() ? Dtype::kF32 : most->first);
}

// Blocks become bf16, whatever type the norms beside them have.
std::string_view gguf_dtype(const TensorMap& tensors) {
  const bool blocks =
      std::ranges::any_of(tensors, [](const auto& tensor) { return tensor.second.dtype == Dtype::kOther; });
  return blocks ? "bfloat16" : prevailing_dtype(tensors);
}

// The integers of most bytes of those matrices that are kept as integers; nullopt: there are none.
std::optional<GgufIntegers> prevailing_integers(const TensorMap& tensors) {
  std::map<GgufType, std::size_t> bytes;
  for (const auto& [name, view] : tensors) {
    if (view.shape.size() == 2 && !Checkpoint::is_embedding(name) && kept_integers(view.gguf->type))
      bytes[view.gguf->type] += view.bytes.size();
  }
  if (bytes.empty()) return std::nullopt;
  return kept_integers(
      std::max_element(bytes.begin(), bytes.end(), [](auto& a, auto& b) { return a.second < b.second; })->first);
}

}  // namespace

bool Checkpoint::is_gguf(const fs::path& path) {
  std::error_code ignored;
  return !fs::is_directory(path, ignored) && (path.extension() == ".gguf" || GgufFile::is_one(path));
}

bool Checkpoint::is_embedding(std::string_view name) {
  constexpr std::string_view kEnds[] = {"embed_tokens.weight", "embed_positions.weight", "wte.weight", "wpe.weight"};
  return std::ranges::any_of(kEnds, [&](std::string_view end) { return name.ends_with(end); });
}

Checkpoint Checkpoint::open(const fs::path& path) {
  return is_gguf(path) ? open_gguf(path) : open_folder(path);
}

Checkpoint Checkpoint::open_folder(const fs::path& folder) {
  check_folder(folder);
  Checkpoint out;
  out.path_ = folder;
  std::vector<SafetensorsFile> files;
  if (is_there(folder / kSingleFile)) {
    files.emplace_back(folder / kSingleFile);
    out.tensors_ = files.back().tensors();
  } else if (is_there(folder / kIndexFile)) {
    for (const auto& [shard, names] : read_index(folder / kIndexFile)) {
      const TensorMap& in_shard = files.emplace_back(folder / shard).tensors();
      for (const std::string& name : names) {
        const auto found = in_shard.find(name);
        if (found == in_shard.end()) {
          fail("{}: has no tensor {}, which {} expects there; download both files again", (folder / shard).native(),
               quote(name), kIndexFile);
        }
        out.tensors_.insert(*found);
      }
    }
  } else {
    fail_without_weights(folder);
  }
  const auto kept = std::make_shared<const std::vector<SafetensorsFile>>(std::move(files));
  for (const SafetensorsFile& file : *kept) out.files_.push_back({file.bytes(), file.identity()});
  out.owner_ = kept;
  out.config_ = read_model_config(folder, prevailing_dtype(out.tensors_));
  out.generation_config_ = read_generation_config(folder, out.config_);
  out.weights_hash_ = std::make_unique<WeightsHash>(out.tensors_, out.owner_);
  return out;
}

Checkpoint Checkpoint::open_gguf(const fs::path& file) {
  const auto parts = std::make_shared<const std::vector<GgufFile>>(open_gguf_parts(file));
  GgufModel model = translate_gguf(*parts);
  Checkpoint out;
  out.path_ = file;
  for (const GgufFile& part : *parts) out.files_.push_back({part.bytes(), part.identity()});
  out.owner_ = parts;
  out.tensors_ = std::move(model.tensors);
  const std::optional<GgufIntegers> integers = prevailing_integers(out.tensors_);
  out.config_ = make_model_config(model.config, file.native(), gguf_dtype(out.tensors_));
  if (integers) {
    nlohmann::json config = nlohmann::json::parse(out.config_.json);
    out.config_.quantization = gguf_quantization(config, integers->bits, integers->group_size);
    out.config_.json = config.dump();
  }
  out.generation_config_.eos_token_ids = std::move(model.eos_token_ids);
  out.generation_config_.bos_token_id = model.bos_token_id;
  out.weights_hash_ = std::make_unique<WeightsHash>(out.tensors_, out.owner_);
  return out;
}

Checkpoint Checkpoint::from_memory(const std::string& name, ModelConfig config, TensorMap tensors,
                                   std::shared_ptr<const void> owner) {
  Checkpoint out;
  out.path_ = name;
  out.generation_config_.eos_token_ids = config.eos_token_ids;
  out.generation_config_.bos_token_id = config.bos_token_id;
  out.config_ = std::move(config);
  out.owner_ = std::move(owner);
  out.tensors_ = std::move(tensors);
  return out;
}

std::optional<QuantizedMatrix> Checkpoint::find_quantized(std::string_view name) const {
  if (!config_.quantization) return std::nullopt;
  return QuantizedMatrix::find(tensors_, *config_.quantization, name, path_.native());
}

const TensorView* Checkpoint::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

}  // namespace mortise
