#include "server/api_keys.hpp"

#include <gmock/gmock.h>

#include "error.hpp"
#include "temp_folder.hpp"

namespace mortise {
namespace {

using testing::ElementsAre;

class ApiKeysFile : public testing::Test {
 protected:
  std::string with(const std::string& text) const { return folder_.write("keys", text); }
  std::string error_with(const std::string& text) const {
    try {
      read_api_keys(with(text));
      return "accepted";
    } catch (const Error& error) {
      return std::string(error.what()).substr((folder_.path() / "keys").string().size());
    }
  }
  const test::TempFolder folder_;
};

TEST(ApiKeys, WithoutKeysEverybodyMayAsk) {
  const ApiKeys none({});
  EXPECT_TRUE(none.empty());
  EXPECT_TRUE(none.allow(""));
  EXPECT_TRUE(none.allow("Bearer anything"));
}

TEST(ApiKeys, OneOfTheKeysIsNeeded) {
  const ApiKeys keys({"alpha", "beta"});
  for (const char* right : {"Bearer alpha", "Bearer beta", "bearer alpha", "BEARER   beta "}) {
    EXPECT_TRUE(keys.allow(right)) << right;
  }
  for (const char* wrong : {"", "alpha", "Bearer", "Bearer ", "Bearer gamma", "Bearer alpha beta", "Bearer Alpha",
                            "Bearer alph", "Bearer alphaa", "Basic alpha", " Bearer alpha"}) {
    EXPECT_FALSE(keys.allow(wrong)) << wrong;
  }
}

TEST_F(ApiKeysFile, HasAKeyALine) {
  EXPECT_THAT(read_api_keys(with("# team a\nalpha\n\n  beta \r\n#gamma\ndelta")),
              ElementsAre("alpha", "beta", "delta"));
}

TEST_F(ApiKeysFile, WhatIsWrongIsNamedWithItsLine) {
  EXPECT_EQ(error_with("alpha\nbe ta\n"), ":2: an API key must be printable ASCII without spaces");
  EXPECT_EQ(error_with("schl\u00fcssel\n"), ":1: an API key must be printable ASCII without spaces");
  EXPECT_EQ(error_with("a\x7f"), ":1: an API key must be printable ASCII without spaces");
  EXPECT_EQ(error_with("# none\n\n"), ": it has no API key; write one on each line");
  EXPECT_EQ(error_with(""), ": it has no API key; write one on each line");
  EXPECT_THROW(read_api_keys(folder_.path() / "absent"), Error);
}

}  // namespace
}  // namespace mortise
