// runtime/abi_record/fields.hpp: which fields of the structs of scheduler.h, proposer.h and plugin.h a record has. The
// writer and the reader of a record share this list, so they cannot disagree.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <vector>

#include "conformance/guarded_memory.hpp"
#include "error.hpp"
#include "mortise/proposer.h"
#include "mortise/scheduler.h"

namespace mortise::abi_record {

inline constexpr int kFormat = 1;                    // of the record
inline constexpr std::int64_t kMaxLength = 1 << 24;  // elements of one array

// Returns a number as a record has it. Floats are written as their bits, because a record must keep NaN and infinities.
template <typename T>
nlohmann::json number(T value) {
  if constexpr (std::is_same_v<T, float>) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
  } else {
    return value;
  }
}

// Reads a number. Throws an Error unless it is an integer within the range of T.
template <typename T>
T read_number(const nlohmann::json& json, const char* name) {
  if constexpr (std::is_same_v<T, float>) {
    const auto bits = read_number<std::uint32_t>(json, name);
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  } else {
    if (json.is_number_unsigned()) {
      const auto value = json.get<std::uint64_t>();
      if (value <= static_cast<std::uint64_t>(std::numeric_limits<T>::max())) return static_cast<T>(value);
    } else if (json.is_number_integer()) {
      const auto value = json.get<std::int64_t>();
      if (std::is_signed_v<T> && value >= static_cast<std::int64_t>(std::numeric_limits<T>::min())) {
        return static_cast<T>(value);
      }
    }
    fail("'{}' is not an integer in its range", name);
  }
}

inline const nlohmann::json& member(const nlohmann::json& json, const char* name) {
  if (!json.is_object() || !json.contains(name)) fail("'{}' is missing", name);
  return json[name];
}

// Copies the fields of a struct into JSON. A value.
class Writer {
 public:
  template <typename T>
  void scalar(const char* name, const T& value) {
    json_[name] = number(value);
  }
  template <typename T>
  void array(const char* name, const T* const& values, std::int64_t count) {
    nlohmann::json& list = json_[name];
    if (values == nullptr) return;
    list = nlohmann::json::array();
    for (std::int64_t i = 0; i < count; ++i) list.push_back(number(values[i]));
  }
  nlohmann::json take() { return std::move(json_); }

 private:
  nlohmann::json json_ = nlohmann::json::object();
};

// Fills a struct from JSON. Arrays are read-only memory that ends at a guard page and lives as long as `copies`. Throws
// an Error if a field is missing or has another type, range or length. Used by one thread. Invariant: every array that
// it gives belongs to `copies`.
class Reader {
 public:
  Reader(const nlohmann::json& json, conformance::ReadOnlyCopies& copies) : json_(json), copies_(copies) {}

  template <typename T>
  void scalar(const char* name, T& value) {
    value = read_number<T>(member(json_, name), name);
  }
  template <typename T>
  void array(const char* name, const T*& values, std::int64_t count) {
    const nlohmann::json& list = member(json_, name);
    values = nullptr;
    if (list.is_null()) return;
    if (count < 0 || count > kMaxLength || !list.is_array() || list.size() != static_cast<std::size_t>(count)) {
      fail("'{}' is not a list of {} numbers", name, count);
    }
    std::vector<T> read;
    for (const nlohmann::json& one : list) read.push_back(read_number<T>(one, name));
    values = copies_.copy(read);
  }

 private:
  const nlohmann::json& json_;
  conformance::ReadOnlyCopies& copies_;
};

template <typename Visitor>
void visit(Visitor& v, mortise_activate_args& args) {
  v.scalar("max_num_seqs", args.max_num_seqs);
  v.scalar("max_batched_tokens", args.max_batched_tokens);
  v.scalar("max_logit_rows", args.max_logit_rows);
  v.scalar("max_model_len", args.max_model_len);
  v.scalar("block_size", args.block_size);
  v.scalar("num_blocks", args.num_blocks);
}

template <typename Visitor>
void visit(Visitor& v, mortise_model_dims& dims) {
  v.scalar("num_layers", dims.num_layers);
  v.scalar("hidden_size", dims.hidden_size);
  v.scalar("num_heads", dims.num_heads);
  v.scalar("num_kv_heads", dims.num_kv_heads);
  v.scalar("head_dim", dims.head_dim);
  v.scalar("vocab_size", dims.vocab_size);
  v.scalar("max_model_len", dims.max_model_len);
  v.scalar("dtype", dims.dtype);
  v.scalar("attention_scale", dims.attention_scale);
  v.array("sliding_windows", dims.sliding_windows, dims.num_layers);
  v.scalar("weight_bits", dims.weight_bits);
  v.scalar("weight_group_size", dims.weight_group_size);
  v.scalar("weight_type", dims.weight_type);
}

