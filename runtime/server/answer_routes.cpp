// The routes that run a model: /v1/completions, /v1/chat/completions, /v1/score, /v1/decisions; and /render, which
// returns the tokens of a body.
#include "openai/known_fields.hpp"
#include "server/routes.hpp"

namespace mortise {
namespace {

constexpr const char* kCompletions = "/v1/completions";
constexpr const char* kChat = "/v1/chat/completions";

// Reads the body as JSON and applies the script's on_request. The body's text is freed.
nlohmann::json read_routed(Exchange& exchange, const Models& models) {
  nlohmann::json json = read_json_body(exchange);
  models.route(json);
  return json;
}

// vLLM's benchmark client (0.32) takes everything between two empty lines for "data: " and JSON, so an event with an id
// fails its request. The client is recognised by its request ids.
bool reads_no_event_ids(const HttpRequest& request) {
  return request.id.starts_with("bench-") && request.header("User-Agent").find("aiohttp") != std::string_view::npos;
}

void leave_out_event_ids(nlohmann::json& body) {
  nlohmann::json& options = body["stream_options"];
  if (options.is_null()) options = nlohmann::json::object();
  if (options.is_object()) options.emplace("include_event_ids", false);
}

// The handlers of the routes that run models. Any worker may call them.
class Answering {
 public:
  Answering(const Models& models, std::chrono::seconds timeout) : models_(models), timeout_(timeout) {}

  void answer(const std::string& url, const std::shared_ptr<Exchange>& exchange) {
    nlohmann::json body = read_routed(*exchange, models_);
    const ServedModelRef model = models_.of(body);
    exchange->serving = model;
    HeaderList headers = warn_of_unknown_fields(url, body);
    AnswerStamp stamp;
    stamp.client_id = exchange->request.id;
    stamp.arrival = exchange->request.arrival;
    if (timeout_.count() > 0) stamp.deadline = exchange->request.arrival + timeout_;
    const std::string_view last = exchange->request.header("Last-Event-ID");
    const bool streams = (url == kCompletions || url == kChat) && wants_stream(body);
    if (!last.empty() && !streams)
      fail("Last-Event-ID continues a stream; set stream to true, or leave Last-Event-ID out");
    if (streams) {
      if (reads_no_event_ids(exchange->request)) leave_out_event_ids(body);
      const std::optional<std::string> last_event_id = last.empty() ? std::nullopt : std::optional(std::string(last));
      exchange->stream(model->service.stream(url, body, last_event_id, exchange->wake(), stamp), std::move(headers));
      return;
    }
    const auto done = [exchange, headers](const Answer& answer) {
      HttpAnswer http;
      try {
        http = http_answer(answer);
        http.headers.insert(http.headers.end(), headers.begin(), headers.end());
      } catch (const std::exception& error) {  // too large for memory: answers now, so that the client does not wait
        http = error_answer(500, fmt::format("the answer cannot be written: {}", error.what()), "internal_error");
      }
      exchange->answer(std::move(http));
    };
    exchange->pending(model->service.handle(url, body, done, stamp));
  }

  // In vLLM's form: the tokens of each prompt, for routers that choose a replica by prefix.
  void render(const std::string& url, const std::shared_ptr<Exchange>& exchange) {
    const nlohmann::json body = read_routed(*exchange, models_);
    const HeaderList headers = warn_of_unknown_fields(url, body);
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    const ServedModelRef model = models_.of(body);
    for (const Request& request : model->service.requests(url, body)) {
      const SamplingParams& sampling = request.sampling;
      list.push_back({{"request_id", exchange->request.id},
                      {"token_ids", request.prompt},
                      {"sampling_params",
                       {{"n", sampling.n},
                        {"temperature", sampling.temperature},
                        {"top_p", sampling.top_p},
                        {"top_k", sampling.top_k},
                        {"min_p", sampling.min_p},
                        {"max_tokens", sampling.max_tokens}}}});
    }
    HttpAnswer http = json_answer(url == kChat ? list.front() : list);
    http.headers.insert(http.headers.end(), headers.begin(), headers.end());
    exchange->answer(std::move(http));
  }

 private:
  HeaderList warn_of_unknown_fields(const std::string& url, const nlohmann::json& body) {
    const std::string unknown = unknown_fields_text(url, unknown_fields_.note(url, body));
    if (unknown.empty()) return {};
    return {{"Warning", fmt::format("299 mortise \"{}\"", unknown)}};
  }

  static bool wants_stream(const nlohmann::json& body) {
    return body.is_object() && body.contains("stream") && body.at("stream") == true;
  }

  const Models& models_;
  const std::chrono::seconds timeout_;
  UnknownFieldLog unknown_fields_;
};

}  // namespace

void add_answer_routes(Router& router, const Models& models, std::chrono::seconds timeout) {
  const auto answering = std::make_shared<Answering>(models, timeout);
  for (const char* url : {kCompletions, kChat, "/v1/score", "/v1/decisions"}) {
    router.add({.method = "POST", .path = url, .handle = [answering, url](const auto& exchange) {
                  answering->answer(url, exchange);
                }});
  }
  for (const char* url : {kCompletions, kChat}) {
    router.add({.method = "POST",
                .path = std::string(url) + "/render",
                .handle = [answering, url](const auto& exchange) { answering->render(url, exchange); }});
  }
}

}  // namespace mortise
