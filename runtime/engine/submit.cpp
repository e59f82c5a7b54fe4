// Engine::submit and its checks. All of this file runs on the thread of the front end.
#include <algorithm>
#include <random>
#include <utility>

#include "counted.hpp"
#include "engine/engine.hpp"
#include "error.hpp"

namespace mortise {

std::uint64_t draw_seed() {
  thread_local std::random_device device;  // thread_local: creating one takes 20 us, and it is not thread-safe
  return static_cast<std::uint64_t>(device()) << 32 | device();
}

namespace {

void check_ids(std::span<const std::int32_t> ids, const char* list_name, std::int32_t vocab_size) {
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocab_size) fail("the {} has token id {}; ids are from 0 to {}", list_name, id, vocab_size - 1);
  }
}

}  // namespace

void Engine::check(const Request& request) const {
  check(request, *terms_.load());
}

void Engine::check(const Request& request, const RequestTerms& terms) const {
  const EngineLimits& limits = terms.limits;
  validate(request.sampling, model_.vocab_size);
  const auto length = static_cast<std::int32_t>(std::min<std::size_t>(request.prompt.size(), INT32_MAX));
  if (length == 0) fail("the prompt is empty; it must have at least one token");
  check_ids(request.prompt, "prompt", model_.vocab_size);
  const bool generates = request.sampling.max_tokens > 0;
  if (length + (generates ? 1 : 0) > limits.max_model_len) {
    fail(ErrorCode::kTooLarge, "prompt of {}{} exceeds {} {}; shorten it{}", counted(length, "token"),
         generates ? " and one to generate" : "", model_.is_cut ? "max_model_len" : "the model's length of",
         limits.max_model_len, model_.is_cut ? " or raise max_model_len" : "");
  }
  if (request.score_from && (*request.score_from < 1 || *request.score_from > length)) {
    fail("score_from is {}; it must be from 1 to the prompt's {} tokens", *request.score_from, length);
  }
  if (request.logprobs && *request.logprobs < 0) fail("logprobs is {}; it must be at least 0", *request.logprobs);
  check_speculation(request.speculation, terms.proposers);
  if (request.prediction.size() > static_cast<std::size_t>(limits.max_model_len)) {
    fail(ErrorCode::kTooLarge, "prediction of {} tokens exceeds max_model_len {}; no answer can be that long",
         request.prediction.size(), limits.max_model_len);
  }
  check_ids(request.prediction, "prediction", model_.vocab_size);
  // With guided choices the longest choice limits the number of generated tokens; submit() checks that.
  if (request.sampling.choices.empty()) check_blocks(limits, length, request.sampling.max_tokens);
}

void Engine::check_blocks(const EngineLimits& limits, std::int32_t length, std::int32_t max_tokens) const {
  max_tokens = std::min(max_tokens, limits.max_model_len - length);
  const std::int32_t needed = (length + max_tokens + limits.block_size - 1) / limits.block_size;
  if (needed <= limits.num_blocks) return;
  fail(ErrorCode::kTooLarge,
       "prompt of {} and up to {} to generate need {}, but the whole cache has {} of {} tokens; raise kv_cache.memory "
       "or ask for fewer tokens",
       counted(length, "token"), max_tokens, counted(needed, "KV block"), limits.num_blocks, limits.block_size);
}

std::vector<std::vector<std::int32_t>> Engine::choice_tokens(const Request& request) const {
  const std::shared_ptr<const RequestTerms> terms = terms_.load();
  check(request, *terms);
  const EngineLimits& limits = terms->limits;
  const auto length = static_cast<std::int32_t>(request.prompt.size());
  const std::vector<std::int32_t> ends = end_tokens_of(request.sampling);
  const DecodedPrefix before = decode_prefix(tokenizer_, request.sampling.skip_special_tokens, request.prompt);
  const std::int32_t most = std::min(request.sampling.max_tokens, limits.max_model_len - length);
  return guides_.get(request.sampling, {tokenizer_, before, ends, model_.vocab_size, most})->tokens;
}

RequestId Engine::submit(Request request, Sink sink, News news) {
  std::shared_ptr<RequestState> state = prepare(request);
  Tap tap;
  if (hooks_.watcher != nullptr) tap = hooks_.watcher->watch(request);
  auto channel = std::make_shared<SinkChannel>(request.sampling.n, std::move(tap), std::move(sink));
  state->news = news;
  return queue(std::move(state), std::move(request), std::move(channel));
}

RequestId Engine::submit(Request request, std::shared_ptr<PulledChannel> channel) {
  // A watcher's tap must see every delta, even those that the reader never takes. So the delivery pool runs the tap and
  // passes the deltas on.
  if (hooks_.watcher != nullptr) {
    return submit(std::move(request), [channel](Delta&& delta) { channel->post(std::move(delta)); });
  }
  std::shared_ptr<RequestState> state = prepare(request);
  return queue(std::move(state), std::move(request), std::move(channel));
}

std::shared_ptr<RequestState> Engine::prepare(Request& request) const {
  const std::shared_ptr<const RequestTerms> terms = terms_.load();
  check(request, *terms);
  const EngineLimits& limits = terms->limits;
  const auto length = static_cast<std::int32_t>(request.prompt.size());
  request.sampling.max_tokens = std::min(request.sampling.max_tokens, limits.max_model_len - length);
  request.sampling.min_tokens = std::min(request.sampling.min_tokens, request.sampling.max_tokens);
  if (request.sampling.temperature < kMinTemperature) request.sampling.temperature = 0;
  auto state = std::make_shared<RequestState>();
  state->end_tokens = end_tokens_of(request.sampling);
  state->before = decode_prefix(tokenizer_, request.sampling.skip_special_tokens, request.prompt);
  if (!request.sampling.choices.empty()) {
    state->guide = guides_.get(request.sampling, {tokenizer_, state->before, state->end_tokens, model_.vocab_size,
                                                  request.sampling.max_tokens});
    request.sampling.max_tokens = state->guide->trie.longest();
    check_blocks(limits, length, request.sampling.max_tokens);
  }

  if (!request.sampling.seed) request.sampling.seed = draw_seed();
  state->seed = *request.sampling.seed;
  return state;
}

RequestId Engine::queue(std::shared_ptr<RequestState> state, Request request, std::shared_ptr<Channel> channel) {
  state->request = std::move(request);
  state->channel = std::move(channel);
  return inbox_.put(state);
}

std::vector<std::int32_t> Engine::end_tokens_of(const SamplingParams& sampling) const {
  std::vector<std::int32_t> ids = sampling.stop_token_ids;
  // With guided choices an end token can only mean the end, so `ignore_eos` does not apply to it.
  if (!sampling.ignore_eos || !sampling.choices.empty()) {
    ids.insert(ids.end(), model_.eos_tokens.begin(), model_.eos_tokens.end());
  }
  // A checkpoint may name ids beyond the head's columns. Such ids cannot be drawn.
  std::erase_if(ids, [&](std::int32_t id) { return id < 0 || id >= model_.vocab_size; });
  std::sort(ids.begin(), ids.end());
  return ids;
}

void Engine::abort(RequestId id) {
  inbox_.abort(id);
}

}  // namespace mortise
