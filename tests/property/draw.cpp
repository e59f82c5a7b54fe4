#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "kernels/cpu/isa.hpp"
#include "mix.hpp"
#include "variables.hpp"

namespace mortise::test {
namespace {

bool chance(std::mt19937& random, int percent) {
  return between(random, 0, 99) < percent;
}

std::vector<std::int32_t> draw_tokens(std::mt19937& random, std::int32_t vocab_size, int count) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::int32_t& token : tokens) token = between(random, 0, vocab_size - 1);
  return tokens;
}

void draw_sampling(std::mt19937& random, std::int32_t vocab_size, SamplingParams& params) {
  constexpr float kTemperatures[] = {0.0f, 0.3f, 0.8f, 1.0f, 1.7f};
  params.temperature = kTemperatures[between(random, 0, 4)];
  if (chance(random, 30)) params.top_k = between(random, 1, 50);
  if (chance(random, 30)) params.top_p = static_cast<float>(between(random, 1, 99)) / 100.0f;
  if (chance(random, 20)) params.min_p = static_cast<float>(between(random, 1, 30)) / 100.0f;
  if (chance(random, 20)) params.repetition_penalty = 1.0f + static_cast<float>(between(random, -3, 8)) / 10.0f;
  if (chance(random, 20)) params.frequency_penalty = static_cast<float>(between(random, -10, 20)) / 10.0f;
  if (chance(random, 20)) params.presence_penalty = static_cast<float>(between(random, -10, 20)) / 10.0f;
  if (chance(random, 15)) {
    for (int i = 0; i < 5; ++i)
      params.logit_bias[between(random, 0, vocab_size - 1)] = static_cast<float>(between(random, -9, 9));
  }
  params.seed = random();
  params.ignore_eos = chance(random, 50);
  params.max_tokens = between(random, 1, 24);
  if (chance(random, 20)) params.min_tokens = between(random, 0, params.max_tokens);
  if (chance(random, 15)) params.stop_token_ids = draw_tokens(random, vocab_size, 40);
  if (chance(random, 15)) params.stop = {"e", "the "};
  if (chance(random, 15)) params.n = 2;
  if (chance(random, 12)) {  // guided: its length and its end come from the choices
    params.choices = {"yes", "yes, of course", "no", "nobody knows", " no", "4", "42", "Once upon a time"};
    params.max_tokens = 24;
    params.min_tokens = 0;
    params.stop.clear();
    params.stop_token_ids.clear();
  }
}

// Draws a draft_model that drafts one path or a tree, perhaps with too little KV memory. The first model, whose drafts
// are good, is drawn more often.
std::string draw_draft_model(std::mt19937& random, const std::vector<std::filesystem::path>& models,
                             const char* dtype) {
  constexpr int kBlockSizes[] = {16, 32, 64};
  const char* memory = chance(random, 40) ? "288KiB" : "auto";
  return fmt::format(
      "draft_model {{ path = '{}', max_tokens = {}, branches = {}, kv_memory = '{}', "
      "attention = {{ block_size = {} }}, dtype = '{}' }}",
      models[chance(random, 40) ? 0 : random() % models.size()].string(), between(random, 1, 8),
      chance(random, 50) ? 1 : between(random, 2, 4), memory, kBlockSizes[between(random, 0, 2)], dtype);
}

// Several completions of one prompt, to be scored.
std::vector<Request> draw_completions(std::mt19937& random, std::int32_t vocab_size,
                                      const std::vector<std::int32_t>& prompt) {
  std::vector<Request> requests(static_cast<std::size_t>(between(random, 2, 6)));
  for (Request& request : requests) {
    request.prompt = prompt;
    const std::vector<std::int32_t> own = draw_tokens(random, vocab_size, between(random, 1, 40));
    request.prompt.insert(request.prompt.end(), own.begin(), own.end());
    request.score_from = static_cast<std::int32_t>(prompt.size());
    request.sampling.max_tokens = 0;
    request.sampling.seed = 1;
    if (chance(random, 30)) request.logprobs = between(random, 0, 3);
  }
  return requests;
}

}  // namespace

std::string RunConfig::describe() const {
  return fmt::format(
      "isa {}, threads {}, {} ranks, {}, block_size {}, max_num_seqs {}, max_batched_tokens {}, pool_share {:.2f}, "
      "prefix_cache {}, {}, {} schedule, proposer {}, drafts {} of {}{}{}, {} lengths, numerics {}, weights {}, kv {}, "
      "{} swaps{}",
      isa, threads, shards, attention, block_size, max_num_seqs, max_batched_tokens, pool_share, prefix_cache,
      twice ? "twice" : "once", random_schedule ? "random" : scheduler, proposer.empty() ? "none" : proposer,
      draft_percent, oracle_tokens, choose_proposers ? ", chosen by request" : "", batch_expansion ? ", expanded" : "",
      adaptive ? "adaptive" : "fixed", numerics, weights, kv_dtype, swaps, checked ? ", checked" : "");
}

