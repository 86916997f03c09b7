// Each way in which a plugin file can be bad, and the exact sentence that refuses it. Every file goes through the
// checks in the order in which the registry applies them; none may crash the process.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ostream>

#include "fixture_folder.h"
#include "meshwright/abi_tag.h"
#include "plugins/plugin_info.h"
#include "plugins/plugin_library.h"

namespace meshwright::host {
namespace {

Error refusal(const std::string& path) {
  const Result<PluginInfo> info = read_plugin_info(path);
  if (!info) return info.error();
  const Result<const meshwright_plugin_v1*> plugin = load_plugin(*info);
  if (!plugin) return plugin.error();
  return {ErrorCode::internal, "accepted"};
}

std::string sentence(const std::string& name) { return without_folder(refusal(fixture(name)).message); }

TEST(Refusal, AGoodPluginIsAccepted) { EXPECT_EQ(sentence("good/good.so"), "accepted"); }

TEST(Refusal, TheTextSection) {
  EXPECT_EQ(
      sentence("bad/section_none.so"),
      "bad/section_none.so: has no section .meshwright.plugin, so not a plugin; build it with MESHWRIGHT_PLUGIN of "
      "meshwright/plugin.h");
  for (const std::string name : {"bad/section_empty.so", "bad/section_other.so", "bad/section_twice.so"}) {
    EXPECT_EQ(sentence(name), name +
                                  ": the section .meshwright.plugin does not hold exactly one plugin's kind, id, "
                                  "version, description and tag; use MESHWRIGHT_PLUGIN once");
  }
}

struct TagCase {
  std::string field;
  std::string theirs;
  std::string ours;
  std::string remedy;

