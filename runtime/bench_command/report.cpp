#include "bench_command/report.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "error.hpp"
#include "json/bounded_json.hpp"

namespace mortise::bench {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr std::uintmax_t kMaxReportBytes = std::uintmax_t{16} << 20;

// Returns four significant digits: 0.05123, 12.35, 4195.
std::string number(double value) {
  const double size = std::abs(value);
  return size >= 1000 ? fmt::format("{:.0f}", value)
         : size >= 1  ? fmt::format("{:.{}f}", value,
                                   size >= 100  ? 1
                                    : size >= 10 ? 2
                                                 : 3)
                      : fmt::format("{:.4g}", value);
}

std::string number(const std::optional<double>& value) {
  return value ? number(*value) : "-";
}

std::string two_places(const std::optional<double>& value) {
  return value ? fmt::format("{:.2f}", *value) : "-";
}

std::string bound_text(const std::optional<Bound>& bound) {
  return bound ? fmt::format("{:.3f} to {:.3f}", bound->low, bound->high) : "too few pairs";
}

std::string verdict(const PairedRatio& speed) {
  if (!speed.bound) return "";
  return speed.bound->low > 1 ? "B is faster" : speed.bound->high < 1 ? "B is slower" : "no difference shown";
}

std::string spread(const Figure& figure) {
  if (figure.bound) return fmt::format("{:.3f} to {:.3f} (95 %)", figure.bound->low, figure.bound->high);
  const auto [low, high] = std::minmax_element(figure.samples.begin(), figure.samples.end());
  return fmt::format("{} to {}", number(*low), number(*high));
}

std::string links_line(const LinkLimits& links) {
  return fmt::format("links of the ranks: {:.1f} us for an exchange of one row, {:.1f} GB/s for many\n",
                     links.latency_s * 1e6, links.bytes_per_s * 1e-9);
}

std::string limits_line(const ReportLimits& limits) {
  const std::string whose = limits.num_ranks == 1 ? "" : fmt::format(", each of {} ranks", limits.num_ranks);
  std::string line = fmt::format("limits of this run{}: {} {:.1f} GB/s ({} MiB, repeatedly)", whose, limits.movement,
                                 limits.limits.read_bytes_per_s * 1e-9, limits.working_set_bytes >> 20);
  if (limits.unit && limits.limits.operations_per_s) {
    line += fmt::format(", {} {:.3f} T/s", *limits.unit, *limits.limits.operations_per_s * 1e-12);
  }
  return line + "\n" + (limits.limits.links ? links_line(*limits.limits.links) : "");
}

// The share of the links stands beside the floor, in whole percent.
std::string floor_text(const Figure& figure) {
  const std::string floor = number(figure.floor);
  return figure.links ? fmt::format("{} (links {:.0f} %)", floor, 100 * *figure.links) : floor;
}

OrderedJson links_json(const std::optional<LinkLimits>& links) {
  if (!links) return nullptr;
  return {{"latency_s", links->latency_s}, {"bytes_per_s", links->bytes_per_s}};
}

OrderedJson optional_number(const std::optional<double>& value) {
  return value ? OrderedJson(*value) : OrderedJson(nullptr);
}

OrderedJson bound_json(const std::optional<Bound>& bound) {
  return bound ? OrderedJson::array({bound->low, bound->high}) : OrderedJson(nullptr);
}

std::string read_text(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) fail("--compare {}: no such file", file.native());
  if (std::filesystem::file_size(file, error) > kMaxReportBytes) {
    fail("--compare {}: is larger than 16 MiB; expected a file that --json wrote", file.native());
  }
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

OldFigure old_figure(const nlohmann::json& figure) {
  OldFigure out{figure.at("name"), figure.at("unit"), figure.at("higher_is_better"), figure.at("value"), std::nullopt};
  if (figure.at("ratio").is_number()) out.ratio = figure.at("ratio").get<double>();
  return out;
}

}  // namespace

std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += "  ";
      line += i == 0                ? fmt::format("{:<{}}", row[i], widths[i])
              : i + 1 == row.size() ? row[i]
                                    : fmt::format("{:>{}}", row[i], widths[i]);
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

