// `meshwright plugins list|describe|check`: what is installed, what it understands, and whether a file would be
// accepted.
#pragma once

#include <string>
#include <vector>

namespace meshwright::host {

struct PluginsOptions {
  std::string config;            // whose [plugins] paths are searched too
  std::vector<std::string> set;  // "section.key=value"
  std::string subject;           // describe: ID or KIND/ID; check: a file
  std::string cases;             // check: of an op family; NAME.cases.txt beside the file if ""
  std::string format = "text";   // or "json"
};

// Each writes to standard output and returns the program's exit code (DESIGN §4).
// `list` reads text sections only; a plugin that this program would refuse is listed with the reason.
int list_plugins(const PluginsOptions& options);
// Loads the plugin. An id that several kinds have must be written KIND/ID.
int describe_plugin(const PluginsOptions& options);
// Goes through every check of the loader, including dlopen if the tag matches. An op family's cases are then executed,
// whole and sharded in every way that its rules allow; a rule that claims too much is refused with the assignment.
int check_plugin(const PluginsOptions& options);

// How many ops of PyTorch's core ATen opset, and of the composites that export keeps, an op family serves; and which are
// served by none, so that they would run replicated.
int count_coverage(const PluginsOptions& options);

}  // namespace meshwright::host
