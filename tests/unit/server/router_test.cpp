#include "server/router.hpp"

#include <gtest/gtest.h>

namespace mortise {
namespace {

Router three_routes() {
  Router router;
  router.add({.method = "GET", .path = "/v1/models", .handle = {}});
  router.add({.method = "GET", .path = "/v1/models/*", .handle = {}});
  router.add({.method = "POST", .path = "/v1/models", .handle = {}});
  return router;
}

std::string found(const Router& router, std::string_view method, std::string_view path) {
  const Route* const route = router.find(method, path);
  return route == nullptr ? "none" : route->method + " " + route->path;
}

TEST(Router, FindsMethodAndPath) {
  const Router router = three_routes();
  EXPECT_EQ(found(router, "GET", "/v1/models"), "GET /v1/models");
  EXPECT_EQ(found(router, "HEAD", "/v1/models"), "GET /v1/models");
  EXPECT_EQ(found(router, "POST", "/v1/models"), "POST /v1/models");
  EXPECT_EQ(found(router, "PUT", "/v1/models"), "none");
  EXPECT_EQ(found(router, "get", "/v1/models"), "none");
  for (const char* path : {"", "/", "/v1", "/v1/model", "/v1/modelsx", "/v1/Models", "//v1/models"}) {
    EXPECT_EQ(found(router, "GET", path), "none") << path;
  }
}

TEST(Router, AStarTakesWhatIsBelowTheFolderAndNotTheFolder) {
  const Router router = three_routes();
  EXPECT_EQ(found(router, "GET", "/v1/models/demo"), "GET /v1/models/*");
  EXPECT_EQ(found(router, "GET", "/v1/models/a/b"), "GET /v1/models/*");
  EXPECT_EQ(found(router, "GET", "/v1/models/"), "none");
  EXPECT_EQ(found(router, "POST", "/v1/models/demo"), "none");
}

TEST(Router, TellsTheMethodsOfAPath) {
  const Router router = three_routes();
  EXPECT_EQ(router.methods_of("/v1/models"), "GET, HEAD, POST");
  EXPECT_EQ(router.methods_of("/v1/models/demo"), "GET, HEAD");
  EXPECT_EQ(router.methods_of("/nowhere"), "");
}

}  // namespace
}  // namespace mortise
