#include "checkpoint/gguf/names.hpp"

#include <initializer_list>
#include <set>

#include "error.hpp"
#include "json/bounded_json.hpp"

namespace mortise {
namespace {

// A tensor of a layer (or of the whole model): its name in GGUF and in transformers.
struct Name {
  const char* gguf;
  const char* hugging_face;
};

constexpr Name kLlamaLayer[] = {
    {"attn_norm.weight", "input_layernorm.weight"},    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_output.weight", "self_attn.o_proj.weight"}, {"ffn_norm.weight", "post_attention_layernorm.weight"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},       {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"}};
constexpr Name kMlpBiases[] = {{"ffn_gate.bias", "mlp.gate_proj.bias"},
                               {"ffn_up.bias", "mlp.up_proj.bias"},
                               {"ffn_down.bias", "mlp.down_proj.bias"}};
constexpr Name kHeadNorms[] = {{"attn_q_norm.weight", "self_attn.q_norm.weight"},
                               {"attn_k_norm.weight", "self_attn.k_norm.weight"}};

constexpr Name kGpt2Layer[] = {{"attn_norm.weight", "ln_1.weight"},   {"attn_norm.bias", "ln_1.bias"},
                               {"attn_qkv.bias", "attn.c_attn.bias"}, {"attn_output.bias", "attn.c_proj.bias"},
                               {"ffn_norm.weight", "ln_2.weight"},    {"ffn_norm.bias", "ln_2.bias"},
                               {"ffn_up.bias", "mlp.c_fc.bias"},      {"ffn_down.bias", "mlp.c_proj.bias"}};
constexpr Name kGpt2Matrices[] = {{"attn_qkv.weight", "attn.c_attn.weight"},
                                  {"attn_output.weight", "attn.c_proj.weight"},
                                  {"ffn_up.weight", "mlp.c_fc.weight"},
                                  {"ffn_down.weight", "mlp.c_proj.weight"}};

Dtype dtype_of(const GgufStorage& storage) {
  if (storage.type == GgufType::kF32) return Dtype::kF32;
  if (storage.type == GgufType::kF16) return Dtype::kF16;
  return storage.type == GgufType::kBf16 ? Dtype::kBf16 : Dtype::kOther;
}

// Collects the tensors of a model. Used by one thread.
class Namer {
 public:
  explicit Namer(const std::vector<GgufFile>& parts) : parts_(parts) {}

  void add(const std::string& gguf, std::string hugging_face, std::int64_t rope_heads = 0, bool transposed = false) {
    const GgufTensor* tensor = find_gguf_tensor(parts_, gguf);
    if (tensor == nullptr) {
      fail(
          "{}: the tensor {} is missing, but others call for it: the conversion was not complete; convert the model "
          "again or download another file",
          parts_.front().path().native(), quote(gguf));
    }
    const GgufStorage storage{tensor->type, rope_heads, transposed};
    if (rope_heads != 0 && tensor->shape.front() % (2 * rope_heads) != 0) {
      fail("{}: tensor {} at byte {} has {} rows, no multiple of two for each of {} heads; convert the model again",
           file_of(gguf), quote(gguf), tensor->offset, tensor->shape.front(), rope_heads);
    }
    TensorView view;
    view.dtype = dtype_of(storage);
    // The name tells how the bytes lie, since it is hashed beside them.
    view.dtype_name = fmt::format("GGUF {}{}", info_of(tensor->type).name, rope_heads != 0 ? " by pairs" : "");
    view.shape = tensor->shape;
    if (transposed && view.shape.size() == 2) std::swap(view.shape[0], view.shape[1]);
    view.bytes = tensor->bytes;
    view.gguf = storage;
    out_.emplace(std::move(hugging_face), std::move(view));
    used_.insert(gguf);
  }

  template <std::size_t n>
  void add_all(const Name (&names)[n], const std::string& gguf, const std::string& hugging_face,
               bool transposed = false) {
    for (const Name& name : names) add(gguf + name.gguf, hugging_face + name.hugging_face, 0, transposed);
  }

  void pass(const char* gguf) { used_.insert(gguf); }

  TensorMap finish() {
    for (const GgufFile& part : parts_) {
      for (const auto& [name, tensor] : part.tensors()) {
        if (used_.contains(name)) continue;
        fail(
            "{}: tensor {} at byte {} is none that this architecture has here, and without it the results would be "
            "others; use the model's safetensors checkpoint, if Mortise serves it",
            part.path().native(), quote(name), tensor.offset);
      }
    }
    return std::move(out_);
  }

 private:
  const std::string& file_of(const std::string& gguf) const {
    for (const GgufFile& part : parts_) {
      if (part.tensors().contains(gguf)) return part.path().native();
    }
    return parts_.front().path().native();
  }

  const std::vector<GgufFile>& parts_;
  TensorMap out_;
  std::set<std::string, std::less<>> used_;
};

void name_gpt2(Namer& namer, const GgufFeatures& features) {
  namer.add("token_embd.weight", "transformer.wte.weight");
  namer.add("position_embd.weight", "transformer.wpe.weight");
  namer.add("output_norm.weight", "transformer.ln_f.weight");
  namer.add("output_norm.bias", "transformer.ln_f.bias");
  for (std::int64_t i = 0; i < features.num_layers; ++i) {
    const std::string gguf = fmt::format("blk.{}.", i), hugging_face = fmt::format("transformer.h.{}.", i);
    namer.add_all(kGpt2Layer, gguf, hugging_face);
    namer.add_all(kGpt2Matrices, gguf, hugging_face, /*transposed=*/true);
  }
}

void name_llama(Namer& namer, const GgufFeatures& features) {
  namer.add("token_embd.weight", "model.embed_tokens.weight");
  namer.add("output_norm.weight", "model.norm.weight");
  if (features.rope_factors) namer.pass("rope_freqs.weight");
  for (std::int64_t i = 0; i < features.num_layers; ++i) {
    const std::string gguf = fmt::format("blk.{}.", i), hugging_face = fmt::format("model.layers.{}.", i);
    namer.add_all(kLlamaLayer, gguf, hugging_face);
    for (const char* kind : {"weight", "bias"}) {
      if (*kind == 'b' && !features.qkv_bias) break;
      namer.add(gguf + "attn_q." + kind, hugging_face + "self_attn.q_proj." + kind, features.rope_heads);
      namer.add(gguf + "attn_k." + kind, hugging_face + "self_attn.k_proj." + kind, features.rope_kv_heads);
    }
    if (features.qkv_bias) namer.add(gguf + "attn_v.bias", hugging_face + "self_attn.v_proj.bias");
    if (features.out_bias) namer.add(gguf + "attn_output.bias", hugging_face + "self_attn.o_proj.bias");
    if (features.mlp_bias) namer.add_all(kMlpBiases, gguf, hugging_face);
    if (features.qk_norm) namer.add_all(kHeadNorms, gguf, hugging_face);
  }
}

}  // namespace

const GgufTensor* find_gguf_tensor(const std::vector<GgufFile>& parts, std::string_view name) {
  for (const GgufFile& part : parts) {
    const auto found = part.tensors().find(name);
    if (found != part.tensors().end()) return &found->second;
  }
  return nullptr;
}

TensorMap name_tensors(const std::vector<GgufFile>& parts, const GgufFeatures& features) {
  Namer namer(parts);
  if (features.is_gpt2) {
    name_gpt2(namer, features);
  } else {
    name_llama(namer, features);
  }
  if (features.head) namer.add("output.weight", "lm_head.weight");
  return namer.finish();
}

}  // namespace mortise
