// Covers: runtime/loader/{component,private_copy}
#include "loader/plugin_file.hpp"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>

#include "test_support.hpp"
#include "variables.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string refusal(const fs::path& path) {
  return error_of([&] { load_plugin_file(path); });
}

TEST(PluginFile, TellsWhatTheModuleSays) {
  const PluginFile& file = load_plugin_file(good("toy_device"));
  EXPECT_EQ(file.id, "test.parts");
  EXPECT_EQ(file.version, "1.2.3");
  ASSERT_EQ(file.components.size(), 5u);
  const Component& attention = file.components[2];
  EXPECT_EQ(attention.kind, PartKind::kAttention);
  EXPECT_EQ(attention.label(), "attention 'toy_attention'");
  EXPECT_EQ(attention.numerics_id, "toy/1");
  EXPECT_THAT(capability_words(attention.capabilities), testing::ElementsAre("exact", "multi_query"));
  EXPECT_EQ(attention.schema.options().at(0).name, "block_size");
}

TEST(PluginFile, FilesThatAreNoneAreRefusedWithTheirName) {
  const TempFolder dir;
  EXPECT_EQ(refusal(dir.path() / "none.so"), (dir.path() / "none.so").string() + ": no such file");
  EXPECT_THAT(refusal(dir.path()), HasSubstr("is a folder; name the plugin file in it"));
  write_text(dir.path() / "empty.so", "");
  EXPECT_THAT(refusal(dir.path() / "empty.so"), HasSubstr("is empty; build it again"));
  write_text(dir.path() / "large.so", "x");
  fs::resize_file(dir.path() / "large.so", std::uintmax_t{1} << 40);  // sparse: takes no room
  EXPECT_THAT(refusal(dir.path() / "large.so"), HasSubstr("has 1099511627776 bytes; a plugin has at most 2147483648"));
  fs::create_symlink("loop.so", dir.path() / "loop.so");
  EXPECT_THAT(refusal(dir.path() / "loop.so"), HasSubstr("cannot be examined: Too many levels of symbolic links"));
  write_text(dir.path() / "text.so", "no plugin at all");
  EXPECT_THAT(refusal(dir.path() / "text.so"), HasSubstr("is not an ELF file"));
  ASSERT_EQ(::mkfifo((dir.path() / "pipe.so").c_str(), 0600), 0);
  EXPECT_THAT(refusal(dir.path() / "pipe.so"), HasSubstr("not a regular file"));  // a hang: it was opened
  if (::geteuid() != 0) {                                                         // root reads everything
    fs::copy_file(good("lively"), dir.path() / "secret.so");
    fs::permissions(dir.path() / "secret.so", fs::perms::none);
    EXPECT_THAT(refusal(dir.path() / "secret.so"), HasSubstr("cannot be read"));
  }
}

TEST(PluginFile, AWrongPinIsRefusedBeforeTheFileIsLookedAt) {
  const TempFolder dir;
  write_text(dir.path() / "abc.so", "abc");  // the example of FIPS 180-2
  const std::string sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  const auto pinned = [&](const std::string& pin) {
    return error_of([&] { load_pinned_plugin_file(dir.path() / "abc.so", pin); });
  };
  EXPECT_THAT(pinned(sha256),
              HasSubstr("abc.so: is not an ELF file"));  // "not the pinned": the hash is another function
  EXPECT_THAT(pinned(std::string(64, '0')), HasSubstr("abc.so: has the SHA-256 " + sha256 + ", not the pinned 0000"));
  for (const std::string& pin : {std::string(), sha256.substr(1), sha256 + "0", std::string(64, 'A')}) {
    EXPECT_THAT(pinned(pin), HasSubstr("is pinned by \"" + pin + "\", which is not a SHA-256"));
  }
}

TEST(PluginFile, AnotherMajorIsRefusedWithTheNumbers) {
  EXPECT_THAT(refusal(bad("wrong_major")), AllOf(StartsWith(bad("wrong_major").string()),
                                                 HasSubstr("plugin ABI major 7"), HasSubstr("accepts major 0")));
}

