// tests/unit/engine/fake_parts.hpp: parts whose results can be computed by hand, to test the engine without kernels.
// The "KV cache" holds token ids; a hidden row is a hash of the whole history as read through the block table, so a
// wrong block, slot, position or a stale token changes what comes out. A logit is a hash of (history, token).
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "engine/parts.hpp"

namespace mortise::test {

inline constexpr std::int32_t kVocab = 97;

// What the fake model answers after `history`: the token of the largest logit.
std::int32_t next_token(const std::vector<std::int32_t>& history);
float fake_logit(std::uint64_t history_hash, std::int32_t token);
std::uint64_t hash_history(const std::vector<std::int32_t>& history);
std::uint64_t load_hash(const float* hidden_row);  // of the history that the row is of

// The state that the functions of the tables use. One at a time: the instances are this struct itself.
struct FakeWorld {
  explicit FakeWorld(const EngineLimits& limits);
  ~FakeWorld();  // Frees what a device that had failed was not asked to free.
  Parts parts();

  EngineLimits limits;
  std::vector<std::int32_t> kv;  // [num_blocks, block_size]
  const mortise_batch* batch = nullptr;
  std::vector<float> hidden;

  // Overrides; unset: first come, first served, no proposer.
  std::function<void(const mortise_schedule_view&, mortise_schedule_plan&)> plan;
  std::function<std::vector<std::int32_t>(std::uint64_t seq, std::int32_t max)> propose;
  struct Tree {
    std::vector<std::int32_t> tokens, parents;
  };
  std::function<Tree(std::uint64_t seq, std::int32_t max)> propose_tree;
  std::function<void(std::int64_t forward_count)> before_forward;  // may throw: the forward then fails

  // Forward computes through the attention of its step, in one layer, as real models do: `attention_output` may then
  // change what this world's attention gives, and `attention_status` what it returns.
  bool calls_attention = false;
  std::function<void(const mortise_batch&, const mortise_tensor& out)> attention_output;
  std::function<mortise_status(const char* function)> attention_status;
  std::function<void(float* logits, std::int64_t row)> edit_logits;  // of a call of the head

  // What forward returns when it has written the step's KV; what it throws crosses the ABI.
  std::function<mortise_status(std::int64_t forward_count)> forward_status;

  // False: the device has memory of its own, as a GPU. `queued` then lists the calls that are ordered on streams; those
  // on another than the default stream end with "beside".
  bool shares_memory = true;
  std::vector<std::string> queued;

  // Of the device as one of several ranks.
  std::function<void()> abort;       // called when the rank tells the others to give up
  std::int64_t num_connections = 0;  // communicators that it has

  std::mutex memory_mutex;  // guards memory
  std::set<void*> memory;   // of the device

  std::int64_t num_forwards = 0;
  std::int64_t num_copied_blocks = 0;
  std::int64_t num_sample_calls_without_masks = 0;
  std::int32_t most_masks = 0;                              // of one call of sample
  std::set<std::uint64_t> scheduler_alive, proposer_alive;  // ids that the plugin has heard of and not lost
  struct Event {
    std::int32_t kind;
    std::uint64_t seq_id;
    std::int32_t num_tokens;
    std::vector<std::int32_t> tokens;
    std::int32_t max_new_tokens, priority;
    std::uint64_t group;
  };
  std::vector<Event> events;                        // that the scheduler got
  std::vector<std::vector<std::int32_t>> observed;  // by sequence id: tokens told to the proposer
};

}  // namespace mortise::test
