// runtime/server/router.hpp: finds the handler for a method and a path.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/exchange.hpp"

namespace mortise {

struct Route {
  std::string method;  // GET (which also serves HEAD) or POST
  std::string path;    // a path that ends in "/*" matches every path below it
  enum class Access {
    kOpen,     // no API key, for probes and scrapers
    kWithKey,  // any API key
    kAdmin,    // an admin key; if there is none, requests from this machine only
  } access = Access::kWithKey;
  enum class Cost {
    kCheap,  // answered on the connection's thread
    kWork,   // on a worker; refused while the server drains
    kWait,   // like kWork, but on a thread that may wait for requests which need a worker themselves
  } cost = Cost::kWork;
  std::function<void(const std::shared_ptr<Exchange>&)> handle;
};

// The routes of a server. Constant while the server runs, so any thread may use it. Invariant: routes_ is searched in
// order, and the first match wins.
class Router {
 public:
  void add(Route route) { routes_.push_back(std::move(route)); }

  // nullptr if there is none.
  const Route* find(std::string_view method, std::string_view path) const;
  // Returns the methods of a path, "GET, HEAD, POST", for the header Allow; "" if no route has the path.
  std::string methods_of(std::string_view path) const;

 private:
  std::vector<Route> routes_;
};

// Calls the route's handler. An exception of the handler becomes the answer.
void call_handler(const Route& route, const std::shared_ptr<Exchange>& exchange);

}  // namespace mortise
