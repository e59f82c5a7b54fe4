// runtime/server/http.hpp: requests and answers as handlers see them, independent of the socket.
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

// A request as the routes get it. A value.
struct HttpRequest {
  boost::beast::http::request<boost::beast::http::string_body> message;
  std::string path;  // without the query
  std::string id;    // X-Request-Id of the client, or a random one
  std::string peer;  // the client's address, "127.0.0.1"
  std::chrono::steady_clock::time_point arrival;
  std::shared_ptr<void> body_room;  // the body's share of the server's memory for bodies

  std::string_view header(std::string_view name) const;  // "" if it is absent
  std::string_view target() const;                       // the path with the query, as sent
};

struct HttpAnswer {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  HeaderList headers = {};
};

HttpAnswer json_answer(const nlohmann::ordered_json& body, int status = 200);
// Adds Retry-After if the answer says when to come back.
HttpAnswer http_answer(const Answer& answer);
// Makes an error in OpenAI's shape. `code` may be empty.
HttpAnswer error_answer(int status, const std::string& message, const std::string& code = "");

// Returns the path of a target, with percent-encoding decoded: "/v1/models" for "/v1/models?x=1" and for
// "http://host/v1/models". nullopt if the target is malformed.
std::optional<std::string> path_of(std::string_view target);
// Returns the decoded value of a query parameter. nullopt if it is absent or malformed.
std::optional<std::string> query_value(std::string_view target, std::string_view name);
std::string draw_request_id();
// The client's X-Request-Id if it is safe in a header and a log: printable ASCII, at most 128 bytes.
std::optional<std::string> usable_request_id(std::string_view text);

}  // namespace mortise
