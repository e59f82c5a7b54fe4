#include "assembly/proposer_set.hpp"

#include <xxhash.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "assembly/checkpoint_service.hpp"
#include "checkpoint/hash_sidecar.hpp"
#include "error.hpp"

namespace mortise {
namespace {

// Returns the most drafts of a proposer for a sequence and step. A proposer with 0 would never be asked, silently, so
// that is an error.
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

// Returns a proposer's options for a numerics id. If they name a checkpoint, its contents replace its path. The ranks
// that run a draft model are left out, because they change no bit.
std::string identified(nlohmann::json options) {
  options.erase("devices");
  const auto path = options.find("path");
  if (path == options.end() || !path->is_string()) return options.dump();
  try {
    Checkpoint drafting = Checkpoint::open(path->get<std::string>());
    drafting.start_hashing(HashSidecar::standard_folder());
    const std::string id = drafting.fingerprint();
    *path = fmt::format("checkpoint {:016x}", XXH64(id.data(), id.size(), 0));
  } catch (const Error&) {  // a file or folder that is no checkpoint: the path stays
  }
  return options.dump();
}

bool is_rejection(const PipelineDescription& description) {
  return description.speculation.verify == Verify::kRejection;
}

}  // namespace

ProposerSet::ProposerSet(const PipelineDescription& description, Devices devices,
                         std::shared_ptr<const OpenModel> target, std::int32_t kv_dtype, FileOpener open_draft)
    : descriptions_(description.proposers),
      rejection_(is_rejection(description)),
      target_(std::move(target)),
      runners_(std::move(devices), description, target_, std::move(open_draft)) {
  mortise_query query = description.query();
  const std::string& config = target_->files->checkpoint.config().json;
  query.model_config = {config.data(), config.size()};
  query.dims = &target_->dims;
  query.kv_dtype = kv_dtype;
  const auto device = target_->device->active_part<mortise_device, mortise_device_table>();
  CreateContext context;
  context.device = device.self;
  context.device_table = device.api;
  context.device_health = device.health;
  context.extensions = [this](const char* id) -> const void* {
    return std::string_view(id) == MORTISE_EXT_CHECKPOINT ? checkpoint_service() : runners_.extension(id);
  };
  for (const PartDescription& proposer : descriptions_) open(proposer, query, context);
}

void ProposerSet::open(const PartDescription& description, const mortise_query& query, const CreateContext& context) {
  const PartChoice& choice = description.select(query);
  PartInstance& instance = instances_.emplace_back(*choice.component, choice.options, context);
  ActiveProposer& proposer = active_.emplace_back();
  static_cast<ProposerPart&>(proposer) = instance.active_part<mortise_proposer, mortise_proposer_table>();
  proposer.plugin = choice.component->name;
  proposer.capabilities = choice.component->capabilities;
  proposer.sequences = static_cast<const mortise_sequences_table*>(instance.get_ext(MORTISE_EXT_SEQUENCES));
  if (rejection_) rejection_id_ += fmt::format("; rejection of {} {}", proposer.plugin, identified(choice.options));
  mortise_proposer_bind_args bind{};
  bind.struct_size = sizeof bind;
  bind.target = &target_->dims;
  bind.vocab_hash = target_->vocab_hash;
  instance.perform("bind", [&](mortise_error* error) { return proposer.api->bind(proposer.self, &bind, error); });
  proposer.max_tokens = most_drafts(proposer, instance);
  if ((proposer.capabilities & MORTISE_CAP_TREE) != 0) {
    proposer.max_paths = std::clamp(choice.options.value("branches", 1), 1, MORTISE_MAX_DRAFT_PATHS);
  }
}

void ProposerSet::activate(const mortise_activate_args& sizes) {
  for (PartInstance& instance : instances_) instance.activate(sizes);
}

std::vector<const Component*> ProposerSet::components() const {
  std::vector<const Component*> list;
  for (const PartInstance& instance : instances_) list.push_back(&instance.component());
  return list;
}

bool ProposerSet::is_of(const PipelineDescription& description) const {
  return rejection_ == is_rejection(description) &&
         std::ranges::equal(descriptions_, description.proposers,
                            [](const PartDescription& a, const PartDescription& b) { return same_part(a, b); });
}

}  // namespace mortise
