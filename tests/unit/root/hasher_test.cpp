#include "hasher.hpp"

#include <gtest/gtest.h>

namespace mortise {
namespace {

std::string hash_of_fields(std::string_view first, std::string_view second) {
  Hasher hasher;
  hasher.add(first);
  hasher.add(second);
  return hasher.hex();
}

// Fingerprints are compared between versions of the program and between machines, so the hash must stay what it is.
TEST(Hasher, IsXxh3OfTheBytesWith128Bits) {
  EXPECT_EQ(Hasher().hex(), "99aa06d3014798d86001c324468d497f");  // the vector of XXH3_128bits() for no bytes
  Hasher hasher;
  hasher.add("abc", 3);
  EXPECT_EQ(hasher.hex(), "06b05ab6733a618578af5f94892f3950");  // and for "abc"
}

TEST(Hasher, WherePartsAreCutInTwoMakesNoDifferenceForBytes) {
  Hasher whole, parts;
  whole.add("abcdef", 6);
  parts.add("abc", 3);
  parts.add("", 0);
  parts.add("def", 3);
  EXPECT_EQ(whole.hex(), parts.hex());
}

TEST(Hasher, FieldsThatJoinToOneTextAreToldApart) {
  EXPECT_NE(hash_of_fields("ab", "c"), hash_of_fields("a", "bc"));
  EXPECT_NE(hash_of_fields("", "abc"), hash_of_fields("abc", ""));
  EXPECT_NE(hash_of(""), Hasher().hex());  // an empty field is one
  EXPECT_NE(hash_of(std::string_view("a\0", 2)), hash_of("a"));
}

TEST(Hasher, HexMayBeAskedForAndMoreBeAdded) {
  Hasher once, twice;
  once.add(std::uint64_t{7});
  twice.add(std::uint64_t{7});
  EXPECT_EQ(twice.hex(), once.hex());
  twice.add(std::uint64_t{8});
  EXPECT_NE(twice.hex(), once.hex());
}

}  // namespace
}  // namespace mortise
