// runtime/server/router.hpp: which handler answers which method and path.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/exchange.hpp"

namespace mortise {

struct Route {
  std::string method;  // GET (which serves HEAD too) or POST
  std::string path;    // one that ends in "/*" takes every path below it
  enum class Access {
    kOpen,     // no API key: what probes and scrapers ask
    kWithKey,  // any API key
    kAdmin,    // an admin key; without any: this machine alone
  } access = Access::kWithKey;
  enum class Cost {
    kCheap,  // answered on the connection's thread
    kWork,   // on a worker; refused while the server drains
    kWait,   // the same on a thread for those that wait, for steps of requests that need a worker themselves
  } cost = Cost::kWork;
  std::function<void(const std::shared_ptr<Exchange>&)> handle;
};

class Router {
 public:
  void add(Route route) { routes_.push_back(std::move(route)); }

  // nullptr when there is none.
  const Route* find(std::string_view method, std::string_view path) const;
  // The methods that the path has, "GET, HEAD, POST", for the header Allow; "" when there is no such path.
  std::string methods_of(std::string_view path) const;

 private:
  std::vector<Route> routes_;
};

// Calls the route's handler; what it throws is the answer.
void call_handler(const Route& route, const std::shared_ptr<Exchange>& exchange);

}  // namespace mortise
