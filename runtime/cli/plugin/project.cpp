#include "cli/plugin/project.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <map>
#include <system_error>

#include "error.hpp"
#include "loader/catalog.hpp"
#include "loader/component.hpp"
#include "loader/host_services.hpp"
#include "loader/nearest.hpp"
#include "mortise/abi.h"
#include "pipeline/demo_script.hpp"

namespace mortise {
namespace fs = std::filesystem;
namespace {

using Words = std::map<std::string, std::string>;  // @WORD@ to its text
using Texts = std::map<fs::path, std::string>;     // path in the project to the file's text

constexpr const char* kTemplateEnding = ".in";
constexpr std::size_t kMaxNameLength = 32;

// A component's name is a constructor in Lua scripts, and the target of the project's CMakeLists.txt.
constexpr std::array kReserved = {"and",      "break",  "do",      "else",    "elseif",   "end",    "false", "for",
                                  "function", "goto",   "if",      "in",      "local",    "nil",    "not",   "or",
                                  "repeat",   "return", "then",    "true",    "until",    "while",  "all",   "check",
                                  "clean",    "help",   "install", "package", "pipeline", "plugin", "test"};

void check_kind(const std::string& kind) {
  std::vector<std::string> kinds;
  for (const PartKind each : kAllKinds) kinds.emplace_back(kind_name(each));
  if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) return;
  fail("there is no kind of plugin '{}'{}; there are: {}", kind, did_you_mean(kind, kinds), join_names(kinds));
}

void check_name(const std::string& name) {
  const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto fits = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '_'; };
  if (name.empty() || name.size() > kMaxNameLength || !letter(name[0]) ||
      !std::all_of(name.begin(), name.end(), fits)) {
    fail(
        "a plugin cannot be named '{}'; a name must begin with a lower-case letter and has up to {} lower-case "
        "letters, digits and underscores, such as my_policy",
        name, kMaxNameLength);
  }
  if (std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end()) {
    fail("a plugin cannot be named '{}', which has a meaning of its own in Lua or CMake; try 'my_{}'", name, name);
  }
}

void check_folder(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error) || (fs::is_directory(folder, error) && fs::is_empty(folder, error))) return;
  fail("{}: exists already; remove it, or give another folder with --dir", folder.string());
}

std::string read_text(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail("{}: the template cannot be read; install Mortise again", file.string());
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Replaces each @WORD@ of `words`, and leaves text between other @ signs as it is.
std::string replaced(std::string text, const Words& words) {
  for (const auto& [word, value] : words) {
    const std::string mark = "@" + word + "@";
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + value.size())) {
      text.replace(at, mark.size(), value);
    }
  }
  return text;
}

// Adds the templates of `folder`, by their paths in the project. If `deep`, also adds those of sub-folders.
void read_templates(const fs::path& folder, bool deep, const Words& words, Texts& texts) {
  for (auto entry = fs::recursive_directory_iterator(folder); entry != fs::recursive_directory_iterator(); ++entry) {
    if (entry->is_directory()) {
      if (!deep) entry.disable_recursion_pending();
      continue;
    }
    if (entry->path().extension() != kTemplateEnding) continue;
    const std::string path = fs::relative(entry->path(), folder).replace_extension().string();
    texts[replaced(path, words)] = read_text(entry->path());
  }
}

void write_texts(const Texts& texts, const fs::path& folder) {
  for (const auto& [path, text] : texts) {
    const fs::path file = folder / path;
    std::error_code error;
    fs::create_directories(file.parent_path(), error);
    std::ofstream stream(file, std::ios::binary);
    if (!(stream << text).flush())
      fail("{}: cannot be written; is the disk full, or is writing there not allowed?", file.string());
  }
}

std::string demo_model() {
  const fs::path installed = executable_folder().parent_path() / "share" / "mortise" / "models" / "demo";
  std::error_code error;
  return (fs::exists(installed, error) ? installed : fs::path(kSourceFolder) / "models" / "demo").string();
}

Words words_of(const PluginProject& project) {
  const bool vowel = project.kind.starts_with('a');
  return {{"NAME", project.name},
          {"KIND", project.kind},
          {"KIND_ARTICLE", (vowel ? "an " : "a ") + project.kind},
          {"LANGUAGE", project.language == ProjectLanguage::kC ? "C" : "CXX"},
          {"SOURCE", project.name + (project.language == ProjectLanguage::kC ? ".c" : ".cpp")},
          {"LINK", project.language == ProjectLanguage::kC ? " LINK m" : ""},
          {"ABI", fmt::format("{}.{}", MORTISE_ABI_MAJOR, MORTISE_ABI_MINOR)},
          {"VERSION", kVersion},
          {"DEMO", demo_model()}};
}

}  // namespace

fs::path templates_folder() {
  const fs::path installed = executable_folder().parent_path() / "share" / "mortise" / "templates";
  const fs::path source = fs::path(kSourceFolder) / "plugin_api" / "templates";
  for (const fs::path& folder : {installed, source}) {
    std::error_code error;
    if (fs::is_directory(folder / "project", error)) return folder;
  }
  fail("the plugin templates are neither in {} nor in {}; install Mortise again", installed.string(), source.string());
}

std::vector<fs::path> write_project(const PluginProject& project, const fs::path& templates) {
  check_kind(project.kind);
  check_name(project.name);
  check_folder(project.folder);
  Words words = words_of(project);
  Texts texts;
  const fs::path kind = templates / project.kind;
  read_templates(templates / "project", /*deep=*/true, words, texts);
  read_templates(kind, /*deep=*/false, words, texts);
  read_templates(kind / (project.language == ProjectLanguage::kC ? "c" : "cpp"), /*deep=*/true, words, texts);
  words["NOTES"] = replaced(read_text(kind / "notes.md"), words);
  for (auto& [path, text] : texts) text = replaced(std::move(text), words);

  std::error_code error;
  const bool existed = fs::exists(project.folder, error);
  try {
    write_texts(texts, project.folder);
  } catch (const Error&) {
    for (const auto& [path, text] : texts) fs::remove(project.folder / path, error);
    if (!existed) fs::remove_all(project.folder, error);
    throw;
  }
  std::vector<fs::path> written;
  for (const auto& [path, text] : texts) written.push_back(path);
  return written;
}

}  // namespace mortise
