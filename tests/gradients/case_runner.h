// Turns a case into a graph with a loss, and opens the op families as the program does.
#pragma once

#include <map>
#include <memory>

#include "meshwright/interpret.h"
#include "meshwright/training_graph.h"
#include "op_case.h"
#include "plugins/plugin_host.h"

namespace meshwright::test {

Result<host::PluginHost> open_host(std::vector<std::string> overrides = {});
std::unique_ptr<OpTable> open_ops();

// Those in plugins/ops that have a cases.txt, and what is in it.
std::vector<std::string> families_with_cases();
std::vector<OpCase> read_cases(const std::string& family);

}  // namespace meshwright::test