template <typename Visitor>
void visit(Visitor& v, mortise_schedule_view& view) {
  v.scalar("flags", view.flags);
  v.scalar("step_id", view.step_id);
  v.scalar("num_seqs", view.num_seqs);
  v.scalar("block_size", view.block_size);
  v.scalar("token_budget", view.token_budget);
  v.scalar("seq_budget", view.seq_budget);
  v.scalar("num_free_blocks", view.num_free_blocks);
  v.scalar("num_blocks", view.num_blocks);
  const std::int64_t n = view.num_seqs;
  v.array("seq_ids", view.seq_ids, n);
  v.array("states", view.states, n);
  v.array("num_tokens", view.num_tokens, n);
  v.array("num_computed", view.num_computed, n);
  v.array("num_cached", view.num_cached, n);
  v.array("num_cached_free_blocks", view.num_cached_free_blocks, n);
  v.array("blocks_held", view.blocks_held, n);
  v.array("blocks_freed_if_preempted", view.blocks_freed_if_preempted, n);
  v.array("lookahead", view.lookahead, n);
  v.array("priorities", view.priorities, n);
  v.array("arrivals", view.arrivals, n);
  v.array("groups", view.groups, n);
  v.array("cached_free_with", view.cached_free_with, n);
  v.array("cached_free_shared", view.cached_free_shared, n);
}

// Visits all fields but the token arrays, which are lists of lists.
template <typename Visitor>
void visit(Visitor& v, mortise_schedule_events& events) {
  v.scalar("num_events", events.num_events);
  const std::int64_t n = events.num_events;
  v.array("kinds", events.kinds, n);
  v.array("seq_ids", events.seq_ids, n);
  v.array("num_tokens", events.num_tokens, n);
  v.array("max_new_tokens", events.max_new_tokens, n);
  v.array("priorities", events.priorities, n);
  v.array("groups", events.groups, n);
}

// Visits all fields but `hidden`, which a recorded proposer does not get.
template <typename Visitor>
void visit(Visitor& v, mortise_observation& seen) {
  v.scalar("num_seqs", seen.num_seqs);
  v.scalar("num_ended", seen.num_ended);
  const std::int64_t n = seen.num_seqs;
  if (n < 0 || n > kMaxLength) fail("'num_seqs' is {}", n);
  v.array("seq_ids", seen.seq_ids, n);
  v.array("token_offsets", seen.token_offsets, n + 1);
  if (seen.token_offsets == nullptr && n > 0) fail("'token_offsets' is missing");
  const std::int64_t num_tokens = seen.token_offsets == nullptr ? 0 : seen.token_offsets[n];
  for (std::int64_t i = 0; i < n; ++i) {
    if (seen.token_offsets[i] < 0 || seen.token_offsets[i] > seen.token_offsets[i + 1]) {
      fail("'token_offsets' do not ascend");
    }
  }
  v.array("tokens", seen.tokens, num_tokens);
  v.array("num_accepted", seen.num_accepted, n);
  v.array("ended_ids", seen.ended_ids, seen.num_ended);
  v.array("first_positions", seen.first_positions, n);
}

// Visits all fields but the outputs, which a replay computes again, and `distributions`: CallRecorder refuses a call
// that has them.
template <typename Visitor>
void visit(Visitor& v, mortise_proposal_args& args) {
  v.scalar("num_seqs", args.num_seqs);
  v.scalar("draft_stride", args.draft_stride);
  const std::int64_t n = args.num_seqs;
  v.array("seq_ids", args.seq_ids, n);
  v.array("max_drafts", args.max_drafts, n);
  v.array("keys", args.keys, n);
  v.array("temperatures", args.temperatures, n);
  v.array("positions", args.positions, n);
  v.array("top_ks", args.top_ks, n);
  v.array("top_ps", args.top_ps, n);
  v.array("min_ps", args.min_ps, n);
}

template <typename Struct>
nlohmann::json to_json(const Struct& given) {
  Struct copy = given;
  Writer writer;
  visit(writer, copy);
  return writer.take();
}

template <typename Struct>
Struct from_json(const nlohmann::json& json, conformance::ReadOnlyCopies& copies) {
  Struct read{};
  read.struct_size = sizeof read;
  Reader reader(json, copies);
  visit(reader, read);
  return read;
}

// Returns the outputs of a plan. Counts are kept as they are, arrays as far as the host's memory goes.
nlohmann::json plan_output(const mortise_schedule_plan& plan, std::int32_t num_seqs);
// Returns the outputs of a proposal: for each sequence its drafts, and their parents if the proposer gives trees.
nlohmann::json proposal_output(const mortise_proposal_args& args);

}  // namespace mortise::abi_record
