#include "server/router.hpp"

#include <spdlog/spdlog.h>

#include "error.hpp"

namespace mortise {
namespace {

bool takes(const Route& route, std::string_view path) {
  const std::string_view pattern = route.path;
  if (!pattern.ends_with("/*")) return pattern == path;
  const std::string_view folder = pattern.substr(0, pattern.size() - 1);
  return path.starts_with(folder) && path.size() > folder.size();
}

}  // namespace

const Route* Router::find(std::string_view method, std::string_view path) const {
  if (method == "HEAD") method = "GET";
  for (const Route& route : routes_) {
    if (route.method == method && takes(route, path)) return &route;
  }
  return nullptr;
}

std::string Router::methods_of(std::string_view path) const {
  std::string methods;
  for (const Route& route : routes_) {
    if (!takes(route, path)) continue;
    if (!methods.empty()) methods += ", ";
    methods += route.method == "GET" ? "GET, HEAD" : route.method;
  }
  return methods;
}

void call_handler(const Route& route, const std::shared_ptr<Exchange>& exchange) {
  if (exchange->abandoned()) return;
  try {
    route.handle(exchange);
  } catch (const Error& error) {
    exchange->answer(http_answer(error_answer(error)));
  } catch (const std::exception& error) {
    spdlog::error("{} {}: {}", exchange->request.id, route.path, error.what());
    exchange->answer(error_answer(500, "the server failed to answer; its log says why", "internal_error"));
  }
}

}  // namespace mortise
