#include "kv_events/endpoints.hpp"

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "error.hpp"

namespace mortise {
namespace {

// The "tcp://HOST:" and the port of an endpoint. nullopt for other endpoints, and if the port is not a number.
struct TcpEndpoint {
  std::string_view address;
  std::int64_t port = 0;
};

std::optional<TcpEndpoint> parse_tcp(std::string_view endpoint) {
  if (!endpoint.starts_with("tcp://")) return std::nullopt;
  TcpEndpoint parsed{endpoint.substr(0, endpoint.rfind(':') + 1)};
  const char* const end = endpoint.data() + endpoint.size();
  const auto read = std::from_chars(endpoint.data() + parsed.address.size(), end, parsed.port);
  if (read.ec != std::errc() || read.ptr != end || parsed.port <= 0) return std::nullopt;
  return parsed;
}

std::size_t port_step(const KvEndpoints& first) {
  const auto publish = parse_tcp(first.publish), replay = parse_tcp(first.replay);
  return publish && replay && std::abs(publish->port - replay->port) == 1 ? 2 : 1;
}

std::string endpoint_of_model(const std::string& endpoint, std::size_t index, std::size_t step) {
  if (index == 0 || endpoint.empty()) return endpoint;
  if (!endpoint.starts_with("tcp://")) return fmt::format("{}.{}", endpoint, index);
  const std::optional<TcpEndpoint> tcp = parse_tcp(endpoint);
  if (!tcp) return endpoint;
  const std::size_t port = static_cast<std::size_t>(tcp->port) + index * step;
  if (port > 65535) {
    fail("{}: model {} would publish its KV events at port {}, but the last port is 65535; give a smaller port",
         endpoint, index + 1, port);
  }
  return fmt::format("{}{}", tcp->address, port);
}

bool is_any_address(std::string_view address) {
  return address == "tcp://*:" || address == "tcp://0.0.0.0:";
}

// Whether two sockets could not both listen at these endpoints.
bool collide(const std::string& one, const std::string& other) {
  const auto a = parse_tcp(one), b = parse_tcp(other);
  if (!a || !b) return !one.empty() && one == other && !one.starts_with("tcp://");
  return a->port == b->port && (a->address == b->address || is_any_address(a->address) || is_any_address(b->address));
}

}  // namespace

KvEndpoints endpoints_of_model(const KvEndpoints& first, std::size_t index) {
  const std::size_t step = port_step(first);
  const auto endpoints_of = [&](std::size_t model) {
    return KvEndpoints{endpoint_of_model(first.publish, model, step), endpoint_of_model(first.replay, model, step)};
  };
  KvEndpoints own = endpoints_of(index);
  for (std::size_t model = 0; model <= index; ++model) {
    const KvEndpoints earlier = endpoints_of(model);
    for (const auto& [publish, replay] : {std::pair(own.publish, earlier.replay), {earlier.publish, own.replay}}) {
      if (!collide(publish, replay)) continue;
      fail(
          "--kv-events {} and --kv-events-replay {}: with {} model(s) both need {}; give two ports next to each other, "
          "or ports further apart than there are models",
          first.publish, first.replay, index + 1, publish);
    }
  }
  return own;
}

}  // namespace mortise
