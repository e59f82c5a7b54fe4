#include "proposers/mlp_speculator/speculator.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "mortise/ops.hpp"

namespace mortise::mlp_speculator {
namespace {

constexpr float kNormEps = 1e-6f;  // used by all published speculators; no configuration names it

// The arrays in Upload with one element per sequence. `positions` follows them, with one element per stage and
// sequence.
constexpr std::size_t kNumArrays = 7;

std::size_t aligned(std::size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  // NaN is not handled: if a bias is NaN, all drafts are worthless
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace

// A sequence that gets drafts.
struct Speculator::Ask {
  int32_t index;  // of the proposal's sequences
  int32_t max_drafts;
  const HiddenRows::Kept* kept;
};

// The inputs of the stages for `count` sequences, in device memory.
struct Speculator::Upload {
  const int32_t* rows;
  const int32_t* tokens;
  const uint64_t* keys;
  const float* temperatures;
  const int32_t* top_ks;
  const float *top_ps, *min_ps;
  const int64_t* positions;  // [num_stages, count]
};

Speculator::Speculator(const mortise_host* host, const mortise_create_args& args, const Options& options)
    : host_(*host),
      device_{args.device, args.device_table},
      path_(options.get<std::string>("path")),
      max_drafts_(options.has("max_tokens") ? options.get<int32_t>("max_tokens") : 0) {}

void Speculator::bind(const mortise_proposer_bind_args& args) {
  const auto* files = static_cast<const mortise_checkpoint_table*>(host_.get_ext(&host_, MORTISE_EXT_CHECKPOINT));
  if (files == nullptr) {
    throw Failure(MORTISE_UNIMPLEMENTED, "bind", "this host reads no checkpoints for proposers; use a newer host");
  }
  mortise_checkpoint* opened = nullptr;
  mortise_error error = make_error();
  const mortise_status status = files->open(view(std::string_view(path_)), &opened, &error);
  if (status != MORTISE_OK) throw Failure(status, "path", error.message);
  const std::unique_ptr<mortise_checkpoint, void (*)(mortise_checkpoint*)> checkpoint(opened, files->close);

  config_ = parse_config(view(files->config(opened)));
  const auto target = known(args.target);
  check_against(target);
  if (max_drafts_ > config_.num_stages) {
    throw Failure(MORTISE_INVALID_ARGUMENT, "max_tokens",
                  "max_tokens is " + std::to_string(max_drafts_) + "; " + path_ + " drafts up to " +
                      std::to_string(config_.num_stages) + " tokens (n_predict); lower max_tokens or leave it out");
  }
  if (max_drafts_ == 0) max_drafts_ = config_.num_stages;
  format_.dtype = target.dtype;
  weights_ = load_weights(config_, format_, device_, *files->reader(opened));
}

void Speculator::check_against(const mortise_model_dims& target) const {
  const auto require = [&](const char* key, int32_t found, const char* what, int32_t expected) {
    if (found == expected) return;
    throw Failure(MORTISE_INVALID_ARGUMENT, "path",
                  path_ + "/config.json: " + key + " is " + std::to_string(found) + ", the target's " + what + " is " +
                      std::to_string(expected) + "; use the speculator that was trained for this model");
  };
  require("emb_dim", config_.emb_dim, "hidden size", target.hidden_size);
  require("vocab_size", config_.vocab_size, "vocabulary size", target.vocab_size);
}

void Speculator::activate(const mortise_activate_args& args) {
  max_rows_ = std::max(1, std::min(args.max_num_seqs, args.max_logit_rows));
  constexpr const char* kLowerSequences = "the speculator's buffers grow with the scheduler's max_num_seqs; lower it";
  const auto buffer = [&](int32_t columns) {
    return RowBuffer(device_, format_.dtype, max_rows_, columns, kLowerSequences);
  };
  rows_ = HiddenRows(device_, format_.dtype, std::max(1, args.max_num_seqs), config_.emb_dim);
  input_ = buffer(config_.emb_dim);
  state_ = buffer(config_.inner_dim);
  embedded_ = buffer(config_.inner_dim);
  const auto rows = static_cast<uint64_t>(max_rows_), stages = static_cast<uint64_t>(max_drafts_);
  logits_ = DeviceMemory(device_, rows * static_cast<uint64_t>(config_.vocab_size) * sizeof(float), kLowerSequences);
  drawn_ = DeviceMemory(device_, stages * rows * sizeof(int32_t), kLowerSequences);
  uploaded_ = DeviceMemory(device_, kNumArrays * aligned(rows * sizeof(uint64_t)) + stages * rows * sizeof(int64_t),
                           kLowerSequences);
  fill_biases();
}

// The device only adds matrices of equal shape, so a bias becomes a matrix whose rows are equal.
void Speculator::fill_biases() {
  bias_.clear();
  for (const std::vector<float>& bias : weights_.bias) {
    const RowBuffer& buffer = bias_.emplace_back(device_, format_.dtype, max_rows_, static_cast<int64_t>(bias.size()));
    const mortise_tensor rows = buffer.rows(max_rows_);
    const auto row_bytes = static_cast<std::size_t>(rows.stride[0] * dtype_bytes(rows.dtype));
    std::vector<std::byte> host(row_bytes * static_cast<std::size_t>(max_rows_));
    for (int32_t r = 0; r < max_rows_; ++r) {
      std::byte* const row = host.data() + row_bytes * static_cast<std::size_t>(r);
      for (std::size_t i = 0; i < bias.size(); ++i) {
        if (rows.dtype == MORTISE_F32) {
          std::memcpy(row + 4 * i, &bias[i], 4);
        } else {
          const uint16_t narrow = to_bf16(bias[i]);
          std::memcpy(row + 2 * i, &narrow, 2);
        }
      }
    }
    mortise_error error = make_error();
    check(device_.table->copy(device_.device, nullptr, rows.data, host.data(), host.size(), &error), error);
    check(device_.table->stream_synchronize(device_.device, nullptr, &error), error);
  }
}

void Speculator::deactivate() {
  rows_ = {};
  input_ = {};
  state_ = {};
  embedded_ = {};
  bias_.clear();
  logits_ = {};
  drawn_ = {};
  uploaded_ = {};
  max_rows_ = 0;
}

std::vector<Speculator::Ask> Speculator::asked(const mortise_proposal_args& args) const {
  std::vector<Ask> asks;
  for (int32_t i = 0; i < args.num_seqs; ++i) {
    args.num_drafts[i] = 0;
    const int32_t most = std::min(args.max_drafts[i], max_drafts_);
    const HiddenRows::Kept* kept = rows_.find(args.seq_ids[i], args.positions[i]);
    if (most > 0 && kept != nullptr) asks.push_back({i, most, kept});
  }
  return asks;
}

void Speculator::propose(const mortise_step& step, const mortise_proposal_args& args) {
  const std::vector<Ask> asks = asked(args);
  for (std::size_t begin = 0; begin < asks.size(); begin += static_cast<std::size_t>(max_rows_)) {
    const std::size_t count = std::min(asks.size() - begin, static_cast<std::size_t>(max_rows_));
    draft(step, args, asks.data() + begin, static_cast<int32_t>(count));
  }
}

Speculator::Upload Speculator::upload(const mortise_step& step, const mortise_proposal_args& args, const Ask* asks,
                                      int32_t count, int32_t num_stages) {
  const auto rows = static_cast<std::size_t>(count);
  const std::size_t column = aligned(rows * sizeof(uint64_t));  // bytes of one array; positions come last
  std::vector<std::byte> packed(kNumArrays * column + static_cast<std::size_t>(num_stages) * rows * sizeof(int64_t));
  const auto put = [&](std::size_t array, std::size_t i, auto value) {
    std::memcpy(packed.data() + array * column + i * sizeof value, &value, sizeof value);
  };
  for (std::size_t i = 0; i < rows; ++i) {
    const Ask& ask = asks[i];
    put(0, i, ask.kept->row);
    put(1, i, ask.kept->last_token);
    put(2, i, args.keys[ask.index]);
    put(3, i, args.temperatures[ask.index]);
    put(4, i, args.top_ks == nullptr ? 0 : args.top_ks[ask.index]);
    put(5, i, args.top_ps == nullptr ? 1.0f : args.top_ps[ask.index]);
    put(6, i, args.min_ps == nullptr ? 0.0f : args.min_ps[ask.index]);
    for (std::size_t k = 0; k < static_cast<std::size_t>(num_stages); ++k) {
      put(kNumArrays, k * rows + i, args.positions[ask.index] + static_cast<int64_t>(k));
    }
  }
  auto* const base = static_cast<std::byte*>(uploaded_.get());
  mortise_error error = make_error();
  check(step.device_table->copy(step.device, step.stream, base, packed.data(), packed.size(), &error), error);
  const auto at = [&](std::size_t array) { return static_cast<const void*>(base + array * column); };
  return {static_cast<const int32_t*>(at(0)),  static_cast<const int32_t*>(at(1)),
          static_cast<const uint64_t*>(at(2)), static_cast<const float*>(at(3)),
          static_cast<const int32_t*>(at(4)),  static_cast<const float*>(at(5)),
          static_cast<const float*>(at(6)),    static_cast<const int64_t*>(at(kNumArrays))};
}

void Speculator::draft(const mortise_step& step, const mortise_proposal_args& args, const Ask* asks, int32_t count) {
  int32_t num_stages = 0;
  for (int32_t i = 0; i < count; ++i) num_stages = std::max(num_stages, asks[i].max_drafts);
  const Upload given = upload(step, args, asks, count, num_stages);
  mortise_error error = make_error();
  const mortise_device_table& table = *step.device_table;
  const mortise_tensor kept = rows_.rows(), input = input_.rows(count);
  check(table.gather_rows(step.device, step.stream, &kept, given.rows, &input, &error), error);
  if (config_.scale_input) Ops(step).rms_norm(input, nullptr, weights_.input_scale, kNormEps, input);
  for (int32_t stage = 0; stage < num_stages; ++stage) run_stage(step, stage, given, count);

  std::vector<int32_t> drawn(static_cast<std::size_t>(num_stages) * static_cast<std::size_t>(count));
  check(table.copy(step.device, step.stream, drawn.data(), drawn_.get(), drawn.size() * sizeof(int32_t), &error),
        error);
  check(table.stream_synchronize(step.device, step.stream, &error), error);
  for (int32_t i = 0; i < count; ++i) {
    const int32_t index = asks[i].index;
    int32_t& length = args.num_drafts[index];
    for (; length < asks[i].max_drafts; ++length) {
      const int32_t token = drawn[static_cast<std::size_t>(length * count + i)];
      if (token < 0) break;  // all logits were NaN
      args.tokens[int64_t{index} * args.draft_stride + length] = token;
    }
  }
}

void Speculator::run_stage(const mortise_step& step, int32_t stage, const Upload& given, int32_t count) {
  Ops ops(step);
  auto* const drawn = static_cast<int32_t*>(drawn_.get()) + int64_t{stage} * count;
  const mortise_tensor input = (stage == 0 ? input_ : embedded_).rows(count);
  const mortise_tensor state = state_.rows(count), sum = embedded_.rows(count);
  const mortise_tensor bias = bias_[std::min(static_cast<std::size_t>(stage), bias_.size() - 1)].rows(count);
  const auto eps = static_cast<float>(kNormEps / (config_.emb_weight() * config_.emb_weight()));
  ops.linear(input, weights_.of(weights_.proj, stage).get(), nullptr, state);
  ops.embed(stage == 0 ? given.tokens : drawn - count, weights_.of(weights_.emb, stage), sum);
  ops.rms_norm(sum, &state, weights_.of(weights_.norm, stage), eps, sum);
  ops.add(sum, bias, sum);
  ops.activate(MORTISE_ACT_GELU, sum);
  const mortise_tensor logits = make_tensor(logits_.get(), MORTISE_F32, count, config_.vocab_size);
  ops.linear(sum, weights_.of(weights_.head, stage).get(), nullptr, logits);

  auto sample = sized<mortise_sample_args>();
  sample.logits = &logits;
  sample.temperatures = given.temperatures;
  sample.top_ks = given.top_ks;
  sample.top_ps = given.top_ps;
  sample.min_ps = given.min_ps;
  sample.keys = given.keys;
  sample.positions = given.positions + int64_t{stage} * count;
  sample.tokens = drawn;
  mortise_error error = make_error();
  check(step.device_table->sample(step.device, step.stream, &sample, &error), error);
}

}  // namespace mortise::mlp_speculator