std::string table_of(const Report& report) {
  std::string out = fmt::format("{} of {}; {}\n", report.scenario, report.subject, report.device);
  if (report.against) out += fmt::format("A: {}\nB: {}\n", report.subject, *report.against);
  if (report.limits) out += limits_line(*report.limits);
  std::vector<std::vector<std::string>> rows;
  if (!report.figures.empty()) {
    rows.push_back({"", "median", "unit", "floor", "ratio", "spread", "note"});
    for (const Figure& f : report.figures) {
      rows.push_back({f.name, number(f.value), f.unit, floor_text(f), two_places(f.ratio), spread(f), f.note});
    }
  }
  if (!report.comparisons.empty()) {
    rows.push_back({"", "A", "B", "unit", "speed of B", "95 % interval", ""});
    for (const Comparison& c : report.comparisons) {
      rows.push_back({c.a.name, number(c.a.value), number(c.b.value), c.a.unit, fmt::format("{:.3f}", c.speed.ratio),
                      bound_text(c.speed.bound), verdict(c.speed)});
    }
  }
  if (!report.speculation.empty()) out += speculation_table(report.speculation);
  return out + aligned(rows);
}

OrderedJson json_of(const Report& report) {
  OrderedJson json = {{"format", kFormat},
                      {"scenario", report.scenario},
                      {"subject", report.subject},
                      {"against", report.against ? OrderedJson(*report.against) : OrderedJson(nullptr)},
                      {"device", report.device},
                      {"command", report.command},
                      {"started", report.started},
                      {"repeats", report.repeats},
                      {"limits", nullptr},
                      {"figures", OrderedJson::array()},
                      {"pairs", OrderedJson::array()}};
  if (report.limits) {
    json["limits"] = {{"movement", report.limits->movement},
                      {"read_bytes_per_s", report.limits->limits.read_bytes_per_s},
                      {"working_set_bytes", report.limits->working_set_bytes},
                      {"unit", report.limits->unit ? OrderedJson(*report.limits->unit) : OrderedJson(nullptr)},
                      {"operations_per_s", optional_number(report.limits->limits.operations_per_s)},
                      {"ranks", report.limits->num_ranks},
                      {"links", links_json(report.limits->limits.links)}};
  }
  for (const Figure& f : report.figures) {
    json["figures"].push_back({{"name", f.name},
                               {"unit", f.unit},
                               {"higher_is_better", f.higher_is_better},
                               {"value", f.value},
                               {"samples", f.samples},
                               {"floor", optional_number(f.floor)},
                               {"ratio", optional_number(f.ratio)},
                               {"links", optional_number(f.links)},
                               {"bound", bound_json(f.bound)},
                               {"note", f.note}});
  }
  for (const Comparison& c : report.comparisons) {
    json["pairs"].push_back({{"name", c.a.name},
                             {"unit", c.a.unit},
                             {"a", c.a.value},
                             {"b", c.b.value},
                             {"a_samples", c.a.samples},
                             {"b_samples", c.b.samples},
                             {"speed", c.speed.ratio},
                             {"bound", bound_json(c.speed.bound)}});
  }
  if (!report.speculation.empty()) json["speculation"] = speculation_json(report.speculation);
  return json;
}

std::vector<OldFigure> read_report(const std::filesystem::path& file) {
  const std::string text = read_text(file);
  std::vector<OldFigure> figures;
  try {
    const nlohmann::json json = parse_json(text);
    if (!json.is_object() || json.value("format", 0) != kFormat) {
      fail("it has no \"format\": {}", kFormat);
    }
    for (const nlohmann::json& figure : json.at("figures")) figures.push_back(old_figure(figure));
  } catch (const Error& error) {
    fail("--compare {}: {}; expected a file that --json wrote", file.native(), error.what());
  } catch (const nlohmann::json::exception& error) {
    fail("--compare {}: {}; expected a file that --json wrote", file.native(), json_error_text(error));
  }
  return figures;
}

std::string comparison_table(const Report& report, const std::vector<OldFigure>& old) {
  std::vector<std::vector<std::string>> rows = {
      {"", "old", "new", "unit", "speed", "old ratio", "new ratio", "nearness to floor"}};
  for (const Figure& f : report.figures) {
    const auto before =
        std::find_if(old.begin(), old.end(), [&](const OldFigure& o) { return o.name == f.name && o.unit == f.unit; });
    if (before == old.end()) {
      rows.push_back({f.name, "-", number(f.value), f.unit, "-", "-", two_places(f.ratio), "-"});
      continue;
    }
    const double speed = f.higher_is_better ? f.value / before->value : before->value / f.value;
    const bool both = before->ratio && f.ratio;
    rows.push_back({f.name, number(before->value), number(f.value), f.unit, fmt::format("{:.3f}", speed),
                    two_places(before->ratio), two_places(f.ratio),
                    both ? fmt::format("{:.3f}", *f.ratio / *before->ratio) : "-"});
  }
  return aligned(rows);
}

}  // namespace mortise::bench
