#include "server/cors.hpp"

#include <gmock/gmock.h>

namespace mortise {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

HeaderList headers_for(const Cors& cors, std::string_view origin) {
  HeaderList headers;
  cors.add_headers(origin, headers);
  return headers;
}

TEST(Cors, OriginsAreComparedWhole) {
  const Cors cors({"https://a.example", "http://localhost:3000"});
  EXPECT_TRUE(cors.allows("https://a.example"));
  EXPECT_TRUE(cors.allows("http://localhost:3000"));
  for (const char* other : {"", "http://a.example", "https://a.example.evil.example", "https://a.exampl",
                            "https://b.a.example", "http://localhost", "null", "*"}) {
    EXPECT_FALSE(cors.allows(other)) << other;
  }
}

TEST(Cors, AStarAllowsEveryOriginThatIsOne) {
  const Cors cors({"*"});
  EXPECT_TRUE(cors.allows("https://a.example"));
  EXPECT_FALSE(cors.allows(""));  // true: a request that comes from no page would get the headers
}

TEST(Cors, AnAnswerNamesTheOriginThatMayReadIt) {
  const Cors cors({"https://a.example"});
  EXPECT_THAT(headers_for(cors, "https://a.example"),
              Contains(Pair("Access-Control-Allow-Origin", "https://a.example")));
  // A cache must keep apart what it got for different origins, also when one got nothing.
  EXPECT_THAT(headers_for(cors, "https://b.example"), ElementsAre(Pair("Vary", "Origin")));
  EXPECT_THAT(headers_for(Cors({}), "https://a.example"), IsEmpty());
}

TEST(Cors, APreflightSaysWhatThePageMaySend) {
  const Cors cors({"https://a.example"});
  const HttpAnswer allowed = cors.preflight("https://a.example", "authorization", "POST");
  EXPECT_EQ(allowed.status, 204);
  EXPECT_EQ(allowed.body, "");
  EXPECT_THAT(allowed.headers, Contains(Pair("Allow", "POST, OPTIONS")));
  EXPECT_THAT(allowed.headers, Contains(Pair("Access-Control-Allow-Methods", "POST")));
  EXPECT_THAT(allowed.headers, Contains(Pair("Access-Control-Allow-Headers", "authorization")));
  const HttpAnswer refused = cors.preflight("https://b.example", "authorization", "POST");
  EXPECT_THAT(refused.headers, ElementsAre(Pair("Allow", "POST, OPTIONS")));
  EXPECT_THAT(cors.preflight("https://a.example", "", "POST").headers,
              Not(Contains(Pair("Access-Control-Allow-Headers", testing::_))));
}

}  // namespace
}  // namespace mortise