TEST(PluginFile, AMinorOutsideOfTheHostsRangeIsRefusedWithTheNumbers) {
  const std::string range = fmt::format("accepts 0.{} to 0.{}; ", MORTISE_ABI_OLDEST_MINOR, MORTISE_ABI_MINOR);
  EXPECT_THAT(refusal(bad("newer_minor")), AllOf(HasSubstr(fmt::format("plugin ABI 0.{}", MORTISE_ABI_MINOR + 1)),
                                                 HasSubstr(range + "install a newer mortise")));
  EXPECT_THAT(
      refusal(bad("older_minor")),
      AllOf(HasSubstr(fmt::format("plugin ABI 0.{}", MORTISE_ABI_OLDEST_MINOR - 1)), HasSubstr(range + "rebuild it")));
  EXPECT_EQ(load_plugin_file(bad("oldest_minor")).components.size(), 2u);
}

TEST(PluginFile, WrongSymbolSetsAreRefusedWithTheSymbol) {
  EXPECT_THAT(refusal(bad("no_entry")),
              HasSubstr("is not a mortise plugin: it does not export mortise_plugin_entry_v0"));
  EXPECT_THAT(refusal(bad("extra_symbols")),
              AllOf(HasSubstr("exports 1 symbol besides its entry (helper_that_should_be_hidden)"),
                    HasSubstr("version script")));
  EXPECT_THAT(refusal(bad("unique_symbol")), AllOf(HasSubstr("GNU unique"), HasSubstr("-fno-gnu-unique")));
}

TEST(PluginFile, SymbolsThatOnlyTheLoaderMissesAreNamed) {
  // Exports are right here, so the message is dlopen's, with the plugin's own name and not the private copy's.
  const std::string_view expected =
      ": cannot be loaded: undefined symbol: function_that_nobody_defines; link it with -Wl,-z,defs to find all of "
      "them";
  const fs::path built = bad("hidden_undefined_symbol");
  EXPECT_EQ(refusal(built), built.string().append(expected));
  // The same beside the private copies, in a folder whose name begins as theirs do: mortise-test-...
  const TempFolder clone;
  const fs::path plugin = clone.path() / "hidden.so";
  fs::copy_file(built, plugin);
  EXPECT_EQ(refusal(plugin), plugin.string().append(expected));
}

TEST(PluginFile, MalformedModulesAreRefusedWithWhatIsWrong) {
  const std::map<std::string, std::string> cases = {
      {"null_module", "returned NULL"},
      {"tiny_module", "too short to hold a version"},
      {"short_module", "bytes, but at least 56 are needed; set struct_size to"},
      {"null_id", "without id, vendor, version or license"},
      {"no_components", "describes a module with 0 components; 1 to 64 are allowed"},
      {"wild_components", "1048576 components"},
      {"null_component", "component 1 is NULL"},
      {"short_component", "component 1 has a struct_size of"},
      {"unknown_kind", "unknown kind 77"},
      {"null_name", "component 1 (scheduler) has no name"},
      {"null_summary", "scheduler 'bad' has no summary"},
      {"bad_name", "scheduler 'Bad-Name': a name must begin with a letter"},
      {"no_table", "scheduler 'bad' has no table"},
      {"missing_slot", "lacks the function 'plan'"},
      {"short_table", "lacks the function 'plan'"},
      {"unsized_table", "has a table with a struct_size of 0; set it to sizeof(mortise_scheduler_table)"},
      {"no_create", "lacks supports, create or destroy"},
      {"half_active", "only one of activate and deactivate"},
      {"twice", "registers scheduler 'good' twice"},
      {"no_schema", "has no options schema"},
      {"schema_no_json", "the options schema of scheduler 'bad' cannot be read"},
      {"schema_no_object", "does not have \"type\": \"object\""},
      {"schema_no_default", "property 'x' is optional but has no default"},
      {"schema_no_title", "property 'x' has no title"},
      {"schema_bad_default", "has the default \"one\", which the schema itself"},
      {"schema_ref", "\"$ref\""},
      {"schema_bad_type", "the options schema of scheduler 'bad'"},
      {"schema_too_large", "scheduler 'bad' has an options schema of more than 1 MiB"},
  };
  for (const auto& [name, text] : cases) {
    EXPECT_THAT(refusal(bad(name)), AllOf(StartsWith(bad(name).string() + ": "), HasSubstr(text))) << name;
  }
}

