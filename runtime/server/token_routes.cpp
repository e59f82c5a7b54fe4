// /tokenize, /detokenize and /tokenizer_info in vLLM's form, so that lm-evaluation-harness needs no tokenizer of its
// own.
#include "openai/body.hpp"
#include "server/routes.hpp"

namespace mortise {
namespace {

std::vector<std::int32_t> tokens_of(const ServedModel& model, const Body& body, const nlohmann::json& json) {
  if (body.find("messages") != nullptr) return model.service.requests("/v1/chat/completions", json).front().prompt;
  const auto text = body.string("prompt");
  if (!text) fail("prompt is missing; give the text to tokenize, or messages");
  return model.tokenizer.encode(*text, body.boolean("add_special_tokens").value_or(true));
}

void tokenize(const Models& models, const std::shared_ptr<Exchange>& exchange) {
  const nlohmann::json json = read_json_body(*exchange);
  const Body body(json);
  const ServedModelRef served = models.of(json);
  const ServedModel& model = *served;
  const std::vector<std::int32_t> tokens = tokens_of(model, body, json);
  nlohmann::ordered_json answer = {
      {"count", tokens.size()}, {"max_model_len", model.service.info().max_model_len}, {"tokens", tokens}};
  if (body.boolean("return_token_strs").value_or(false)) {
    auto texts = nlohmann::ordered_json::array();
    for (const std::int32_t id : tokens) texts.push_back(std::string(model.tokenizer.token(id).value_or("")));
    answer["token_strs"] = std::move(texts);
  }
  exchange->answer(json_answer(answer));
}

void detokenize(const Models& models, const std::shared_ptr<Exchange>& exchange) {
  const nlohmann::json json = read_json_body(*exchange);
  const Body body(json);
  const std::vector<std::int32_t> tokens = read_token_ids(body.require("tokens"), "tokens");
  const ServedModelRef model = models.of(json);
  const Tokenizer& tokenizer = model->tokenizer;
  for (const std::int32_t id : tokens) {
    if (!tokenizer.token(id)) fail("tokens: the model has no token {}", id);
  }
  exchange->answer(json_answer({{"prompt", tokenizer.decode(tokens, /*skip_special_tokens=*/false)}}));
}

// Returns tokenizer_config.json with the special tokens as plain texts, because some files have objects.
void tokenizer_info(const Models& models, const std::shared_ptr<Exchange>& exchange) {
  const ServedModelRef served = models.of_query(query_value(exchange->request.target(), "model"));
  const ServedModel& model = *served;
  nlohmann::ordered_json info = nlohmann::ordered_json::object();
  for (const auto& [name, value] : model.tokenizer_config.items()) {
    const bool is_token = name.ends_with("_token") && value.is_object() && value.contains("content");
    info[name] = is_token ? value.at("content") : value;
  }
  const auto text_of = [&](const std::optional<std::int32_t>& id) -> nlohmann::ordered_json {
    if (!id) return nullptr;
    return std::string(model.tokenizer.token(*id).value_or(""));
  };
  if (!info.contains("bos_token")) info["bos_token"] = text_of(model.tokenizer.bos_id());
  if (!info.contains("eos_token")) info["eos_token"] = text_of(model.tokenizer.eos_id());
  if (!model.tokenizer.chat_template().empty()) info["chat_template"] = model.tokenizer.chat_template();
  exchange->answer(json_answer(info));
}

}  // namespace

void add_token_routes(Router& router, const Models& models) {
  router.add({.method = "POST", .path = "/tokenize", .handle = [&models](const auto& exchange) {
                tokenize(models, exchange);
              }});
  router.add({.method = "POST", .path = "/detokenize", .handle = [&models](const auto& exchange) {
                detokenize(models, exchange);
              }});
  router.add({.method = "GET",
              .path = "/tokenizer_info",
              .cost = Route::Cost::kCheap,
              .handle = [&models](const auto& exchange) { tokenizer_info(models, exchange); }});
}

}  // namespace mortise
