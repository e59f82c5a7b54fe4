// POST /v1/completions: text or token ids in, text out; many prompts, n choices, echo, log probabilities.
#include <algorithm>
#include <deque>
#include <utility>

#include "error.hpp"
#include "openai/answers.hpp"
#include "openai/body.hpp"
#include "openai/prediction.hpp"
#include "openai/service.hpp"
#include "openai/work.hpp"
#include "tokenizer/incremental_decoder.hpp"

namespace mortise {
namespace {

struct CompletionOptions {
  std::vector<std::vector<std::int32_t>> prompts;
  bool echo = false;
  bool return_token_ids = false;
  bool return_draft_info = false;  // for streams only
  bool tokens_as_ids = false;      // writes "token_id:123" as token texts, since distinct tokens may have equal texts
  bool skip_special_tokens = true;
  std::optional<std::int32_t> logprobs;
  std::size_t n = 1;  // choices in the answer
};

// A string, a list of strings, a list of ids, or a list of lists of ids.
std::vector<std::vector<std::int32_t>> read_prompts(const nlohmann::json& json, const Tokenizer& tokenizer,
                                                    bool add_special_tokens) {
  const auto one = [&](const nlohmann::json& item) {
    return read_tokens(item, "prompt", tokenizer, add_special_tokens);
  };
  if (!json.is_array()) return {one(json)};
  if (json.empty()) fail("prompt is an empty list; it must contain texts or token ids");
  if (json.front().is_number()) return {one(json)};
  std::vector<std::vector<std::int32_t>> prompts;
  for (const nlohmann::json& item : json) prompts.push_back(one(item));
  return prompts;
}

CompletionOptions read_options(const Body& body, const Tokenizer& tokenizer) {
  if (!body.string("suffix").value_or("").empty()) {
    fail("suffix is not supported: this model continues a text and cannot insert into one; leave it out");
  }
  CompletionOptions options;
  options.prompts = read_prompts(body.require("prompt"), tokenizer, body.boolean("add_special_tokens").value_or(true));
  options.echo = body.boolean("echo").value_or(false);
  options.return_token_ids = body.boolean("return_token_ids").value_or(false);
  options.return_draft_info = body.boolean("return_draft_info").value_or(false);
  options.tokens_as_ids = body.boolean("return_tokens_as_token_ids").value_or(false);
  if (const auto n = body.integer("logprobs", 0, kMaxTopLogprobs)) options.logprobs = static_cast<std::int32_t>(*n);
  return options;
}

// `best_of` choices are generated. The `n` choices with the highest average log probability per token are returned.
std::int32_t read_best_of(const Body& body, std::int32_t n) {
  const auto best_of = static_cast<std::int32_t>(body.integer("best_of", 1, kMaxChoices).value_or(n));
  if (best_of < n) fail("best_of is {} and n is {}; best_of must be at least n", best_of, n);
  return best_of;
}

void keep_best(std::vector<ChoiceResult>& choices, std::size_t n) {
  if (choices.size() <= n) return;
  const auto mean = [](const ChoiceResult& choice) {
    double sum = 0;
    for (const TokenInfo& token : choice.tokens) sum += finite_logprob(token.logprob);
    return choice.tokens.empty() ? 0.0 : sum / static_cast<double>(choice.tokens.size());
  };
  std::stable_sort(choices.begin(), choices.end(), [&](const auto& a, const auto& b) { return mean(a) > mean(b); });
  choices.resize(n);
}

// Builds the lists tokens, token_logprobs, top_logprobs and text_offset for the echoed prompt and the generated tokens.
class LogprobLists {
 public:
  // `before`: the text in front of the first token.
  LogprobLists(const Tokenizer& tokenizer, const CompletionOptions& options, const DecodedPrefix& before)
      : text_(tokenizer, options.tokens_as_ids), decoder_(tokenizer, options.skip_special_tokens, before) {}