  // Without it GoogleTest prints the bytes, which ctest then takes for a part of the name.
  friend void PrintTo(const TagCase& tag, std::ostream* out) { *out << tag.field; }
};

class RefusalByTag : public testing::TestWithParam<TagCase> {};

TEST_P(RefusalByTag, NamesTheFieldAndBothValuesAndDoesNotLoad) {
  ::unsetenv("MESHWRIGHT_FIXTURE_LOADED");
  const std::string name = "bad/tag_" + GetParam().field + ".so";
  EXPECT_EQ(sentence(name), name + ": the plugin was built with " + GetParam().field + " \"" + GetParam().theirs +
                                "\", but this meshwright with \"" + GetParam().ours + "\"; rebuild the plugin " +
                                GetParam().remedy);
  EXPECT_EQ(refusal(fixture(name)).code, ErrorCode::plugin_failed);
  EXPECT_EQ(std::getenv("MESHWRIGHT_FIXTURE_LOADED"), nullptr) << "the library was loaded before its tag was checked";
}

std::string sanitizer_remedy() {
  const std::string ours = MESHWRIGHT_SANITIZER;
  return ours == "none" ? "without a sanitizer" : "with the " + ours + " sanitizer";
}

std::string debug_remedy() {
  return std::string(MESHWRIGHT_STDLIB_DEBUG == std::string("on") ? "with" : "without") + " _GLIBCXX_DEBUG";
}

INSTANTIATE_TEST_SUITE_P(
    EachField, RefusalByTag,
    testing::Values(
        TagCase{"compiler", "other-99", MESHWRIGHT_COMPILER, "with " MESHWRIGHT_COMPILER},
        TagCase{"standard", "c++17", MESHWRIGHT_STANDARD, "as " MESHWRIGHT_STANDARD},
        TagCase{"stdlib", "libstdcxx-older", MESHWRIGHT_STDLIB, "against " MESHWRIGHT_STDLIB},
        TagCase{"stdlib_debug", "unheard-of", MESHWRIGHT_STDLIB_DEBUG, debug_remedy()},
        TagCase{"sanitizer", "unheard-of", MESHWRIGHT_SANITIZER, sanitizer_remedy()},
        TagCase{"kernel", "9.9.9", MESHWRIGHT_KERNEL_VERSION, "against meshwright " MESHWRIGHT_KERNEL_VERSION},
        TagCase{"headers", "0123456789abcdef", MESHWRIGHT_HEADERS_HASH, "against the headers of this meshwright"}),
    [](const testing::TestParamInfo<TagCase>& tag) { return tag.param.field; });

TEST(Refusal, ATagWithMoreFieldsThanOurs) {
  EXPECT_EQ(
      check_tag("x.so", "compiler=gcc-12 libc=musl", "compiler=gcc-12").error().message,
      "x.so: the plugin's tag \"compiler=gcc-12 libc=musl\" says more than this meshwright's \"compiler=gcc-12\"; "
      "rebuild the plugin against the headers of this meshwright");
  EXPECT_EQ(check_tag("x.so", "standard=c++20", "compiler=gcc-12 standard=c++20").error().message,
            "x.so: the plugin was built with compiler \"nothing\", but this meshwright with \"gcc-12\"; rebuild the "
            "plugin with gcc-12");
}

TEST(Refusal, AnUndefinedSymbol) {
  EXPECT_EQ(sentence("bad/undefined_symbol.so"),
            "bad/undefined_symbol.so: the system can't load it (undefined symbol: "
            "meshwright_fixture_function_that_nobody_has); link the plugin against everything it uses");
}

TEST(Refusal, TheExportedFunction) {
  EXPECT_EQ(sentence("bad/descriptor_symbol.so"),
            "bad/descriptor_symbol.so: exports no function meshwright_plugin; build it with add_plugin()");
  EXPECT_EQ(sentence("bad/descriptor_null.so"), "bad/descriptor_null.so: its function meshwright_plugin returns null");
}

TEST(Refusal, TheDescriptor) {
  const std::string rebuild = "; rebuild the plugin against the headers of this meshwright";
  const std::string macro = "; write both with MESHWRIGHT_PLUGIN";
  EXPECT_EQ(
      sentence("bad/descriptor_magic.so"),
      "bad/descriptor_magic.so: the plugin's magic number is 0x1234, not 0x746867697277686d; write its descriptor "
      "with MESHWRIGHT_PLUGIN");
  EXPECT_EQ(sentence("bad/descriptor_abi_version.so"),
            "bad/descriptor_abi_version.so: the plugin has ABI version 2, but this meshwright has 1" + rebuild);
  EXPECT_EQ(sentence("bad/descriptor_struct_size.so"),
            "bad/descriptor_struct_size.so: the plugin's descriptor has 8 bytes, but version 1 has 104" + rebuild);
  EXPECT_EQ(sentence("bad/descriptor_licence.so"),
            "bad/descriptor_licence.so: the plugin's descriptor has no licence; every plugin must state it");
  EXPECT_EQ(sentence("bad/descriptor_tag.so"),
            "bad/descriptor_tag.so: the plugin's abi_tag is \"" MESHWRIGHT_ABI_TAG
            "\" in the section .meshwright.plugin, but \"compiler=other\" in its descriptor" +
                macro);
  EXPECT_EQ(sentence("bad/descriptor_kind.so"),
            "bad/descriptor_kind.so: the plugin's kind is \"fixture\" in the section .meshwright.plugin, but \"other\" "
            "in its descriptor" +
                macro);
  EXPECT_EQ(sentence("bad/descriptor_id.so"),
            "bad/descriptor_id.so: the plugin's id is \"bad\" in the section .meshwright.plugin, but \"other\" in its "
            "descriptor" +
                macro);
  EXPECT_EQ(sentence("bad/descriptor_create.so"),
            "bad/descriptor_create.so: the plugin's descriptor has no create or no destroy function");
  EXPECT_EQ(
      sentence("bad/descriptor_schema.so"),
      "bad/descriptor_schema.so: key 0 of the plugin's configuration schema lacks a name, a unit or a doc, or has "
      "an unknown type");
}

TEST(Refusal, FilesThatAreNoLibrary) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text.so", "#!/bin/sh\n");
  EXPECT_EQ(refusal(text).message, text + ": not an ELF file, so not a plugin");
  const std::string empty = folder.write("empty.so", "");
  EXPECT_EQ(refusal(empty).message, empty + ": not an ELF file, so not a plugin");
  EXPECT_EQ(refusal(folder.path("none.so")).message, folder.path("none.so") + ": there is no such file");
  EXPECT_EQ(refusal(folder.path("none.so")).code, ErrorCode::bad_input);
  EXPECT_EQ(refusal(folder.path("")).message, folder.path("") + ": not a regular file");
}

}  // namespace
}  // namespace meshwright::host
