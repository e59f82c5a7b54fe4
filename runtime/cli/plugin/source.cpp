#include "cli/plugin/source.hpp"

#include <filesystem>

#include "cli/http_client.hpp"
#include "error.hpp"
#include "json/bounded_json.hpp"
#include "plugin_index/whole_file.hpp"

namespace mortise {
namespace {

constexpr int kMaxRedirections = 5;
constexpr std::chrono::seconds kPatience{30};

bool is_url(const std::string& location) {
  return location.find("://") != std::string::npos;
}

bool is_https(const std::string& location) {
  return location.starts_with("https://");
}

bool is_redirection(unsigned status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// Returns where a redirection of `from` leads; `to` may lack the server, or the folder too.
std::string target(const std::string& from, const std::string& to) {
  if (is_url(to)) return to;
  if (to.starts_with("//")) return from.substr(0, from.find("//")) + to;
  if (to.starts_with('/')) return split_url(from).first + to;
  const auto [server, path] = split_url(beside(from, to));
  return server + std::filesystem::path(path).lexically_normal().string();
}

std::string download(std::string url, std::size_t limit, const std::string& ca_file) {
  for (int redirections = 0; redirections <= kMaxRedirections; ++redirections) {
    const auto [server, path] = split_url(url);
    HttpReply reply = ask_http({.url = server,
                                .ca_file = is_https(url) ? ca_file : "",
                                .method = "GET",
                                .path = path,
                                .key = "",
                                .body = "",
                                .patience = kPatience,
                                .max_bytes = limit});
    if (reply.status == 200) return std::move(reply.body);
    if (!is_redirection(reply.status)) {
      fail(reply.status == 404 ? ErrorCode::kNotFound : ErrorCode::kUnavailable, "{}: the server answers {}{}", url,
           reply.status, reply.status == 404 ? ": it has no such file" : "");
    }
    const std::string next = target(url, reply.location);
    if (is_https(url) && !is_https(next)) {
      fail("{}: it leads to {}, which is not https and is not followed", url, quote(next));
    }
    if (!is_https(next) && !next.starts_with("http://"))
      fail("{}: it leads to {}, which is neither http nor https", url, quote(next));
    url = next;
  }
  fail(ErrorCode::kUnavailable, "{}: more than {} redirections lead from one to the next", url, kMaxRedirections);
}

}  // namespace

std::string read_source(const std::string& location, std::size_t limit, const std::string& ca_file) {
  constexpr std::string_view kFile = "file://";
  if (location.starts_with(kFile)) return read_whole_file(location.substr(kFile.size()), limit);
  if (!is_url(location)) return read_whole_file(location, limit);
  if (is_https(location) || location.starts_with("http://")) return download(location, limit, ca_file);
  fail("{}: only http, https and file urls can be read", quote(location));
}

std::string inside(const std::string& location, const std::string& name) {
  return location + (location.ends_with('/') ? "" : "/") + name;
}

std::string beside(const std::string& location, const std::string& name) {
  const std::string path = location.substr(0, location.find_first_of("?#"));
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? name : path.substr(0, slash + 1) + name;
}

}  // namespace mortise
