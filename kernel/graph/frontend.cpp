#include "meshwright/frontend.h"

#include <exception>

namespace meshwright {

Frontend::~Frontend() = default;

Result<Graph> Frontend::read(const std::string& path, const OpenDimensions& open) const {
  try {
    Result<Graph> graph = do_read(path, open);
    if (!graph) return graph;
    if (Status status = validate(*graph); !status) return add_context(path, status.error());
    return graph;
  } catch (const std::exception& problem) {
    return plugin_failed(path + ": the frontend threw an exception: " + problem.what());
  }
}

Result<std::map<std::string, Tensor>> Frontend::tensors(const std::string& path) const {
  try {
    return do_tensors(path);
  } catch (const std::exception& problem) {
    return plugin_failed(path + ": the frontend threw an exception: " + problem.what());
  }
}

Result<std::map<std::string, Tensor>> Frontend::do_tensors(const std::string&) const {
  return std::map<std::string, Tensor>{};
}

}  // namespace meshwright
