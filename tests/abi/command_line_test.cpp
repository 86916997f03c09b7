// The program as a user meets it: what it prints, where, and its exit code.
#include <gtest/gtest.h>

#include "files/json.h"
#include "fixture_folder.h"
#include "run_program.h"

namespace meshwright::host {
namespace {

using test::Outcome;

Outcome run(const std::string& arguments) {
  Outcome outcome = test::run_program(arguments);
  outcome.errors = without_folder(outcome.errors);
  return outcome;
}

std::string with_paths(const std::string& folder) { return " --set 'plugins.paths=[\"" + fixture(folder) + "\"]'"; }

TEST(CommandLine, VersionAndHelpAreNoErrors) {
  EXPECT_EQ(run("--version").output, "meshwright 0.1.0\n");
  EXPECT_EQ(run("--version").exit_code, 0);
  EXPECT_EQ(run("plugins list --help").exit_code, 0);
}

TEST(CommandLine, WrongUsageIsTwo) {
  for (const char* arguments :
       {"", "plann", "plugins", "plugins describe", "plugins list --format yaml", "plugins list --no-such-option"}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_EQ(outcome.output, "") << arguments;
    EXPECT_NE(outcome.errors, "") << arguments;
  }
}

TEST(CommandLine, ListNamesEveryPluginAndWhyOneWouldBeRefused) {
  const Outcome text = run("plugins list" + with_paths("bad"));
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_NE(text.output.find("fixture"), std::string::npos);
  EXPECT_NE(text.output.find("refused: "), std::string::npos);
  const Outcome listed = run("plugins list --format json" + with_paths("good"));
  const Result<Json> json = parse_json(listed.output, "output");
  ASSERT_TRUE(json.ok());
  const auto& plugins = std::get<Json::Array>(json->find("plugins")->value());
  bool found = false;
  for (const Json& plugin : plugins) {
    if (std::get<std::string>(plugin.find("id")->value()) != "better") continue;
    found = true;
    EXPECT_TRUE(std::get<bool>(plugin.find("matches")->value()));
    EXPECT_EQ(std::get<std::string>(plugin.find("version")->value()), "1.0.0");
  }
  EXPECT_TRUE(found);
}

TEST(CommandLine, DescribeShowsHowToConfigure) {
  const Outcome text = run("plugins describe fixture/good" + with_paths("good"));
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_NE(text.output.find("[fixture.good]\nnumber = 41  # what the object holds (integer)\n"), std::string::npos)
      << text.output;
  const Outcome unknown = run("plugins describe goood" + with_paths("good"));
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_EQ(unknown.errors, "meshwright: error: no plugin is named \"goood\"; did you mean \"good\"?\n");
}

TEST(CommandLine, CheckSaysWhatTheLoaderWouldSay) {
  EXPECT_EQ(run("plugins check " + fixture("good/good.so")).exit_code, 0);
  const Outcome refused = run("plugins check " + fixture("bad/descriptor_null.so"));
  EXPECT_EQ(refused.exit_code, 4);
  EXPECT_EQ(refused.errors, "meshwright: error: bad/descriptor_null.so: its function meshwright_plugin returns null\n");
  EXPECT_EQ(run("plugins check /no/such.so").exit_code, 2);
  const Outcome json = run("plugins check --format json " + fixture("bad/tag_kernel.so"));
  EXPECT_EQ(json.exit_code, 4);
  const Result<Json> parsed = parse_json(json.output, "output");
  ASSERT_TRUE(parsed.ok());
  EXPECT_FALSE(std::get<bool>(parsed->find("accepted")->value()));
}

TEST(CommandLine, ResultsThatCannotBeWrittenAreAnError) {
  const Outcome outcome = run("plugins list >/dev/full");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.errors, "meshwright: error: the results can't be written to standard output\n");
}

TEST(CommandLine, AWrongConfigurationIsTwo) {
  const Outcome outcome = run("plugins list --set serch.intra=x");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.errors,
            "meshwright: error: --set serch.intra=x: unknown section [serch]; did you mean \"search\"?\n");
}

}  // namespace
}  // namespace meshwright::host
