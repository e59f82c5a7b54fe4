#include "fake_parts.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "mortise/ext/collective.h"
#include "sampling/key.hpp"

namespace mortise::test {
namespace {

template <typename T>
FakeWorld& world(T* instance) {
  return *reinterpret_cast<FakeWorld*>(instance);
}

// Hidden rows carry the hash as three exact floats.
void store_hash(std::uint64_t hash, float* row) {
  for (int i = 0; i < 3; ++i) row[i] = static_cast<float>((hash >> (i * 22)) & 0x3fffff);
}

float* row_of(const mortise_tensor& tensor, int64_t row) {
  return static_cast<float*>(tensor.data) + row * tensor.stride[0];
}

// Everything is done at once; only the order of the calls is noted.
mortise_status note(mortise_device* self, const char* call, const mortise_stream* stream) {
  if (!world(self).shares_memory)
    world(self).queued.push_back(std::string(call) + (stream != nullptr ? " beside" : ""));
  return MORTISE_OK;
}

mortise_status describe(mortise_device* self, mortise_device_info* info) {
  info->host_memory = world(self).shares_memory ? 1 : 0;
  return MORTISE_OK;
}
mortise_status allocate(mortise_device* self, uint64_t bytes, void** memory, mortise_error*) {
  *memory = std::calloc(bytes, 1);
  const std::lock_guard lock(world(self).memory_mutex);
  world(self).memory.insert(*memory);
  return MORTISE_OK;
}
void free_memory(mortise_device* self, void* memory) {
  const std::lock_guard lock(world(self).memory_mutex);
  world(self).memory.erase(memory);
  std::free(memory);
}
mortise_status copy(mortise_device* self, mortise_stream* stream, void* to, const void* from, uint64_t bytes,
                    mortise_error*) {
  std::memcpy(to, from, bytes);
  return note(self, "copy", stream);
}
mortise_status stream_create(mortise_device* self, mortise_stream** stream, mortise_error*) {
  *stream = reinterpret_cast<mortise_stream*>(self);  // any address but NULL
  return MORTISE_OK;
}
void stream_destroy(mortise_device*, mortise_stream*) {}
mortise_status event_create(mortise_device* self, mortise_event** event, mortise_error*) {
  *event = reinterpret_cast<mortise_event*>(self);
  return MORTISE_OK;
}
void event_destroy(mortise_device*, mortise_event*) {}
mortise_status event_record(mortise_device* self, mortise_event*, mortise_stream* stream, mortise_error*) {
  return note(self, "record", stream);
}
mortise_status event_wait(mortise_device* self, mortise_event*, mortise_stream* stream, mortise_error*) {
  return note(self, "wait", stream);
}
mortise_status event_synchronize(mortise_device*, mortise_event*, mortise_error*) {
  return MORTISE_OK;
}
mortise_status synchronize(mortise_device*, mortise_stream*, mortise_error*) {
  return MORTISE_OK;
}
mortise_status gather_rows(mortise_device* self, mortise_stream* stream, const mortise_tensor* x, const int32_t* rows,
                           const mortise_tensor* out, mortise_error*) {
  for (int64_t r = 0; r < out->shape[0]; ++r) {
    std::memcpy(row_of(*out, r), static_cast<float*>(x->data) + rows[r] * 3, 3 * sizeof(float));
  }
  return note(self, "gather", stream);
}
mortise_status scatter_rows(mortise_device*, mortise_stream*, const mortise_tensor* x, const int32_t* rows,
                            const mortise_tensor* out, mortise_error*) {
  const auto bytes = static_cast<std::size_t>(x->shape[1]) * sizeof(float);
  for (int64_t r = 0; r < x->shape[0]; ++r) std::memcpy(row_of(*out, rows[r]), row_of(*x, r), bytes);
  return MORTISE_OK;
}

// Greedy after the edits; temperature only to show that it arrives: a row with T > 0 draws the smallest logit.
mortise_status sample(mortise_device* self, mortise_stream*, const mortise_sample_args* args, mortise_error*) {
  FakeWorld& fake = world(self);
  if (args->allowed_index == nullptr) ++fake.num_sample_calls_without_masks;
  for (int64_t r = 0; r < args->logits->shape[0]; ++r) {
    std::vector<float> row(row_of(*args->logits, r), row_of(*args->logits, r) + kVocab);
    if (args->edit_begins != nullptr) {
      const mortise_logit_edit* const edits = args->edits + args->edit_begins[r];
      for (int32_t e = 0; e < args->edit_counts[r]; ++e) {
        float& logit = row[static_cast<std::size_t>(edits[e].token)];
        logit += edits[e].bias;
        logit = logit > 0 ? logit / edits[e].repetition : logit * edits[e].repetition;
        logit -= edits[e].subtract;
      }
    }
    if (args->allowed_index != nullptr && args->allowed_index[r] >= 0) {
      fake.most_masks = std::max(fake.most_masks, args->allowed_index[r] + 1);
      const uint32_t* mask = args->allowed_masks + args->allowed_index[r] * ((kVocab + 31) / 32);
      for (int32_t token = 0; token < kVocab; ++token) {
        if ((mask[token / 32] >> (token % 32) & 1u) == 0) row[static_cast<std::size_t>(token)] = -INFINITY;
      }
    }
    const auto best =
        args->temperatures[r] > 0 ? std::min_element(row.begin(), row.end()) : std::max_element(row.begin(), row.end());
    args->tokens[r] = std::isinf(*best) ? -1 : static_cast<int32_t>(best - row.begin());
  }
  return MORTISE_OK;
}

// Of a slice of the vocabulary, as the device's contract says, but that the first tokens are called the best.
mortise_status head_reduce(mortise_device*, mortise_stream*, const mortise_head_reduce_args* args, mortise_error*) {
  const auto width = static_cast<int32_t>(args->logits->shape[1]);
  const int32_t begin = args->vocab_begin;
  for (int64_t r = 0; r < args->logits->shape[0]; ++r) {
    const float* row = row_of(*args->logits, r);
    const int32_t target = args->targets[r];
    if (args->target_logits != nullptr && target >= begin && target < begin + width) {
      args->target_logits[r] = row[target - begin];
    }
    if (args->lse != nullptr) args->lse[r] = 1.0f;  // a constant: tests read log probability = logit - 1
    if (args->ranks != nullptr) {
      if (args->first != 0) args->ranks[r] = 0;
      args->ranks[r] += static_cast<int32_t>(
          std::count_if(row, row + width, [&](float logit) { return logit > args->target_logits[r]; }));
    }
    for (int32_t n = 0; args->top_ids != nullptr && begin == 0 && n < args->top_n; ++n) {
      args->top_ids[r * args->top_n + n] = n;
      args->top_logits[r * args->top_n + n] = row[n];
    }
  }
  return MORTISE_OK;
}

mortise_status attention_call(FakeWorld& fake, const char* function, mortise_error* error) {
  const mortise_status status = fake.attention_status ? fake.attention_status(function) : MORTISE_OK;
  if (status != MORTISE_OK) std::strncpy(error->message, "as the test wants it", sizeof error->message - 1);
  return status;
}

mortise_status attention_plan(mortise_attention* self, const mortise_step* step, mortise_error* error) {
  world(self).batch = step->batch;
  return attention_call(world(self), "plan", error);
}

void write_kv(FakeWorld& fake, const mortise_batch& batch) {
  for (int32_t t = 0; t < batch.num_tokens; ++t) {
    fake.kv[static_cast<std::size_t>(batch.device_slot_mapping[t])] = batch.device_token_ids[t];
  }
}

// Rows of three floats, `stride` apart: the hash of the history that each row of the batch sees.
void read_kv(const FakeWorld& fake, const mortise_batch& batch, float* rows, int64_t stride) {
  for (int32_t i = 0; i < batch.num_seqs; ++i) {
    const int32_t* table = batch.device_block_table + i * batch.max_blocks;
    for (int32_t t = batch.device_cu_seqlens_q[i]; t < batch.device_cu_seqlens_q[i + 1]; ++t) {
      std::vector<int32_t> history;
      for (int32_t p = 0; p <= batch.device_positions[t]; ++p) {
        history.push_back(
            fake.kv[static_cast<std::size_t>(table[p / batch.block_size] * batch.block_size + p % batch.block_size)]);
      }
      store_hash(hash_history(history), rows + t * stride);
    }
  }
}

mortise_status append(mortise_attention* self, const mortise_step* step, const mortise_append_args*,
                      mortise_error* error) {
  write_kv(world(self), *step->batch);
  return attention_call(world(self), "append", error);
}

mortise_status run(mortise_attention* self, const mortise_step* step, int32_t, const mortise_tensor*,
                   const mortise_tensor* out, mortise_error* error) {
  read_kv(world(self), *step->batch, static_cast<float*>(out->data), out->stride[0]);
  if (world(self).attention_output) world(self).attention_output(*step->batch, *out);
  return attention_call(world(self), "run", error);
}

// Rows of q, k and v lie in one matrix, as a model with one product for all three has them.
mortise_status forward_through_attention(FakeWorld& fake, const mortise_step* step, mortise_error* error) {
  const int64_t rows = step->batch->num_tokens;
  std::vector<float> qkv(static_cast<std::size_t>(rows) * 9);
  mortise_tensor q{sizeof(mortise_tensor),    0, qkv.data(), MORTISE_F32, 3, {rows, 1, 3, 1}, {9, 3, 1, 1},
                   qkv.size() * sizeof(float)};
  mortise_tensor k = q, out = q;
  k.data = qkv.data() + 3;
  k.bytes -= 3 * sizeof(float);
  out.data = fake.hidden.data();
  out.stride[0] = 3;
  mortise_append_args args{};
  args.struct_size = sizeof args;
  args.q = &q;
  args.k = args.v = &k;
  const mortise_status status = step->attention_table->append(step->attention, step, &args, error);
  return status != MORTISE_OK ? status : step->attention_table->run(step->attention, step, 0, &q, &out, error);
}

mortise_status forward(mortise_model* self, const mortise_step* step, mortise_tensor* hidden, mortise_error* error) {
  FakeWorld& fake = world(self);
  try {
    if (fake.before_forward) fake.before_forward(fake.num_forwards);
  } catch (const std::exception& exception) {
    std::strncpy(error->message, exception.what(), sizeof error->message - 1);
    return MORTISE_INTERNAL;
  }
  ++fake.num_forwards;
  const mortise_batch& batch = *step->batch;
  fake.hidden.resize(static_cast<std::size_t>(batch.num_tokens) * 3);
  if (!fake.calls_attention) write_kv(fake, batch);
  if (fake.forward_status) {
    const mortise_status status = fake.forward_status(fake.num_forwards - 1);
    if (status != MORTISE_OK) return status;
  }
  if (!fake.calls_attention) {
    read_kv(fake, batch, fake.hidden.data(), 3);
  } else if (const mortise_status status = forward_through_attention(fake, step, error); status != MORTISE_OK) {
    return status;
  }
  hidden->data = fake.hidden.data();
  hidden->dtype = MORTISE_F32;
  hidden->ndim = 2;
  hidden->shape[0] = batch.num_tokens;
  hidden->shape[1] = 3;
  hidden->stride[0] = 3;
  hidden->stride[1] = 1;
  return MORTISE_OK;
}

mortise_status head(mortise_model* self, const mortise_step*, const mortise_tensor* hidden, int32_t begin, int32_t end,
                    const mortise_tensor* logits, mortise_error*) {
  for (int64_t r = 0; r < hidden->shape[0]; ++r) {
    const std::uint64_t hash = load_hash(row_of(*hidden, r));
    for (int32_t v = begin; v < end; ++v) row_of(*logits, r)[v - begin] = fake_logit(hash, v);
    if (world(self).edit_logits) world(self).edit_logits(row_of(*logits, r), r);
  }
  return MORTISE_OK;
}

mortise_status scheduler_events(mortise_scheduler* self, const mortise_schedule_events* events, mortise_error*) {
  for (int32_t i = 0; i < events->num_events; ++i) {
    const int32_t* tokens = events->tokens[i];
    world(self).events.push_back(
        {events->kinds[i], events->seq_ids[i], events->num_tokens[i],
         tokens == nullptr ? std::vector<int32_t>() : std::vector<int32_t>(tokens, tokens + events->num_tokens[i]),
         events->max_new_tokens[i], events->priorities[i], events->groups[i]});
    if (events->kinds[i] == MORTISE_EVENT_ADDED) world(self).scheduler_alive.insert(events->seq_ids[i]);
    if (events->kinds[i] == MORTISE_EVENT_ENDED) world(self).scheduler_alive.erase(events->seq_ids[i]);
  }
  return MORTISE_OK;
}

mortise_status scheduler_plan(mortise_scheduler* self, const mortise_schedule_view* view, mortise_schedule_plan* plan,
                              mortise_error*) {
  if (world(self).plan) world(self).plan(*view, *plan);
  return MORTISE_OK;  // an empty plan: the engine falls back to first come, first served
}

mortise_status observe(mortise_proposer* self, const mortise_observation* observation, mortise_error*) {
  FakeWorld& fake = world(self);
  for (int32_t i = 0; i < observation->num_seqs; ++i) {
    const std::uint64_t id = observation->seq_ids[i];
    fake.proposer_alive.insert(id);
    if (fake.observed.size() <= id) fake.observed.resize(id + 1);
    fake.observed[id].insert(fake.observed[id].end(), observation->tokens + observation->token_offsets[i],
                             observation->tokens + observation->token_offsets[i + 1]);
  }
  for (int32_t i = 0; i < observation->num_ended; ++i) fake.proposer_alive.erase(observation->ended_ids[i]);
  return MORTISE_OK;
}

mortise_status propose(mortise_proposer* self, const mortise_step*, const mortise_proposal_args* args, mortise_error*) {
  for (int32_t i = 0; i < args->num_seqs; ++i) {
    EXPECT_TRUE(world(self).proposer_alive.contains(args->seq_ids[i])) << "asked before it was told of the sequence";
    const std::vector<int32_t> drafts = world(self).propose(args->seq_ids[i], args->max_drafts[i]);
    args->num_drafts[i] = static_cast<int32_t>(drafts.size());
    for (std::size_t j = 0; j < drafts.size() && j < static_cast<std::size_t>(args->draft_stride); ++j) {
      args->tokens[static_cast<std::size_t>(i * args->draft_stride) + j] = drafts[j];
    }
  }
  return MORTISE_OK;
}

mortise_status propose_tree(mortise_proposer* self, const mortise_step*, const mortise_proposal_args* args,
                            mortise_error*) {
  for (int32_t i = 0; i < args->num_seqs; ++i) {
    const FakeWorld::Tree tree = world(self).propose_tree(args->seq_ids[i], args->max_drafts[i]);
    args->num_drafts[i] = std::min(args->draft_stride, static_cast<int32_t>(tree.tokens.size()));
    for (int32_t j = 0; j < args->num_drafts[i]; ++j) {
      args->tokens[i * args->draft_stride + j] = tree.tokens[static_cast<std::size_t>(j)];
      args->parents[i * args->draft_stride + j] = tree.parents[static_cast<std::size_t>(j)];
    }
  }
  return MORTISE_OK;
}

mortise_status copy_blocks(mortise_attention* self, mortise_stream*, const int32_t* from, const int32_t* to,
                           int32_t num_blocks, mortise_error*) {
  FakeWorld& fake = world(self);
  const auto size = static_cast<std::ptrdiff_t>(fake.limits.block_size);
  for (int32_t i = 0; i < num_blocks; ++i) {
    std::copy_n(fake.kv.begin() + from[i] * size, size, fake.kv.begin() + to[i] * size);
  }
  fake.num_copied_blocks += num_blocks;
  return MORTISE_OK;
}

template <typename Table>
Table table() {
  Table value{};
  value.struct_size = sizeof value;
  return value;
}

// Connects devices that need nothing of each other: the fake model computes everything on every rank. The communicator
// of a rank is the device itself.
const void* get_ext(mortise_device*, const char* id) {
  static const auto collective = [] {
    auto value = table<mortise_collective_table>();
    value.num_ranks = [](mortise_device*) -> int32_t { return 1; };
    value.create = [](mortise_device* const* devices, int32_t ranks, mortise_communicator** communicators,
                      mortise_error*) -> mortise_status {
      for (int32_t rank = 0; rank < ranks; ++rank) {
        communicators[rank] = reinterpret_cast<mortise_communicator*>(devices[rank]);
        ++world(devices[rank]).num_connections;
      }
      return MORTISE_OK;
    };
    value.destroy = [](mortise_communicator* communicator) { --world(communicator).num_connections; };
    value.abort = [](mortise_communicator* communicator) {
      if (world(communicator).abort) world(communicator).abort();
    };
    return value;
  }();
  return std::strcmp(id, MORTISE_EXT_COLLECTIVE) == 0 ? &collective : nullptr;
}

}  // namespace

std::uint64_t load_hash(const float* row) {
  std::uint64_t hash = 0;
  for (int i = 0; i < 3; ++i) hash |= static_cast<std::uint64_t>(row[i]) << (i * 22);
  return hash;
}

std::uint64_t hash_history(const std::vector<std::int32_t>& history) {
  std::uint64_t hash = 0;
  for (std::int32_t token : history) hash = mix64(hash ^ static_cast<std::uint64_t>(token));
  return hash & 0x3fffffffffffffff;
}

float fake_logit(std::uint64_t hash, std::int32_t token) {
  return static_cast<float>(mix64(hash + static_cast<std::uint64_t>(token) * 1000003) >> 44) / 65536.0f;
}

std::int32_t next_token(const std::vector<std::int32_t>& history) {
  std::int32_t best = 0;
  const std::uint64_t hash = hash_history(history);
  for (std::int32_t v = 1; v < kVocab; ++v) {
    if (fake_logit(hash, v) > fake_logit(hash, best)) best = v;
  }
  return best;
}

FakeWorld::FakeWorld(const EngineLimits& limits)
    : limits(limits), kv(static_cast<std::size_t>(limits.num_blocks * limits.block_size), -1) {}

FakeWorld::~FakeWorld() {
  for (void* block : memory) std::free(block);
}

Parts FakeWorld::parts() {
  static const auto device_table = [] {
    auto value = table<mortise_device_table>();
    value.describe = describe;
    value.allocate = allocate;
    value.free = free_memory;
    value.host_allocate = allocate;
    value.host_free = free_memory;
    value.copy = copy;
    value.stream_create = stream_create;
    value.stream_destroy = stream_destroy;
    value.stream_synchronize = synchronize;
    value.event_create = event_create;
    value.event_destroy = event_destroy;
    value.event_record = event_record;
    value.event_wait = event_wait;
    value.event_synchronize = event_synchronize;
    value.gather_rows = gather_rows;
    value.scatter_rows = scatter_rows;
    value.sample = sample;
    value.head_reduce = head_reduce;
    value.get_ext = get_ext;
    value.vocab_slice = [](mortise_device*) -> int32_t { return 64; };  // kVocab is more
    return value;
  }();
  static const auto attention_table = [] {
    auto value = table<mortise_attention_table>();
    value.plan = attention_plan;
    value.append = append;
    value.run = run;
    value.copy_blocks = copy_blocks;
    return value;
  }();
  static const auto model_table = [] {
    auto value = table<mortise_model_table>();
    value.forward = forward;
    value.head = head;
    return value;
  }();
  static const auto scheduler_table = [] {
    auto value = table<mortise_scheduler_table>();
    value.events = scheduler_events;
    value.plan = scheduler_plan;
    return value;
  }();
  static const auto proposer_table = [] {
    auto value = table<mortise_proposer_table>();
    value.observe = observe;
    value.propose = mortise::test::propose;
    return value;
  }();
  static const auto tree_table = [] {
    auto value = table<mortise_proposer_table>();
    value.observe = observe;
    value.propose = mortise::test::propose_tree;
    return value;
  }();
  Parts parts;
  parts.vocab_size = kVocab;
  parts.device = {reinterpret_cast<mortise_device*>(this), &device_table, "device 'fake'"};
  parts.attention = {reinterpret_cast<mortise_attention*>(this), &attention_table, "attention 'fake'"};
  parts.model = {reinterpret_cast<mortise_model*>(this), &model_table, "model 'fake'"};
  parts.scheduler = {reinterpret_cast<mortise_scheduler*>(this), &scheduler_table, "scheduler 'fake'"};
  if (propose) {
    parts.proposers.push_back({{reinterpret_cast<mortise_proposer*>(this), &proposer_table, "proposer 'fake'"},
                               "fake",
                               0,
                               limits.max_drafts});
  }
  if (propose_tree) {
    ActiveProposer& proposer = parts.proposers.emplace_back();
    proposer.self = reinterpret_cast<mortise_proposer*>(this);
    proposer.api = &tree_table;
    proposer.name = "proposer 'tree'";
    proposer.plugin = "tree";
    proposer.capabilities = MORTISE_CAP_TREE;
    proposer.max_tokens = limits.max_drafts;
    proposer.max_paths = limits.max_paths;
  }
  return parts;
}

}  // namespace mortise::test
