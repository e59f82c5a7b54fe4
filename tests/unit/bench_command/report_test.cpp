#include "bench_command/report.hpp"

#include "test_support.hpp"

namespace mortise::bench {
namespace {

using namespace test;
using testing::HasSubstr;

Report example() {
  Report report;
  report.scenario = "decode";
  report.subject = "160m (random weights)";
  report.device = "a processor, amx, 2 threads";
  report.command = "mortise bench decode --shape 160m";
  report.started = "2026-11-21T12:00:00Z";
  report.repeats = 3;
  report.limits = ReportLimits{{33.5e9, 5.7e12}, "read", std::size_t{262} << 20, "AMX bf16"};
  Figure one;
  one.name = "decode, batch 1";
  one.unit = "tokens/s";
  one.samples = {99.5, 101.25, 104};
  one.value = 101.25;
  one.floor = 121.6;
  one.ratio = 0.8327;
  Figure eight;
  eight.name = "decode, batch 8";
  eight.unit = "tokens/s";
  eight.samples = {600};
  eight.value = 600;
  eight.note = "2 preemptions";
  report.figures = {one, eight};
  return report;
}

Report in_pairs(double low, double high) {
  Report report = example();
  report.figures.clear();
  report.limits.reset();
  report.against = "160m (random weights), device.isa=avx512; a processor, avx512";
  Figure a, b;
  a.name = b.name = "decode, batch 1";
  a.unit = b.unit = "tokens/s";
  a.value = 100, b.value = 103;
  report.comparisons = {{a, b, {1.03, Bound{low, high}}}};
  return report;
}

TEST(BenchReport, TheTableHasFloorAndRatioBesideEachFigure) {
  EXPECT_EQ(table_of(example()),
            "decode of 160m (random weights); a processor, amx, 2 threads\n"
            "limits of this run: read 33.5 GB/s (262 MiB, repeatedly), AMX bf16 5.700 T/s\n"
            "                 median      unit  floor  ratio          spread  note\n"
            "decode, batch 1   101.2  tokens/s  121.6   0.83  99.50 to 104.0\n"
            "decode, batch 8   600.0  tokens/s      -      -  600.0 to 600.0  2 preemptions\n");
}

TEST(BenchReport, LinksStandBesideTheLimitsAndTheFloor) {
  Report report = example();
  report.limits->num_ranks = 2;
  report.limits->limits.links = LinkLimits{12.34e-6, 5.06e9};
  report.figures.resize(1);
  report.figures[0].links = 0.248;
  EXPECT_EQ(table_of(report),
            "decode of 160m (random weights); a processor, amx, 2 threads\n"
            "limits of this run, each of 2 ranks: read 33.5 GB/s (262 MiB, repeatedly), AMX bf16 5.700 T/s\n"
            "links of the ranks: 12.3 us for an exchange of one row, 5.1 GB/s for many\n"
            "                 median      unit               floor  ratio          spread  note\n"
            "decode, batch 1   101.2  tokens/s  121.6 (links 25 %)   0.83  99.50 to 104.0\n");
  const auto json = json_of(report);
  EXPECT_EQ(json.at("limits").at("ranks"), 2);
  EXPECT_EQ(json.at("limits").at("links").at("latency_s"), 12.34e-6);
  EXPECT_EQ(json.at("limits").at("links").at("bytes_per_s"), 5.06e9);
  EXPECT_EQ(json.at("figures").at(0).at("links"), 0.248);
  const auto of_one = json_of(example());
  EXPECT_EQ(of_one.at("limits").at("ranks"), 1);
  EXPECT_TRUE(of_one.at("limits").at("links").is_null());
  EXPECT_TRUE(of_one.at("figures").at(0).at("links").is_null());
}

TEST(BenchReport, PairsSayWhatTheirBoundShows) {
  EXPECT_THAT(table_of(in_pairs(1.01, 1.05)), HasSubstr("1.030  1.010 to 1.050  B is faster\n"));
  EXPECT_THAT(table_of(in_pairs(0.91, 0.95)), HasSubstr("B is slower\n"));
  EXPECT_THAT(table_of(in_pairs(0.99, 1.05)), HasSubstr("no difference shown\n"));
  EXPECT_THAT(table_of(in_pairs(0.99, 1.05)), HasSubstr("B: 160m (random weights), device.isa=avx512"));
  Report few = in_pairs(1, 1);
  few.comparisons[0].speed.bound.reset();
  EXPECT_THAT(table_of(few), HasSubstr("too few pairs\n"));
}

TEST(BenchReport, WhatJsonSaysIsReadAgain) {
  const TempFolder dir;
  write_text(dir.path() / "old.json", json_of(example()).dump());
  const std::vector<OldFigure> old = read_report(dir.path() / "old.json");
  ASSERT_EQ(old.size(), 2u);
  EXPECT_EQ(old[0].name, "decode, batch 1");
  EXPECT_EQ(old[0].value, 101.25);
  EXPECT_EQ(old[0].ratio, 0.8327);
  EXPECT_EQ(old[1].ratio, std::nullopt);
  const auto json = json_of(example());
  EXPECT_EQ(json.at("limits").at("unit"), "AMX bf16");
  EXPECT_EQ(json.at("figures").at(0).at("samples").size(), 3u);
  EXPECT_EQ(json_of(in_pairs(1, 2)).at("pairs").at(0).at("bound").at(1), 2);
}

TEST(BenchReport, ComparingShowsSpeedAndNearnessApart) {
  // The machine became a tenth slower, and so did the figure, but it is as near to its floor as before.
  std::vector<OldFigure> old = {{"decode, batch 1", "tokens/s", true, 112.5, 0.8327},
                                {"decode, batch 8", "s", true, 1, 0.5}};
  EXPECT_EQ(comparison_table(example(), old),
            "                   old    new      unit  speed  old ratio  new ratio  nearness to floor\n"
            "decode, batch 1  112.5  101.2  tokens/s  0.900       0.83       0.83  1.000\n"
            "decode, batch 8      -  600.0  tokens/s      -          -          -  -\n");
}

TEST(BenchReport, LessTimeIsMoreSpeedInComparisonsToo) {
  Report report = example();
  report.figures.resize(1);
  report.figures[0].higher_is_better = false;
  EXPECT_THAT(comparison_table(report, {{"decode, batch 1", "tokens/s", false, 202.5, std::nullopt}}),
              HasSubstr("2.000"));
}

TEST(BenchReport, FilesThatAreNoReportsAreRefusedByName) {
  const TempFolder dir;
  const auto refusal = [&](const std::string& text) {
    write_text(dir.path() / "x.json", text);
    return error_of([&] { read_report(dir.path() / "x.json"); });
  };
  const std::string name = "--compare " + (dir.path() / "x.json").string() + ": ";
  EXPECT_THAT(refusal("no"), testing::StartsWith(name + "not JSON: "));
  EXPECT_THAT(refusal("no"), HasSubstr("; expected a file that --json wrote"));
  EXPECT_EQ(refusal("[]"), name + "it has no \"format\": 1; expected a file that --json wrote");
  EXPECT_EQ(refusal("{\"format\": 2}"), name + "it has no \"format\": 1; expected a file that --json wrote");
  EXPECT_THAT(refusal("{\"format\": 1}"), HasSubstr("key 'figures' not found"));
  EXPECT_THAT(refusal("{\"format\": 1, \"figures\": [{\"name\": 3}]}"),
              HasSubstr("; expected a file that --json wrote"));
  EXPECT_EQ(error_of([&] { read_report(dir.path() / "none"); }),
            "--compare " + (dir.path() / "none").string() + ": no such file");
  fs::resize_file(dir.path() / "x.json", std::uintmax_t{17} << 20);
  EXPECT_EQ(error_of([&] { read_report(dir.path() / "x.json"); }),
            name + "is larger than 16 MiB; expected a file that --json wrote");
}

}  // namespace
}  // namespace mortise::bench
