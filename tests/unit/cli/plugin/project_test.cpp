// Covers: runtime/cli/plugin/new
#include "cli/plugin/project.hpp"

#include <algorithm>
#include <set>

#include "error.hpp"
#include "test_command.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

const std::set<std::string> kKinds = {"device", "model", "attention", "proposer", "scheduler"};

std::string text_of(const fs::path& file) {
  const auto bytes = read_bytes(file);
  return {bytes.begin(), bytes.end()};
}

std::string refusal(const PluginProject& project) {
  try {
    write_project(project);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(PluginProject, EveryKindHasAProjectInBothLanguages) {
  for (const std::string& kind : kKinds) {
    for (const ProjectLanguage language : {ProjectLanguage::kC, ProjectLanguage::kCxx}) {
      const TempFolder folder;
      const fs::path project = folder.path() / "deep" / "mine";
      const auto files = write_project({kind, "mine", language, project});
      const std::string source = language == ProjectLanguage::kC ? "mine.c" : "mine.cpp";
      for (const fs::path& file :
           {fs::path("CMakeLists.txt"), fs::path("CMakePresets.json"), fs::path("README.md"), fs::path(".gitignore"),
            fs::path(".github/workflows/check.yml"), fs::path("try.lua"), fs::path(source)}) {
        EXPECT_THAT(files, Contains(file)) << kind;
        EXPECT_TRUE(fs::is_regular_file(project / file)) << kind << " " << file;
      }
      for (const fs::path& file : files) {
        EXPECT_THAT(text_of(project / file), Not(testing::ContainsRegex("@[A-Z_]+@"))) << kind << " " << file;
      }
      EXPECT_THAT(text_of(project / "CMakeLists.txt"),
                  AllOf(HasSubstr("mortise_add_plugin(mine KIND " + kind + " SOURCES " + source),
                        HasSubstr(language == ProjectLanguage::kC ? "LANGUAGES C)" : "LANGUAGES CXX)")));
      EXPECT_THAT(text_of(project / source), HasSubstr("\"mine\"")) << kind;
    }
  }
}

TEST(PluginProject, ReadmeAndPipelineNameTheKindAndTheDemoModel) {
  const TempFolder folder;
  write_project({"attention", "mine", ProjectLanguage::kCxx, folder.path() / "x"});
  EXPECT_THAT(text_of(folder.path() / "x" / "README.md"), AllOf(HasSubstr("# mine: an attention for Mortise"),
                                                                HasSubstr("plugin ABI 0."), HasSubstr("MORTISE_LOG")));
  EXPECT_THAT(text_of(folder.path() / "x" / "try.lua"), HasSubstr("/models/demo\""));
}

TEST(PluginProject, AnEmptyFolderIsTakenAndAFullOneIsNot) {
  const TempFolder folder;
  EXPECT_EQ(refusal({"scheduler", "mine", ProjectLanguage::kC, folder.path()}), "");
  EXPECT_THAT(refusal({"scheduler", "mine", ProjectLanguage::kC, folder.path()}),
              HasSubstr("exists already; remove it, or give another folder with --dir"));
}

TEST(PluginProject, KindsAndNamesThatCannotBeAreRefusedWithTheWayOut) {
  const TempFolder folder;
  const auto with = [&](const char* kind, const char* name) {
    return refusal({kind, name, ProjectLanguage::kCxx, folder.path() / "x"});
  };
  EXPECT_THAT(with("schedular", "mine"),
              HasSubstr("there is no kind of plugin 'schedular'; did you mean 'scheduler'?"));
  EXPECT_THAT(with("gpu", "mine"), HasSubstr("there are: device, model, attention, proposer, scheduler"));
  for (const char* name : {"", "Mine", "9lives", "my-policy", "a/b", "_x"}) {
    EXPECT_THAT(with("scheduler", name), HasSubstr("a name must begin with a lower-case letter")) << name;
  }
  for (const char* name : {"test", "end"}) {  // a target of CMake's; a word of Lua
    EXPECT_THAT(with("scheduler", name), HasSubstr("which has a meaning of its own in Lua or CMake; try 'my_")) << name;
  }
  EXPECT_FALSE(fs::exists(folder.path() / "x"));
}

TEST(PluginProject, NothingIsLeftOfAProjectThatCannotBeWritten) {
  const TempFolder folder;
  write_text(folder.path() / "file", "");
  EXPECT_THAT(refusal({"scheduler", "mine", ProjectLanguage::kC, folder.path() / "file" / "x"}),
              HasSubstr("cannot be written; is the disk full, or is writing there not allowed?"));
}

TEST(PluginProject, MissingTemplatesAreAnError) {
  const TempFolder folder;
  fs::create_directories(folder.path() / "bin");
  for (const char* part : {"project", "scheduler/c"}) fs::create_directories(folder.path() / part);
  try {
    write_project({"scheduler", "mine", ProjectLanguage::kC, folder.path() / "x"}, folder.path());
    FAIL() << "a kind without notes.md";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the template cannot be read; install Mortise again"));
  }
}

TEST(PluginProject, TheCommandListsTheFilesAndSaysWhatIsNext) {
  const TempFolder folder;
  const std::string project = (folder.path() / "x").string();
  const Outcome outcome = run_program(MORTISE, "plugin new proposer mine --c --dir " + project);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr(project + "/CMakeLists.txt\n"), HasSubstr(project + "/mine.c\n")));
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("next: cd " + project), HasSubstr("ctest --preset release\n")));
}

TEST(PluginProject, TheCommandTurnsARefusalIntoAnErrorLine) {
  const Outcome outcome = run_program(MORTISE, "plugin new sheduler mine");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(is_error_line(outcome.err)) << outcome.err;
  EXPECT_EQ(run_program(MORTISE, "plugin new scheduler").exit_code, 2);
}

}  // namespace
}  // namespace mortise
