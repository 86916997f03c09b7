#include "meshwright/frontend.h"

#include <filesystem>

#include "tensor/guarded.h"

namespace meshwright {

Frontend::~Frontend() = default;

namespace {

// A pipe never ends, or never begins. That there is no file at all is the frontend's to say.
Status check_file(const std::string& path) {
  std::error_code failure;
  const std::filesystem::file_status status = std::filesystem::status(path, failure);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return Done{};
  return bad_input(path + ": is no regular file; a model is read from one");
}

// Ops that the planner puts into graphs by itself, which nothing else checks.
Status check_ops(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    if (node.op.starts_with("meshwright.")) return bad_input("node '" + node.name + "': '" + node.op + "' is an op of the planner's own; no model has it");
  }
  return Done{};
}

}  // namespace

Result<Graph> Frontend::read(const std::string& path, const OpenDimensions& open) const {
  return guarded([&] { return path + ": the frontend"; }, [&]() -> Result<Graph> {
    if (Status status = check_file(path); !status) return status.error();
    Result<Graph> graph = do_read(path, open);
    if (!graph) return graph;
    if (Status status = check_ops(*graph); !status) return add_context(path, status.error());
    if (Status status = validate(*graph); !status) return add_context(path, status.error());
    return graph;
  });
}

Result<std::map<std::string, Tensor>> Frontend::tensors(const std::string& path) const {
  return guarded([&] { return path + ": the frontend"; }, [&]() -> Result<std::map<std::string, Tensor>> {
    if (Status status = check_file(path); !status) return status.error();
    return do_tensors(path);
  });
}

Result<std::map<std::string, Tensor>> Frontend::do_tensors(const std::string&) const {
  return std::map<std::string, Tensor>{};
}

}  // namespace meshwright