TEST(PluginFile, TheSameBytesShareOneImageUnderAnyName) {
  const TempFolder dir;
  const PluginFile& first = load_plugin_file(good("lively"));
  fs::copy_file(good("lively"), dir.path() / "other.so");
  const PluginFile& second = load_plugin_file(dir.path() / "other.so");
  EXPECT_EQ(first.hash, second.hash);
  EXPECT_EQ(first.components[0].abi, second.components[0].abi);  // differs: the file was loaded twice
  EXPECT_EQ(second.components[0].file, dir.path() / "other.so");
  EXPECT_EQ(&load_plugin_file(good("lively")), &first);
}

// A rebuild replaces the file under the path of a plugin that runs: by rename, or by writing over it.
TEST(PluginFile, AFileThatChangedUnderItsNameIsANewPluginBesideTheOld) {
  const TempFolder dir;
  const fs::path path = dir.path() / "part.so";
  fs::copy_file(good("twin-left"), path);
  const PluginFile& before = load_plugin_file(path);
  write_bytes(path, read_bytes(good("twin-right")));  // in place: would kill a process that had mapped it
  const PluginFile& after = load_plugin_file(path);
  EXPECT_EQ(before.id, "test.twin.left_device");
  EXPECT_EQ(after.id, "test.twin.right_device");  // left: the old image came back
  mortise_query query{};
  query.struct_size = sizeof query;
  query.device = "left_device";
  EXPECT_EQ(before.components[0].refusal(query), std::nullopt);  // the old code still answers
  EXPECT_THAT(after.components[0].refusal(query).value_or(""), HasSubstr("this twin needs right_device"));
}

TEST(PluginFile, NoCopyIsLeftBehind) {
  const TempFolder dir;
  test::set_variable("TMPDIR", dir.path().string());
  write_bytes(dir.path() / "source.bin", read_bytes(good("twin-left")));
  load_plugin_file(good("twin-right"));
  fs::rename(dir.path() / "source.bin", dir.path() / "twin.so");
  load_plugin_file(dir.path() / "twin.so");
  test::set_variable("TMPDIR", std::nullopt);
  int files = 0;
  for (const auto& entry : fs::directory_iterator(dir.path())) files += entry.path().extension() == ".so" ? 1 : 0;
  EXPECT_EQ(files, 1);  // 2: the private copy stayed
}

TEST(PluginFile, CopiesAreKeptWhereTheVariableSays) {
  const TempFolder dir;
  const TempFolder copies;
  auto bytes = read_bytes(good("lively"));
  bytes.push_back('\0');  // other bytes, so a new image
  write_bytes(dir.path() / "padded.so", bytes);
  test::set_variable("MORTISE_PLUGIN_COPIES", copies.path().string());
  load_plugin_file(dir.path() / "padded.so");
  test::set_variable("MORTISE_PLUGIN_COPIES", std::nullopt);
  ASSERT_FALSE(fs::is_empty(copies.path()));
  EXPECT_EQ(read_bytes(fs::directory_iterator(copies.path())->path()), bytes);
}

TEST(PluginFile, AFolderThatCannotBeWrittenIsNamed) {
  const TempFolder dir;
  auto bytes = read_bytes(good("lively"));
  bytes.insert(bytes.end(), 2, '\0');
  write_bytes(dir.path() / "padded.so", bytes);
  test::set_variable("TMPDIR", (dir.path() / "missing").string());
  const std::string text = refusal(dir.path() / "padded.so");
  test::set_variable("TMPDIR", std::nullopt);
  EXPECT_THAT(text, AllOf(HasSubstr("cannot make a private copy in"), HasSubstr("MORTISE_PLUGIN_COPIES")));
}

}  // namespace
}  // namespace mortise
