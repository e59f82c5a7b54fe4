// runtime/server/http.hpp: a request as handlers see it and an answer as they give it, without the socket.
#pragma once

#include <boost/beast/http.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "openai/service.hpp"

namespace mortise {

using HeaderList = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  boost::beast::http::request<boost::beast::http::string_body> message;
  std::string path;  // without the query
  std::string id;    // X-Request-Id: the client's, or drawn
  std::string peer;  // the address at the other end of the connection: "127.0.0.1"
  std::chrono::steady_clock::time_point arrival;
  std::shared_ptr<void> body_room;  // what the body takes of the server's memory for bodies

  std::string_view header(std::string_view name) const;  // "" when it is not there
  std::string_view target() const;                       // the path with its query, as it was sent
};

struct HttpAnswer {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  HeaderList headers = {};
};

HttpAnswer json_answer(const nlohmann::ordered_json& body, int status = 200);
// With Retry-After, where the answer says when to come back.
HttpAnswer http_answer(const Answer& answer);
// An error in OpenAI's shape. `code` may be empty.
HttpAnswer error_answer(int status, const std::string& message, const std::string& code = "");

// "/v1/models?x=1" and "http://host/v1/models" -> "/v1/models"; percent-encoded characters are decoded. nullopt when
// they are malformed.
std::optional<std::string> path_of(std::string_view target);
// The value of a name in the query, decoded; nullopt when it is not there, or malformed.
std::optional<std::string> query_value(std::string_view target, std::string_view name);
std::string draw_request_id();
// The client's X-Request-Id when it is harmless in a header and a log: printable ASCII, 128 bytes at most.
std::optional<std::string> usable_request_id(std::string_view text);

}  // namespace mortise
