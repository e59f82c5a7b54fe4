// tests/property/mix.hpp: random request mixes and random ways to run them, both drawn from one seed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "assembly/assembly.hpp"
#include "engine/engine.hpp"
#include "swaps.hpp"

namespace mortise::test {

// How a mix is run. None of it may change a bit of the results.
struct RunConfig {
  std::string device = "cpu";  // "remote": the test's own, "cuda"
  bool graphs = true;          // of the device cuda
  std::string isa = "auto";    // of machine_isas(), or of gpu_isas() on the device cuda
  int threads = 1;
  int shards = 1;          // ranks
  std::string gpus = "0";  // of the ranks of the device cuda: "0, 1"
  int block_size = 16;
  int max_num_seqs = 64;
  int max_batched_tokens = 2048;
  double pool_share = 1;  // of the blocks that all requests together need; below 1 there will be preemptions
  bool prefix_cache = true;
  bool twice = false;            // all requests come a second time when the first have ended: the cache is warm
  bool random_schedule = false;  // else `scheduler`
  std::string scheduler = "fcfs";
  std::string proposer;           // of the pipeline, in Lua: "ngram { max_tokens = 3 }"; empty: none
  int draft_percent = -1;         // -1: no proposer that knows the answers; else how many of its drafts are right
  bool drafts_fail = true;        // that proposer returns an error now and then
  int oracle_tokens = 4;          // that one's max_tokens; with both proposers it is asked second
  std::int32_t wrong_draft = -1;  // that one's wrong drafts, every second; -1: any token
  bool choose_proposers = false;  // requests choose among them, and how many drafts they take
  bool batch_expansion = false;
  bool adaptive = false;  // draft lengths
  std::string verify = "coupled";
  std::string attention = "paged";   // "paged_single", of the device "remote": without multi-query rows
  std::uint32_t seed = 0;            // of schedule and drafts
  int swaps = 0;                     // of parts and sizes, while the requests run; test doubles go with the first
  bool checked = false;              // every call of a plugin (abi_check)
  bool errors_are_outcomes = false;  // else the first error of a request is thrown
  // What is run, rather than how: the same when the requests run alone.
  std::string numerics = "auto";  // of the device cpu
  std::string weights = "auto";   // of the model
  std::string kv_dtype = "auto";  // of kv_cache
  std::string kv_memory = "1GiB";

  std::string describe() const;
};

// The constructor in a pipeline of what the checkpoint is: "llama", "opt" or "gpt2".
std::string model_plugin(const std::filesystem::path& checkpoint);

// The real parts over a checkpoint, as `config` has them.
std::unique_ptr<Assembly> open_assembly(const std::filesystem::path& model, const RunConfig& config);

struct ChoiceOutcome {
  std::vector<TokenInfo> prompt, tokens;
  std::string text, error;
  FinishReason finish = FinishReason::kNone;
};
// By (request, choice).
using Outcomes = std::map<std::pair<std::size_t, std::int32_t>, ChoiceOutcome>;

// A mix for a model whose tokens are 0 .. vocab_size - 1: prompts up to `max_prompt` tokens, some with shared prefixes,
// all sampling parameters, scores, choices, stops.
std::vector<Request> draw_requests(std::mt19937& random, std::int32_t vocab_size, int max_prompt, int max_total);
// `draft_models`: checkpoints of which any may draft, first the model itself.
RunConfig draw_config(std::mt19937& random, const std::vector<std::string>& isas,
                      const std::vector<std::filesystem::path>& draft_models, const char* draft_dtype = "auto");
// Chooses the device cuda, and of the weights that it does not take the nearest ones that it takes.
void put_on_cuda(RunConfig& config);

// A mix that is certain to do what the others do by chance, whatever is drawn: its requests share cached blocks, their
// answers do not fit beside each other, so that some are preempted, and drafts are accepted and rejected. Of `config`
// it leaves instruction set, threads, scheduler's name, types and attention as they were drawn.
std::vector<Request> draw_contended_requests(std::mt19937& random, std::int32_t vocab_size);
void make_contended(RunConfig& config);
// The same for swaps: parts are exchanged while everything that they may disturb is at work.
void make_swapped(RunConfig& config);

struct RunReport {
  Outcomes outcomes;
  Outcomes again;  // of the second time; empty when there was none
  EngineStats stats;
  SwapCounts swaps;
};

// Runs the requests together under `config`. `drafts`: the outcomes to draft from, when config has a proposer.
RunReport run_together(const std::filesystem::path& model, RunConfig config, std::vector<Request> requests,
                       const Outcomes* drafts);
// Runs each request alone, one after the other, in a roomy engine without prefix cache; `what` says what is run.
Outcomes run_alone(const std::filesystem::path& model, const std::string& isa, const std::vector<Request>& requests,
                   const RunConfig& what = {});

// Instruction sets that this machine has, the portable one first, unless `fast_only`. To draw from: portable code takes
// several times as long as the others, so it stands here once and each of them four times.
std::vector<std::string> machine_isas(bool fast_only);
// The same of the device cuda: the GPU's own kernels, and those of compute capability 8.
std::vector<std::string> gpu_isas();

}  // namespace mortise::test
