#include "assembly/assembly.hpp"

#include <xxhash.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "assembly/checkpoint_service.hpp"
#include "assembly/memory_check.hpp"
#include "checkpoint/hash_sidecar.hpp"
#include "error.hpp"
#include "execution/score_pass.hpp"

namespace mortise {
namespace {

// Of a device whose KV cache is to fill it: what stays free for workspaces and captured graphs.
constexpr std::uint64_t kKeptFree = std::uint64_t{1} << 30, kKeptShare = 12;

double gib(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

// Which component serves is known only with the configuration, whose path is an option: all choices name the same one.
std::string model_folder(const PipelineDescription& description) {
  const nlohmann::json& options = description.model.choices.front().options;
  if (!options.contains("path") || !options.at("path").is_string()) {
    fail("{}: model '{}' has no option 'path' that names a checkpoint folder", description.model.where,
         description.model.name);
  }
  return options.at("path").get<std::string>();
}

// Drafts for a sequence and step. A proposer with none would never be asked, and nobody would know why.
std::int32_t most_drafts(const ActiveProposer& proposer, const PartInstance& instance) {
  const bool says_it = MORTISE_HAS(proposer.api, max_drafts);
  const nlohmann::json& options = instance.options();
  if (!says_it && (!options.contains("max_tokens") || !options["max_tokens"].is_number_integer())) {
    fail(ErrorCode::kInternal,
         "{}: does not say how many tokens it drafts, so it would never be asked: it must have the function max_drafts "
         "in its table, or an integer option 'max_tokens'",
         instance.full_name());
  }
  const std::int32_t most = says_it ? proposer.value<&mortise_proposer_table::max_drafts>("max_drafts", std::int32_t{0})
                                    : options["max_tokens"].get<std::int32_t>();
  if (most > 0) return most;
  if (const std::string reason = proposer.health->reason(); !reason.empty()) throw Error(reason, ErrorCode::kInternal);
  fail("{}: drafts at most {} tokens ({}), so it would never be asked; it must be at least 1", instance.full_name(),
       most, says_it ? "max_drafts" : "option max_tokens");
}

// The options of a proposer for numerics_id(): where they name a checkpoint, what is in it instead of where it lies.
std::string identified(nlohmann::json options) {
  const auto path = options.find("path");
  if (path == options.end() || !path->is_string()) return options.dump();
  try {
    Checkpoint drafting = Checkpoint::open(path->get<std::string>());
    drafting.start_hashing(HashSidecar::standard_folder());
    const std::string id = drafting.fingerprint();
    *path = fmt::format("checkpoint {:016x}", XXH64(id.data(), id.size(), 0));
  } catch (const Error&) {  // a file or folder of the plugin's own kind: it stays a path
  }
  return options.dump();
}

}  // namespace

Assembly::Assembly(const PipelineDescription& description, std::optional<ModelFiles> files, FileOpener open_draft) {
  open_device(description);
  const bool made = files.has_value();
  if (!made) {
    files = ModelFiles::open(model_folder(description));
    files->checkpoint.start_hashing(HashSidecar::standard_folder());
  }
  target_ =
      std::make_shared<ModelStack>(device_, std::move(*files),
                                   StackParts{description.model, description.attention, description.kv_cache.dtype,
                                              description.block_size, description.kv_cache.populate.value_or(false)},
                                   description.query());
  static_cast<ShardParts&>(parts_) = parts_of(target_);
  set_limits(description);
  const nlohmann::json& model_options = target_->model().options();
  is_cut_ = model_options.contains("max_model_len") && !model_options["max_model_len"].is_null() &&
            dims().max_model_len < checkpoint().config().max_position_embeddings.value_or(INT32_MAX);
  runners_.emplace(device_, description, *target_, std::move(open_draft));
  open_policies(description);
  target_->load_weights();
  activate(description);
  if (!made) checkpoint().fingerprint();  // waits for the hash: no step shares the memory with it
}

Assembly::~Assembly() = default;

void Assembly::open_device(const PipelineDescription& description) {
  const PartChoice& choice = description.device.select(description.query());
  device_ = std::make_shared<PartInstance>(*choice.component, choice.options, CreateContext{});
  // Models and attention allocate from the device, so it is active before they are made.
  device_->activate({});
}

void Assembly::set_limits(const PipelineDescription& description) {
  limits_.max_num_seqs = description.max_num_seqs;
  limits_.max_batched_tokens = description.max_batched_tokens;
  limits_.max_model_len = dims().max_model_len;
  limits_.block_size = description.block_size;
  limits_.prefix_cache = description.kv_cache.prefix_cache;
  limits_.rejection = description.speculation.verify == Verify::kRejection;
  limits_.adaptive_lengths = description.speculation.lengths == DraftLengths::kAdaptive;
  limits_.batch_expansion = description.speculation.batch_expansion ||
                            (target_->attention().component().capabilities & MORTISE_CAP_MULTI_QUERY) == 0;
  limits_.max_logit_rows = target_->max_logit_rows(limits_.max_batched_tokens);
  limits_.num_blocks = useful_blocks(description, description.kv_cache.memory_bytes / kv_bytes_per_block());
  if (fills_device(description)) return;  // what is left is known once the weights are there
  if (limits_.num_blocks == 0) {
    fail("{}: kv_cache.memory of {} bytes holds no block of {} tokens, which takes {} bytes; raise it",
         description.where, description.kv_cache.memory_bytes, description.block_size, kv_bytes_per_block());
  }
  const std::uint64_t kv_bytes = static_cast<std::uint64_t>(limits_.num_blocks) * kv_bytes_per_block();
  check_memory(description, kv_bytes, target_->weight_bytes(), device_memory(parts_.device), parts_.device.name);
}

bool Assembly::fills_device(const PipelineDescription& description) const {
  return description.kv_cache.fills_device && !shares_host_memory(parts_.device);
}

std::int32_t Assembly::useful_blocks(const PipelineDescription& description, std::uint64_t blocks) const {
  return mortise::useful_blocks(description, dims().max_model_len, blocks);
}

// Gives the attentions their memory; on a device that is to be filled, of what weights and models' buffers left.
void Assembly::bind_attention(const PipelineDescription& description) {
  const std::uint64_t weights = target_->weight_bytes();
  if (fills_device(description)) {
    const std::uint64_t free = free_device_memory(parts_.device);
    const std::uint64_t kept = std::max(kKeptFree, free / kKeptShare);
    const std::uint64_t taken = kept + runners_->fixed_kv_bytes();
    // A block here, and as many tokens of each draft model.
    const double bytes =
        static_cast<double>(kv_bytes_per_block()) + runners_->kv_bytes_per_target_token() * description.block_size;
    const auto blocks = static_cast<double>(free - std::min(free, taken)) / bytes;
    limits_.num_blocks = useful_blocks(description, static_cast<std::uint64_t>(blocks));
    if (limits_.num_blocks < 2) {
      fail(
          "{}: of the {:.1f} GiB of {}, {:.1f} GiB are free beside {:.1f} GiB of weights, and {:.1f} GiB of them are "
          "kept for workspaces: no KV block of {} bytes fits; take a smaller model or lower max_batched_tokens",
          description.where, gib(device_memory(parts_.device)), parts_.device.name, gib(free), gib(weights), gib(kept),
          kv_bytes_per_block());
    }
  }
  if (parts_.graphs != nullptr) limits_.padding_block = limits_.num_blocks;
  try {
    target_->bind_kv(limits_.num_blocks);
  } catch (const Error& error) {
    const std::uint64_t kv_bytes = static_cast<std::uint64_t>(limits_.num_blocks) * kv_bytes_per_block();
    fail("{}: {:.1f} GiB of KV cache beside {:.1f} GiB of weights: {}; lower kv_cache.memory", description.where,
         gib(kv_bytes), gib(weights), error.what());
  }
  runners_->activate_kv({limits_.num_blocks, limits_.block_size, limits_.rejection});
}

void Assembly::open_policies(const PipelineDescription& description) {
  mortise_query query = description.query();
  const std::string& config = checkpoint().config().json;
  query.model_config = {config.data(), config.size()};
  query.dims = &dims();
  query.kv_dtype = target_->kv_dtype();
  CreateContext context;
  context.device = parts_.device.self;
  context.device_table = parts_.device.api;
  context.device_health = parts_.device.health;
  context.extensions = [this](const char* id) -> const void* {
    return std::string_view(id) == MORTISE_EXT_CHECKPOINT ? checkpoint_service() : runners_->extension(id);
  };
  const PartChoice& scheduler = description.scheduler.select(query);
  scheduler_.emplace(*scheduler.component, scheduler.options, context);
  parts_.scheduler = scheduler_->active_part<mortise_scheduler, mortise_scheduler_table>();
  for (const PartDescription& proposer : description.proposers) open_proposer(proposer, query, context);
}

void Assembly::open_proposer(const PartDescription& description, const mortise_query& query,
                             const CreateContext& context) {
  const PartChoice& choice = description.select(query);
  PartInstance& instance = proposers_.emplace_back(*choice.component, choice.options, context);
  ActiveProposer& proposer = parts_.proposers.emplace_back();
  static_cast<ProposerPart&>(proposer) = instance.active_part<mortise_proposer, mortise_proposer_table>();
  proposer.plugin = choice.component->name;
  proposer.capabilities = choice.component->capabilities;
  proposer.sequences = static_cast<const mortise_sequences_table*>(instance.get_ext(MORTISE_EXT_SEQUENCES));
  // With rejection sampling the drafts decide, too, which tokens come out.
  if (limits_.rejection)
    rejection_id_ += fmt::format("; rejection of {} {}", proposer.plugin, identified(choice.options));
  mortise_proposer_bind_args bind{};
  bind.struct_size = sizeof bind;
  bind.target = &dims();
  bind.vocab_hash = vocabulary_hash(tokenizer());
  instance.perform("bind", [&](mortise_error* error) { return proposer.api->bind(proposer.self, &bind, error); });
  proposer.max_tokens = most_drafts(proposer, instance);
  if ((proposer.capabilities & MORTISE_CAP_TREE) != 0) {
    proposer.max_paths = std::clamp(choice.options.value("branches", 1), 1, MORTISE_MAX_DRAFT_PATHS);
  }
  limits_.max_draft_tokens = std::max(limits_.max_draft_tokens, proposer.max_tokens);
  limits_.max_paths = std::max(limits_.max_paths, proposer.max_paths);
}

mortise_activate_args Assembly::sizes() const {
  mortise_activate_args args{};
  args.struct_size = sizeof args;
  args.max_num_seqs = limits_.max_num_seqs;
  args.max_batched_tokens = limits_.max_batched_tokens;
  args.max_logit_rows = std::max(limits_.max_logit_rows, std::min(limits_.max_batched_tokens, ScorePass::kBlockRows));
  args.max_model_len = limits_.max_model_len;
  args.block_size = limits_.block_size;
  args.num_blocks = limits_.num_blocks;
  return args;
}

// For the parts that see batches: a sequence may be several runs there, and padding is sequences too.
mortise_activate_args Assembly::batch_sizes() const {
  mortise_activate_args args = sizes();
  args.max_num_seqs = limits_.max_batch_seqs();
  return args;
}

// The models first: what their buffers leave may become the KV cache.
void Assembly::activate(const PipelineDescription& description) {
  if (fills_device(description))
    limits_.num_blocks = useful_blocks(description, free_device_memory(parts_.device) / kv_bytes_per_block());
  target_->activate_model(batch_sizes());
  runners_->activate_models();
  bind_attention(description);
  target_->activate_attention(batch_sizes());
  scheduler_->activate(sizes());
  for (PartInstance& proposer : proposers_) proposer.activate(sizes());
}

ModelInfo Assembly::model_info() const {
  ModelInfo info;
  info.vocab_size = dims().vocab_size;
  info.eos_tokens = checkpoint().generation_config().eos_token_ids;
  if (info.eos_tokens.empty() && tokenizer().eos_id()) info.eos_tokens.push_back(*tokenizer().eos_id());
  // What the head has no logit for is never drawn, and a device refuses to ban it (min_tokens).
  std::erase_if(info.eos_tokens, [&](std::int32_t id) { return id >= info.vocab_size; });
  info.is_cut = is_cut_;
  return info;
}

std::string Assembly::numerics_id() const {
  const auto id_of = [&](std::int32_t dtype) {
    const char* id = numerics_id_of(parts_.device, dtype);
    return std::string(id == nullptr ? "unknown" : id);
  };
  std::string device = id_of(dims().dtype);
  if (dims().weight_bits != 0) {
    device += fmt::format(" with {}, {}", id_of(MORTISE_I8), weight_format(dims()));
  }
  return fmt::format("{}; attention {}; model {}; {}; {}; kv {}; world 1{}", device,
                     target_->attention().component().numerics_id, target_->model().component().name,
                     checkpoint().fingerprint(), tokenizer().fingerprint(), dtype_name(target_->kv_dtype()),
                     rejection_id_);
}

std::string Assembly::system_fingerprint() const {
  const std::string id = numerics_id();
  return fmt::format("mortise-{:016x}", XXH64(id.data(), id.size(), 0));
}

std::string Assembly::vocabulary() const {
  return fmt::format("{:016x}", vocabulary_hash(tokenizer()));
}

SamplingParams Assembly::default_sampling() const {
  const GenerationConfig& config = checkpoint().generation_config();
  SamplingParams params;
  if (config.temperature) params.temperature = static_cast<float>(*config.temperature);
  if (config.do_sample == false) params.temperature = 0;
  if (config.top_k) params.top_k = *config.top_k;
  if (config.top_p) params.top_p = static_cast<float>(*config.top_p);
  if (config.min_p) params.min_p = static_cast<float>(*config.min_p);
  if (config.repetition_penalty) params.repetition_penalty = static_cast<float>(*config.repetition_penalty);
  return params;
}

}  // namespace mortise