  void add_unscored(std::int32_t id) {
    add_token(id);
    logprobs_.push_back(nullptr);
    top_.push_back(nullptr);
  }
  void add(const TokenInfo& info) {
    add_token(info.id);
    logprobs_.push_back(finite_logprob(info.logprob));
    auto alternatives = nlohmann::ordered_json::object();
    const auto put = [&](std::int32_t id, float logprob) {
      // Distinct tokens may have equal texts. The likelier token is kept, so that the largest value is the arg max's.
      auto [at, fresh] = alternatives.emplace(text_(id), finite_logprob(logprob));
      if (!fresh) *at = std::max(at->get<double>(), finite_logprob(logprob));
    };
    for (const auto& [id, logprob] : info.top) put(id, logprob);
    put(info.id, info.logprob);
    top_.push_back(std::move(alternatives));
  }
  // The lists for everything that was added since the last call.
  nlohmann::ordered_json take() {
    const auto list = [](nlohmann::ordered_json& from) { return std::exchange(from, nlohmann::ordered_json::array()); };
    return {{"tokens", list(tokens_)},
            {"token_logprobs", list(logprobs_)},
            {"top_logprobs", list(top_)},
            {"text_offset", list(offsets_)}};
  }

 private:
  void add_token(std::int32_t id) {
    tokens_.push_back(text_(id));
    offsets_.push_back(num_characters_);
    for (char byte : decoder_.push(id)) num_characters_ += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  }

  const TokenTexts text_;
  IncrementalDecoder decoder_;
  std::int64_t num_characters_ = 0;
  nlohmann::ordered_json tokens_ = nlohmann::ordered_json::array(), logprobs_ = nlohmann::ordered_json::array(),
                         top_ = nlohmann::ordered_json::array(), offsets_ = nlohmann::ordered_json::array();
};

// The part that all choices of a prompt share.
struct PromptText {
  PromptText(const Tokenizer& tokenizer, const CompletionOptions& options, const std::vector<std::int32_t>& ids)
      : first(ids.front()) {
    if (options.echo) {
      echoed = tokenizer.decode(ids, options.skip_special_tokens);
    } else if (options.logprobs) {
      before = decode_prefix(tokenizer, options.skip_special_tokens, ids);
    }
  }
  std::int32_t first;
  std::string echoed;
  DecodedPrefix before;  // the text that is not echoed
};

// Writes one choice as JSON: one delta after the other for a stream, or all of it at once.
class CompletionChoice {
 public:
  CompletionChoice(const Tokenizer& tokenizer, const CompletionOptions& options, const PromptText& prompt)
      : options_(options), prompt_(prompt) {
    if (options.logprobs) lists_.emplace(tokenizer, options, prompt.before);
  }

  nlohmann::ordered_json json(std::size_t index, bool begins, const std::vector<TokenInfo>& prompt,
                              const std::vector<TokenInfo>& tokens, const std::string& text, FinishReason finish) {
    const bool ends = finish != FinishReason::kNone;
    nlohmann::ordered_json json = {{"index", index},
                                   {"text", begins ? prompt_.echoed + text : text},
                                   {"finish_reason", ends ? nlohmann::ordered_json(to_string(finish)) : nullptr},
                                   {"logprobs", nullptr}};
    if (lists_) {
      if (begins && options_.echo) {
        lists_->add_unscored(prompt_.first);
        for (const TokenInfo& info : prompt) lists_->add(info);
      }
      for (const TokenInfo& info : tokens) lists_->add(info);
      json["logprobs"] = lists_->take();
    }
    if (options_.return_token_ids) json["token_ids"] = ids_of(tokens);
    if (options_.return_draft_info) json["accepted_drafts"] = accepted_drafts(tokens);
    return json;
  }

