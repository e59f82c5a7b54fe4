#include "server/cors.hpp"

#include <algorithm>

namespace mortise {

bool Cors::allows(std::string_view origin) const {
  return !origin.empty() && std::any_of(origins_.begin(), origins_.end(), [&](const std::string& allowed) {
    return allowed == "*" || allowed == origin;
  });
}

void Cors::add_headers(std::string_view origin, HeaderList& headers) const {
  if (origins_.empty()) return;
  headers.emplace_back("Vary", "Origin");
  if (!allows(origin)) return;
  headers.emplace_back("Access-Control-Allow-Origin", std::string(origin));
  headers.emplace_back("Access-Control-Expose-Headers", "X-Request-Id, Retry-After, Warning");
}

HttpAnswer Cors::preflight(std::string_view origin, std::string_view asked_headers, const std::string& methods) const {
  HttpAnswer answer;
  answer.status = 204;
  answer.content_type.clear();
  answer.headers.emplace_back("Allow", methods + ", OPTIONS");
  if (!allows(origin)) return answer;
  answer.headers.emplace_back("Access-Control-Allow-Methods", methods);
  if (!asked_headers.empty()) answer.headers.emplace_back("Access-Control-Allow-Headers", std::string(asked_headers));
  answer.headers.emplace_back("Access-Control-Max-Age", "600");
  return answer;
}

}  // namespace mortise