std::vector<Request> draw_requests(std::mt19937& random, std::int32_t vocab_size, int max_prompt, int max_total) {
  std::vector<Request> requests;
  int total = 0;
  const auto add = [&](std::vector<std::int32_t> prompt) {
    Request request;
    request.prompt = std::move(prompt);
    draw_sampling(random, vocab_size, request.sampling);
    if (chance(random, 60)) request.logprobs = between(random, 0, 3);
    if (chance(random, 30)) request.priority = between(random, -1, 1);
    if (chance(random, 30)) {
      const bool echo = chance(random, 40);
      request.score_from = echo ? 1 : between(random, 1, static_cast<int>(request.prompt.size()));
      if (chance(random, 40) && request.sampling.choices.empty()) {
        request.sampling.max_tokens = request.sampling.min_tokens = 0;
      }
    }
    total += static_cast<int>(request.prompt.size()) * request.sampling.n;
    requests.push_back(std::move(request));
  };
  // A group with a shared prefix; the lengths lie around block, tile and span borders.
  constexpr int kPrefixes[] = {700, 1000, 1537};
  const int prefix = kPrefixes[between(random, 0, 2)];
  if (prefix + 40 <= max_prompt && chance(random, 40)) {
    const std::vector<std::int32_t> shared = draw_tokens(random, vocab_size, prefix);
    // After it, perhaps, a second prefix that some of the members share.
    const int longest_nested = chance(random, 50) ? std::min(700, max_prompt - 40 - prefix) : 0;
    const std::vector<std::int32_t> nested =
        draw_tokens(random, vocab_size, longest_nested == 0 ? 0 : between(random, 1, longest_nested));
    const int members = between(random, 2, 9);
    for (int i = 0; i < members && total < max_total; ++i) {
      std::vector<std::int32_t> prompt = shared;
      if (chance(random, 60)) prompt.insert(prompt.end(), nested.begin(), nested.end());
      const std::vector<std::int32_t> own = draw_tokens(random, vocab_size, between(random, 1, 40));
      prompt.insert(prompt.end(), own.begin(), own.end());
      add(std::move(prompt));
    }
  }
  const int others = between(random, 2, 9);
  for (int i = 0; i < others && (total < max_total || requests.size() < 2); ++i) {
    const int kind = between(random, 0, 9);
    const int longest = kind == 0 ? max_prompt : kind < 4 ? std::min(max_prompt, 300) : 40;
    add(draw_tokens(random, vocab_size, between(random, 1, longest)));
  }
  if (chance(random, 40)) {
    const std::vector<std::int32_t> prompt =
        draw_tokens(random, vocab_size, between(random, 1, std::clamp(max_prompt - 64, 1, 300)));
    for (Request& request : draw_completions(random, vocab_size, prompt)) requests.push_back(std::move(request));
  }
  std::shuffle(requests.begin(), requests.end(), random);
  return requests;
}