 private:
  const CompletionOptions& options_;
  const PromptText& prompt_;
  std::optional<LogprobLists> lists_;
};

// Writes the chunks of a completions stream. Used by one thread at a time.
class CompletionChunks : public ChunkWriter {
 public:
  CompletionChunks(const Tokenizer& tokenizer, std::shared_ptr<const CompletionOptions> options)
      : options_(std::move(options)) {
    for (const auto& ids : options_->prompts) prompts_.emplace_back(tokenizer, *options_, ids);
    for (std::size_t i = 0; i < prompts_.size() * options_->n; ++i) {
      choices_.emplace_back(tokenizer, *options_, prompts_[i / options_->n]);
    }
  }
  void write(const ChoicePlace& place, const Delta& delta, bool begins, std::vector<ChunkChoice>& chunks) override {
    nlohmann::ordered_json json =
        choices_[place.index].json(place.index, begins, delta.prompt, delta.tokens, delta.text, delta.finish);
    const bool ends = delta.finish != FinishReason::kNone;
    if (ends) json["seed"] = delta.seed;
    using Stage = ChunkChoice::Stage;
    const bool empty = delta.tokens.empty() && delta.text.empty();
    chunks.push_back({std::move(json), ends ? Stage::kEnded : empty ? Stage::kBegun : Stage::kTokens});
  }

 private:
  const std::shared_ptr<const CompletionOptions> options_;
  std::deque<PromptText> prompts_;
  std::deque<CompletionChoice> choices_;
};

}  // namespace

Work Service::read_completion(const Body& body) const {
  auto options = std::make_shared<CompletionOptions>(read_options(body, tokenizer_));
  SamplingParams sampling = read_sampling(body, info_.defaults);
  options->skip_special_tokens = sampling.skip_special_tokens;
  options->n = static_cast<std::size_t>(sampling.n);
  const bool choice_logprobs = read_choice_logprobs(body, sampling);
  sampling.n = read_best_of(body, sampling.n);
  const bool ranks = sampling.n > static_cast<std::int32_t>(options->n);
  check_amount(options->prompts.size(), sampling);
  std::size_t most_tokens = 0;
  for (const auto& prompt : options->prompts) {
    most_tokens = std::max(most_tokens, (options->echo ? prompt.size() : 0) + max_generated(sampling, prompt.size()));
  }
  if (options->logprobs) {
    check_logprobs(options->prompts.size() * static_cast<std::size_t>(sampling.n), most_tokens, *options->logprobs);
  }
  Work work{.id_prefix = "cmpl", .object = "text_completion", .chunk_object = "text_completion"};
  work.num_guided_lists = choice_logprobs ? options->n : 0;
  for (const std::vector<std::int32_t>& prompt : options->prompts) {
    Request request;
    request.prompt = prompt;
    request.sampling = sampling;
    request.logprobs = ranks ? std::optional(options->logprobs.value_or(0)) : options->logprobs;
    if (options->echo && options->logprobs) request.score_from = 1;
    read_scheduling(body, request);
    work.requests.push_back(std::move(request));
  }
  read_prediction(body, tokenizer_, work.requests);
  work.write = [this, options](JobResult& result, const ChoiceLogprobs& guided, nlohmann::ordered_json& answer) {
    nlohmann::ordered_json& choices = answer["choices"] = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < result.size(); ++i) {
      keep_best(result[i], options->n);
      const PromptText prompt(tokenizer_, *options, options->prompts[i]);
      for (const ChoiceResult& choice : result[i]) {
        choices.push_back(
            CompletionChoice(tokenizer_, *options, prompt)
                .json(choices.size(), /*begins=*/true, choice.prompt, choice.tokens, choice.text, choice.finish));
        choices.back()["seed"] = choice.seed;
        if (!guided.empty()) choices.back()["choice_logprobs"] = guided[i];
      }
    }
  };
  work.chunks = [this, options, ranks]() -> std::unique_ptr<ChunkWriter> {
    if (ranks) fail("best_of is more than n: which choices are the best is known only at the end; leave out stream");
    return std::make_unique<CompletionChunks>(tokenizer_, options);
  };
  return work;
}

}  // namespace mortise
