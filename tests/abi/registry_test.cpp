// Search order, duplicates, creation, and the op families' claims, with real libraries.
#include <gtest/gtest.h>

#include <cstdlib>

#include "config/config_schema.h"
#include "config/toml_config.h"
#include "fixture_folder.h"
#include "meshwright/op.h"
#include "plugins/plugin_host.h"
#include "plugins/plugin_registry.h"
#include "plugins/program_source.h"

namespace meshwright::host {
namespace {

PluginRegistry registry_of(const std::vector<std::string>& paths) {
  Result<PluginRegistry> registry = PluginRegistry::discover_in(paths);
  EXPECT_TRUE(registry.ok()) << registry.error().message;
  return registry ? std::move(*registry) : PluginRegistry();
}

std::string creation_failure(const std::string& folder) {
  PluginRegistry registry = registry_of({fixture(folder)});
  const auto object = registry.create<int>("fixture", "bad_create", Config());
  return object ? "created" : object.error().message;
}

Result<PluginHost> open_host(const std::string& toml) {
  Result<ConfigTree> tree = parse_config(toml, "", {});
  if (!tree) return tree.error();
  return PluginHost::open(std::move(*tree));
}

TEST(Registry, ListsInOrderWithoutLoading) {
  const PluginRegistry registry = registry_of({fixture("good")});
  ASSERT_EQ(registry.list().size(), 2U);
  EXPECT_EQ(registry.list()[0].id, "better");
  EXPECT_EQ(registry.list()[1].id, "good");
  EXPECT_EQ(registry.list()[1].kind, "fixture");
  EXPECT_EQ(registry.list()[1].version, "1.0.0");
  EXPECT_EQ(registry.list()[1].description, "Holds a number");
  EXPECT_EQ(registry.list()[1].tag, host_tag(registry.list()[1].kind));
  EXPECT_EQ(registry.list()[1].path, fixture("good/good.so"));
  EXPECT_TRUE(registry.notices().empty());
}

TEST(Registry, TheFirstOfANameWinsAndTheOtherIsReported) {
  const PluginRegistry registry = registry_of({fixture("duplicate"), fixture("good")});
  EXPECT_EQ((*registry.find("fixture", "good"))->version, "2.0.0");
  ASSERT_EQ(registry.notices().size(), 1U);
  EXPECT_EQ(without_folder(registry.notices()[0].message),
            "good/good.so: not used, because plugin \"good\" of kind \"fixture\" was found first at duplicate/good.so");
}

TEST(Registry, TheSameFolderTwiceIsNoDuplicate) {
  const PluginRegistry registry = registry_of({fixture("good"), fixture("good/../good"), fixture("good/good.so")});
  EXPECT_EQ(registry.list().size(), 2U);
  EXPECT_TRUE(registry.notices().empty());
}

TEST(Registry, SearchesFoldersOfKindsAndTheEnvironmentAfterTheConfiguration) {
  ::setenv("MESHWRIGHT_PLUGIN_PATH", (fixture("good") + "::" + fixture("ops")).c_str(), 1);
  const Result<PluginRegistry> registry = PluginRegistry::discover({fixture("duplicate")});
  ::unsetenv("MESHWRIGHT_PLUGIN_PATH");
  ASSERT_TRUE(registry.ok());
  EXPECT_EQ((*registry->find("fixture", "good"))->version, "2.0.0");
  EXPECT_TRUE(registry->find("fixture", "better").ok());
  EXPECT_TRUE(registry->find("ops", "first").ok());
  const PluginRegistry nested = registry_of({FIXTURES});
  EXPECT_TRUE(nested.find("ops", "first").ok());
}

TEST(Registry, APathThatIsNotThereIsAnError) {
  EXPECT_EQ(PluginRegistry::discover_in({"/no/such/folder"}).error().message,
            "plugin path /no/such/folder: there is no such file or folder");
}

TEST(Registry, AnUnknownNameIsRefusedWithTheNearest) {
  const PluginRegistry registry = registry_of({fixture("good")});
  EXPECT_EQ(registry.find("fixture", "goood").error().message,
            "no plugin of kind \"fixture\" is named \"goood\"; did you mean \"good\"?");
  EXPECT_EQ(registry.find("fixture", "elimination").error().message,
            "no plugin of kind \"fixture\" is named \"elimination\"; known are \"better\", \"good\"");
  EXPECT_EQ(registry.find("intra", "good").error().message,
            "no plugin of kind \"intra\" is named \"good\"; there are none");
}

TEST(Registry, AFileOfThatNameThatIsNoPluginIsMentioned) {
  const TemporaryFolder folder;
  const std::string path = folder.write("tap.so", "not a library");
  EXPECT_EQ(registry_of({folder.path("")}).find("intra", "tap").error().message,
            "no plugin of kind \"intra\" is named \"tap\"; there are none; note " + path +
                ": not an ELF file, so not a plugin");
}

TEST(Registry, CreatesAnObjectFromItsConfiguration) {
  PluginRegistry registry = registry_of({fixture("good")});
  const Result<const meshwright_plugin_v1*> plugin = registry.load("fixture", "good");
  ASSERT_TRUE(plugin.ok());
  const Result<Config> config = check_section(*parse_config("", "", {}), "fixture.good", schema_of(**plugin));
  const auto object = registry.create<int>("fixture", "good", *config);
  ASSERT_TRUE(object.ok());
  EXPECT_EQ(**object, 41);
  EXPECT_EQ(*registry.load("fixture", "good"), *plugin) << "a library is loaded once";
}

TEST(Registry, AFailedCreationSaysWhoAndWhy) {
  const std::string who = "plugin \"bad_create\" of kind \"fixture\"";
  EXPECT_EQ(creation_failure("create_throws"), who + " threw while it was created: no licence server");
  EXPECT_EQ(creation_failure("create_throws_int"),
            who + " threw something that is no std::exception while it was created");
  EXPECT_EQ(creation_failure("create_null"), who + " could not be created: it gives no reason");
  EXPECT_EQ(creation_failure("create_says_why"), who + " could not be created: number must be even");
}

TEST(Host, TwoFamiliesForOneOpAreAnErrorUntilTheConfigurationChooses) {
  const std::string paths = "[plugins]\npaths = [\"" + fixture("ops") + "\"]\n";
  Result<PluginHost> host = open_host(paths);
  ASSERT_TRUE(host.ok()) << host.error().message;
  EXPECT_EQ(host->op_table().error().message,
            "the op families \"first\" and \"second\" both serve \"fixture.shared\"; choose one in the configuration: "
            "[ops] \"fixture.shared\" = \"first\"");
  Result<PluginHost> settled = open_host(paths + "[ops]\n\"fixture.shared\" = \"second\"\n");
  ASSERT_TRUE(settled.ok());
  const auto table = settled->op_table();
  ASSERT_TRUE(table.ok()) << table.error().message;
  ASSERT_NE((*table)->find("fixture.shared"), nullptr);
  EXPECT_EQ((*table)->find("fixture.shared"), (*table)->find("fixture.second"));
  EXPECT_NE((*table)->find("fixture.shared"), (*table)->find("fixture.first"));
  EXPECT_EQ((*table)->find("aten.no_such_op"), nullptr);
}

TEST(Host, TwoEmittersForOneOpAreAnError) {
  Result<PluginHost> host = open_host("[plugins]\npaths = [\"" + fixture("emitters") + "\"]\n");
  ASSERT_TRUE(host.ok()) << host.error().message;
  EXPECT_EQ(emitters_for(*host, "fixture").error().message,
            "the emitters \"first\" and \"second\" both serve fixture:shared; leave one of them out of the plugins' folders");
  const auto table = emitters_for(*host, "other");
  ASSERT_TRUE(table.ok()) << table.error().message;
  EXPECT_NE((*table)->find("first"), nullptr);
  EXPECT_NE((*table)->find("first"), (*table)->find("second"));
  EXPECT_EQ((*table)->find("shared"), nullptr);
}

TEST(Host, ConfiguresAPluginByItsSection) {
  const std::string paths = "[plugins]\npaths = [\"" + fixture("frontends") + "\"]\n";
  Result<PluginHost> host = open_host(paths + "[frontend.reader]\nnumber = 5\n");
  ASSERT_TRUE(host.ok()) << host.error().message;
  const auto object = host->create<int>("frontend", "reader");
  ASSERT_TRUE(object.ok()) << object.error().message;
  EXPECT_EQ(**object, 5);
  Result<PluginHost> wrong = open_host(paths + "[frontend.reader]\nnumbr = 5\n");
  ASSERT_TRUE(wrong.ok());
  EXPECT_EQ(wrong->create<int>("frontend", "reader").error().message,
            ":4: unknown key \"numbr\" in [frontend.reader]; did you mean \"number\"?");
}

TEST(Host, TheModelsSuffixChoosesTheFrontendUnlessTheConfigurationDoes) {
  const std::string paths = "[plugins]\npaths = [\"" + fixture("frontends") + "\"]\n";
  Result<PluginHost> host = open_host(paths);
  ASSERT_TRUE(host.ok()) << host.error().message;
  EXPECT_EQ(*host->frontend_for("a/model.fixture"), "reader");
  EXPECT_EQ(host->frontend_for("model.fixtur").error().message,
            "model.fixtur: no frontend reads files with the suffix \".fixtur\"; did you mean \".fixture\"?");
  Result<PluginHost> named = open_host(paths + "[model]\nfrontend = \"other\"\n");
  ASSERT_TRUE(named.ok());
  EXPECT_EQ(*named->frontend_for("a/model.fixture"), "other");
}

TEST(Host, ASectionOfAnUnknownPluginIsRefused) {
  const std::string paths = "[plugins]\npaths = [\"" + fixture("ops") + "\"]\n";
  EXPECT_EQ(open_host(paths + "[ops.frist]\nx = 1\n").error().message,
            ":3: section [ops.frist] configures no plugin that exists; did you mean \"first\"?");
  EXPECT_EQ(open_host(paths + "[ops]\naten.add = \"first\"\n").error().message,
            ":4: section [ops.aten] names no op family; if it was meant as an op's name, put that in quotes: "
            "\"aten.add.Tensor\" = \"family\"");
}

}  // namespace
}  // namespace meshwright::host
