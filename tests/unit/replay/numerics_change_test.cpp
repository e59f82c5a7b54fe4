#include "replay/numerics_change.hpp"

#include <gtest/gtest.h>

namespace mortise {
namespace {

TEST(NumericsChange, NamesThePartsThatAreOthers) {
  const std::string before = "cpu-bf16/1; attention attention-span256/1; kv bf16";
  EXPECT_EQ(describe_change(before, before), "");
  EXPECT_EQ(describe_change(before, "cpu-bf16/1; attention attention-span128/1; kv bf16"),
            "'attention attention-span256/1' is now 'attention attention-span128/1'");
  EXPECT_EQ(describe_change(before, "cuda-bf16/2; attention attention-span256/1; kv bf16"),
            "'cpu-bf16/1' is now 'cuda-bf16/2'");  // the first item begins with no word that names the part
  EXPECT_EQ(describe_change(before, "cpu-bf16/1; attention attention-span256/1"), "'kv bf16' is gone");
  EXPECT_EQ(describe_change(before, before + "; weights int4"), "'weights int4' is new");
}

TEST(NumericsChange, OrderAndSpacesAreNoChange) {
  EXPECT_EQ(describe_change("cpu; a 1; b 2", "cpu;b 2;  a 1"), "");
}

TEST(NumericsChange, PartsOfOneKindAreComparedOneByOne) {
  EXPECT_EQ(describe_change("cpu; draft a; draft b", "cpu; draft a; draft c"), "'draft b' is now 'draft c'");
  EXPECT_EQ(describe_change("cpu; draft a", "cpu; draft a; draft a"), "'draft a' is new");
}

TEST(NumericsChange, TheOptionThatBringsTheFormerOrderOfSumsBackIsNamed) {
  const std::string tiles = "cpu-bf16/1; attention attention-span256/1",
                    with = "cpu-bf16/1 with cpu-int8/1, int4; kv x";
  const std::string pairs = "cpu-bf16-pairs/1; attention attention-span256-pairs/1";
  EXPECT_EQ(numerics_remedy(tiles, pairs), "; cpu { numerics = \"tiles\" } brings class cpu-bf16/1 back");
  EXPECT_EQ(numerics_remedy(pairs, with), "; cpu { numerics = \"pairs\" } brings class cpu-bf16-pairs/1 back");
  EXPECT_EQ(numerics_remedy(tiles, with), "");
  EXPECT_EQ(numerics_remedy(tiles, "cuda-bf16/1"), "");
  EXPECT_EQ(numerics_remedy("cpu-f32/1", pairs), "");
  EXPECT_EQ(numerics_remedy("", ""), "");
}

TEST(NumericsChange, AnythingMayBeEmpty) {
  EXPECT_EQ(describe_change("", ""), "");
  EXPECT_EQ(describe_change("", "cpu"), "'cpu' is new");
  EXPECT_EQ(describe_change("cpu", ""), "'cpu' is gone");
}

}  // namespace
}  // namespace mortise