RunConfig draw_config(std::mt19937& random, const std::vector<std::string>& isas,
                      const std::vector<std::filesystem::path>& draft_models, const char* draft_dtype) {
  constexpr int kBlockSizes[] = {16, 32, 64};
  constexpr int kBudgets[] = {17, 64, 256, 300, 2048};
  RunConfig config;
  config.isa = isas[static_cast<std::size_t>(between(random, 0, static_cast<int>(isas.size()) - 1))];
  config.threads = between(random, 1, 3);
  config.block_size = kBlockSizes[between(random, 0, 2)];
  config.max_num_seqs = between(random, 1, 12);
  config.max_batched_tokens = kBudgets[between(random, 0, 4)];
  config.pool_share = chance(random, 40) ? between(random, 20, 80) / 100.0 : 1.0;
  config.random_schedule = chance(random, 40);
  if (chance(random, 60)) config.scheduler = "prefix_group";
  config.prefix_cache = chance(random, 75);
  config.twice = chance(random, 40);
  constexpr int kDrafts[] = {-1, -1, 0, 60, 95};
  config.draft_percent = kDrafts[between(random, 0, 4)];
  config.oracle_tokens = between(random, 1, 8);
  // One token that stood before is a match: random texts hold hardly any longer ones.
  const std::string ngram =
      fmt::format("ngram {{ min_match = 1, max_match = 3, max_tokens = {} }}", between(random, 1, 8));
  const std::string proposers[] = {
      "", "", ngram, draw_draft_model(random, draft_models, draft_dtype),
      fmt::format("first_of {{ {}, {} }}", ngram, draw_draft_model(random, draft_models, draft_dtype))};
  config.proposer = proposers[between(random, 0, 4)];
  config.choose_proposers = chance(random, 30);
  config.batch_expansion = chance(random, 30);
  config.adaptive = chance(random, 50);
  config.seed = random();
  constexpr const char* kWeights[] = {"auto", "auto", "int8", "int4", "fp8", "mxfp4", "int8-block32", "int4-block32"};
  config.weights = kWeights[between(random, 0, 7)];
  if (chance(random, 40)) config.kv_dtype = chance(random, 50) ? "int8" : "fp8";
  if (chance(random, 60)) config.attention = "cascade";
  if (chance(random, 35)) config.swaps = between(random, 1, 6);
  if (config.swaps > 0) config.choose_proposers = false;  // they may be gone when requests come the second time
  config.checked = chance(random, 20);
  config.numerics = chance(random, 50) ? "pairs" : "tiles";
  constexpr int kRanks[] = {1, 1, 2, 4};
  config.shards = kRanks[between(random, 0, 3)];
  return config;
}

void put_on_cuda(RunConfig& config) {
  config.device = "cuda";
  std::vector<std::string> gpus;
  std::istringstream named(variable("MORTISE_PROPERTY_GPUS").value_or("0"));
  for (std::string gpu; std::getline(named, gpu, ',');) gpus.push_back(gpu);
  while (config.shards > static_cast<int>(gpus.size())) config.shards /= 2;
  gpus.resize(static_cast<std::size_t>(config.shards));
  config.gpus = fmt::format("{}", fmt::join(gpus, ", "));
  const std::size_t block32 = config.weights.find("-block32");
  if (block32 != std::string::npos) config.weights.resize(block32);
}

// In blocks of 16 tokens, as make_contended() sets them: a prompt is three shared blocks and one of its own, and with
// its answer it has 98 tokens, 7 blocks; all eight have 3 + 8 * 4 = 35 different ones.
std::vector<Request> draw_contended_requests(std::mt19937& random, std::int32_t vocab_size) {
  constexpr int kRequests = 8, kShared = 48, kOwn = 10, kAnswer = 40;
  const std::vector<std::int32_t> shared = draw_tokens(random, vocab_size, kShared);
  std::vector<Request> requests(kRequests);
  for (Request& request : requests) {
    request.prompt = shared;
    const std::vector<std::int32_t> own = draw_tokens(random, vocab_size, kOwn);
    request.prompt.insert(request.prompt.end(), own.begin(), own.end());
    SamplingParams& params = request.sampling;
    draw_sampling(random, vocab_size, params);
    params.n = 1;
    params.max_tokens = params.min_tokens = kAnswer;
    params.ignore_eos = true;
    params.stop.clear();
    params.stop_token_ids.clear();
    params.choices.clear();
    if (chance(random, 60)) request.logprobs = between(random, 0, 3);
  }
  return requests;
}

// The pool has 20 blocks: the eight prompts fit (3 + 8), and what they become does not (35).
void make_contended(RunConfig& config) {
  config.block_size = 16;
  config.max_num_seqs = 8;
  config.max_batched_tokens = std::max(config.max_batched_tokens, 256);
  config.pool_share = 0.36;  // of 8 * 7 blocks
  config.prefix_cache = true;
  config.twice = true;
  config.random_schedule = false;
  config.proposer.clear();
  config.draft_percent = 60;
  config.drafts_fail = false;
  config.oracle_tokens = std::max(config.oracle_tokens, 2);
  config.choose_proposers = false;
  config.adaptive = false;  // lengths that follow the clock may be 0
  config.swaps = 0;
}

void make_swapped(RunConfig& config) {
  make_contended(config);
  config.pool_share = 1;
  config.swaps = 12;
}

std::vector<std::string> machine_isas(bool fast_only) {
  constexpr int kFastTimes = 4;
  std::vector<std::string> names;
  for (cpu::Isa isa : cpu::available_isas()) {
    const bool portable = isa == cpu::Isa::kPortable;
    if (portable && fast_only) continue;
    names.insert(names.end(), portable ? 1 : kFastTimes, cpu::isa_name(isa));
  }
  return names;
}

std::vector<std::string> gpu_isas() {
  return {"auto", "sm_80"};
}

}  // namespace mortise::test
